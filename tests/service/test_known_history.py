"""What the tuner learned from an application's history reaches a driver on its first day, over HTTP, and lasts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from scaler.agent.decider import Decider
from scaler.link import Link, LinkSettings
from scaler.model.decision import Decision
from scaler.model.nodes import Deployment
from scaler.model.orders import Orders, parse_orders
from scaler.model.policy import Observation
from scaler.model.task import Moments
from tests.commands import succeed
from tests.service.serve_process import add_secret
from tests.service.world import NODES, SLOT_S, World, describe, into, live, register
from tuner.retuning.phases import replay_known_history
from tuner.retuning.state import DaemonContext
from tuner.rollout.known_history import find_unlearned
from tuner.store.applications import add_application
from tuner.store.connection import Store
from tuner.store.decisions import save_decisions
from tuner.store.known_histories import find_history
from tuner.store.orders import load_orders
from tuner.store.records import DecisionRecord

pytestmark = pytest.mark.slow
APP, SLOTS = "shop", 180
TAKES = Moments(0.02, 0.0002)
OBJECTIVE = {"weights": {"perf": 0.6, "rcf": 0.2, "res": 0.2}, "bounds": {"parse": 0.12}, "why": "to begin with"}


@pytest.fixture
def world(store: Store) -> World:
    """An application that was monitored for three hours, and pursues nothing yet."""
    world = World(APP, {"parse": TAKES})
    register(store, APP, describe(APP, world.truth, r_max=0.12), {})
    live(world, store, SLOTS, into(store))
    return world


def push(client: httpx.Client) -> None:
    path = f"/v1/applications/{APP}/objectives"
    assert client.post(path, json=OBJECTIVE).status_code == 201
    assert client.post(f"{path}/1/push", json={"stage": "full", "why": "to begin with"}).status_code == 200


@contextmanager
def linked(url: str, store: Store, folder: Path) -> Iterator[Orders]:
    """The orders as an agent's link fetches them."""
    link = Link(url, APP, ["parse"], add_secret(store, folder.name, ("report",)), folder, "driver",
                settings=LinkSettings(wait_s=1.0))  # fmt: skip
    link.start()
    try:
        until = time.monotonic() + 60.0
        while link.orders() is None:
            assert time.monotonic() < until
            time.sleep(0.02)
        orders = link.orders()
        assert orders is not None
        yield orders
    finally:
        link.stop()


def decide(decider: Decider, orders: Orders, world: World, slot: int) -> Decision:
    """One slot of a driver that has just started."""
    rate, now = world.rate(), world.now + SLOT_S * slot
    response, utilisation, _ = world.respond("parse", rate)
    step = decider.step(Observation(now, rate, utilisation, response, Deployment((4,))), orders, now)
    decider.actuated(step, step.change)
    return step.decision


def test_a_driver_begins_its_first_day_with_the_history(
    client: httpx.Client, url: str, store: Store, world: World, tmp_path: Path
) -> None:
    push(client)
    replay_known_history(DaemonContext(store, "a daemon", lambda: world.now), APP)
    with store.read() as session:
        known = find_history(session, APP, [1])
        assert find_unlearned(session, APP) is None
    assert known is not None
    assert (known.slots, known.slot_s, known.since) == (SLOTS, SLOT_S, world.now - SLOTS * SLOT_S)
    decider = Decider("parse", NODES)
    with linked(url, store, tmp_path / "first") as orders:
        first, later = (decide(decider, orders, world, slot) for slot in range(2))
    assert [(note.code, note.message) for note in first.seen.notes] == [
        ("began_with_history", "began with 3 hours of history (179 slots)")
    ]
    assert later.seen.notes == ()
    assert later.seen.history_s == 179 * SLOT_S
    policy = decider.instances[1].policy
    assert policy is not None
    assert policy.count_slots() == 180
    assert policy.state.chain.visits.sum() > 150.0
    check_shown(client, store, later)
    check_restart(decider, orders, world)


def check_shown(client: httpx.Client, store: Store, decision: Decision) -> None:
    """By the commands, from what was stored."""
    with store.begin() as session:
        save_decisions(session, [DecisionRecord(APP, "parse", **decision.to_json())])
    place = ("--store", store.address.path or store.address.url)
    assert "3 hours" in succeed("objectives", APP, *place)
    assert "began with 3 hours of history" in " ".join(succeed("explain", APP, *place).split())


def check_restart(decider: Decider, orders: Orders, world: World) -> None:
    """What was learned outlives the driver, without orders at first; and is not begun with twice."""
    again = Decider("parse", NODES)
    again.load(decider.save())
    decision = decide(again, orders, world, 2)
    assert decision.seen.history_s == 179 * SLOT_S
    assert decision.seen.notes == ()
    policy = again.instances[1].policy
    assert policy is not None
    assert policy.count_slots() == 181


def test_a_damaged_history_stops_nothing(client: httpx.Client, store: Store, world: World) -> None:
    push(client)
    with store.read() as session:
        stored = load_orders(session, APP)
    assert stored is not None
    reasons = {
        "it is of format 9, and this agent reads format 1": {"format": 9},
        "it takes 300,000 bytes, and may take 262,144": {"format": 1, "arrays": "A" * 300_000},
        "it is damaged (it holds no arrays)": {"format": 1},
        "it is of format None, and this agent reads format 1": "a text",
    }
    for why, document in reasons.items():
        orders = parse_orders({**stored.document, "revision": 1, "experience": {"parse": document}})
        decider = Decider("parse", NODES)
        first, later = (decide(decider, orders, world, slot) for slot in range(2))
        assert [note.message for note in first.seen.notes] == [
            f"the history that came with the orders is not used: {why}"
        ]
        assert (later.seen.notes, later.seen.history_s, later.objective_version) == ((), None, 1)
    orders = parse_orders({**stored.document, "revision": 1, "experience": 7})
    assert decide(Decider("parse", NODES), orders, world, 0).seen.notes == ()


def test_who_learned_more_keeps_its_own(client: httpx.Client, store: Store, world: World) -> None:
    push(client)
    with store.read() as session:
        before = load_orders(session, APP)
    replay_known_history(DaemonContext(store, "a daemon", lambda: world.now), APP)
    with store.read() as session:
        after = load_orders(session, APP)
    assert before is not None
    assert after is not None
    assert after.revision == before.revision + 1
    without, offered = (parse_orders({**one.document, "revision": one.revision}) for one in (before, after))
    young, old = Decider("parse", NODES), Decider("parse", NODES)
    for slot in range(220):
        decide(old, without, world, slot)
        if slot >= 200:
            decide(young, without, world, slot)
    assert decide(old, offered, world, 220).seen.notes == ()
    assert [note.code for note in decide(young, offered, world, 220).seen.notes] == ["began_with_history"]
    policies = [one.instances[1].policy for one in (old, young)]
    assert [policy and policy.count_slots() for policy in policies] == [220, 179 + 20]


def test_an_application_without_a_history_says_so_once(client: httpx.Client, store: Store) -> None:
    with store.begin() as session:
        add_application(session, APP, describe(APP, {"parse": TAKES}, r_max=0.12), 1.0)
    push(client)
    replay_known_history(DaemonContext(store, "a daemon", lambda: 2.0), APP)
    with store.read() as session:
        assert find_unlearned(session, APP) is None
        orders = load_orders(session, APP)
    assert orders is not None
    assert "experience" not in orders.document
    assert client.get(f"/objectives/1?app={APP}").status_code in (200, 303, 401)
