"""Daemons killed at random moments: nothing half-pushed, nothing done twice, nothing lost; and one takes over another's
work."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess

import pytest

from scaler.model.task import Moments
from tests.service.daemons import now_of, open_daemons, wait_for
from tests.service.world import World, describe, into, live, orders_of, register
from tests.store.conftest import POSTGRES
from tuner.retuning.loop import run_once
from tuner.store.audit_log import list_events
from tuner.store.connection import Store
from tuner.store.objectives import list_objectives
from tuner.store.records import TuningRun
from tuner.store.runs import RETUNING_LEASE_S, add_request, claim_retuning, find_retuning, list_runs, name_owner
from tuner.store.trials import load_history

Start = Callable[[str], BaseProcess]
TAKES = Moments(0.02, 0.0002)
SETTINGS = {
    "budget": 5,
    "engine": "random",
    "shadow_slots": 20,
    "canary_slots": 40,
    "watch_slots": 40,
    "check_s": 600.0,
}


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    with open_daemons() as starting:
        yield starting


def prepare(store: Store, app: str = "shop") -> World:
    """An application that is due for its first tuning."""
    world = World(app, {"parse": TAKES, "count": TAKES}, start=(6,))
    register(store, app, describe(app, world.truth, 0.25, 12), SETTINGS)
    live(world, store, 90)
    return world


def check_whole(store: Store, app: str) -> None:
    """What holds at any moment."""
    with store.read() as session:
        objectives = list_objectives(session, app)
        events = list_events(session, app, limit=None)
        runs = list_runs(session, app)
        trials = [load_history(session, run.id or 0) for run in runs]
    orders = orders_of(store, app)  # after: at least as new
    assert [one.version for one in objectives] == list(range(len(objectives), 0, -1))
    counts = Counter(one.state for one in objectives)
    assert counts["shadow"] + counts["canary"] <= 1
    assert counts["full"] <= 1
    pushes = Counter((e.detail["version"], e.detail["stage"]) for e in events if e.what == "pushed")
    assert not [push for push, count in pushes.items() if count > 1]
    for one in objectives:
        if one.state in ("shadow", "canary", "full"):
            assert pushes[one.version, one.state] == 1
            assert orders is not None
    assert len(runs) == sum(1 for e in events if e.what == "tuning started")
    for history in trials:
        assert [trial.number for trial in history] == list(range(len(history)))


def how_far(store: Store, app: str) -> tuple[str, int, int]:
    """Phase, trials and events."""
    with store.read() as session:
        watch = find_retuning(session, app)
        runs = list_runs(session, app)
        trials = sum(len(load_history(session, run.id or 0)) for run in runs)
        return "" if watch is None else watch.phase, trials, len(list_events(session, app, limit=None))


def is_settled(store: Store, app: str) -> bool:
    with store.read() as session:
        return any(e.what == "settled" for e in list_events(session, app))


def kill_often(store: Store, address: str, start: Start, kills: int, seed: int, others: int = 0) -> None:
    """Kill the one that has run longest, beside so many others, and start another."""
    chance, world = random.Random(seed), prepare(store)
    daemons = [start(address) for _ in range(others)]
    report = into(store)

    def go_on() -> None:
        if chance.random() < 0.3:
            world.step(orders_of(store, world.app), report)
        time.sleep(0.01)

    seen: set[str] = set()
    for _ in range(kills):  # after the next thing that it did: so they are spread over all, however slow the machine
        daemons.append(start(address))
        before = how_far(store, world.app)
        if before[0] == "idle":  # all is done: once more
            with store.begin() as session:
                add_request(session, world.app, {"tune": {"who": "a test"}})
        until = time.monotonic() + 20.0
        while how_far(store, world.app) == before and time.monotonic() < until:
            go_on()
        time.sleep(chance.uniform(0.0, 0.2))
        process = daemons.pop(0)
        process.kill()
        process.join()
        seen.add(how_far(store, world.app)[0])
        check_whole(store, world.app)
    assert len(seen) >= min(kills // 5, 3), seen
    start(address)
    wait_for(lambda: is_settled(store, world.app), 120.0, go_on)
    check_whole(store, world.app)
    with store.read() as session:
        assert [run.state for run in list_runs(session, world.app)][-1] == "done"
        orders, full = orders_of(store, world.app), list_objectives(session, world.app, ("full",))
    assert orders is not None
    assert orders.objective is not None
    assert [orders.objective.version] == [one.version for one in full]


@pytest.mark.slow
@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_a_daemon_may_be_killed(store: Store, address: str, start: Start) -> None:
    kill_often(store, address, start, kills=3, seed=1)


@pytest.mark.long
@pytest.mark.slow
def test_a_daemon_may_be_killed_at_twenty_moments(store: Store, address: str, start: Start) -> None:
    kill_often(store, address, start, kills=20, seed=2)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("address", [pytest.param("postgresql", marks=POSTGRES)], indirect=True)
def test_one_of_three_daemons_may_be_killed(store: Store, address: str, start: Start) -> None:
    """Each stage is pushed once, by whichever holds the lease."""
    kill_often(store, address, start, kills=9, seed=3, others=2)


@pytest.mark.slow
@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_asked_to_end_it_ends_at_once_and_lets_go(store: Store, address: str, start: Start) -> None:
    world = prepare(store)
    process = start(address)
    wait_for(lambda: bool(read_runs(store, world.app)))  # it searches
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    process.join(30.0)
    assert process.exitcode == 0
    with store.read() as session:
        watch = find_retuning(session, world.app)
    assert watch is not None
    assert watch.owner is None
    run_once(store, lambda: now_of(store))
    assert [run.state for run in read_runs(store, world.app)] == ["done"]


@pytest.mark.slow
@pytest.mark.parametrize("address", [pytest.param("postgresql", marks=POSTGRES)], indirect=True)
def test_two_daemons_share_the_work_and_one_takes_over(store: Store, address: str, start: Start) -> None:
    worlds = {app: prepare(store, app) for app in ("shop", "till")}
    daemons = [start(address), start(address)]
    wait_for(lambda: any(read_runs(store, app) for app in worlds))
    owner = next(run.owner for app in worlds for run in read_runs(store, app))
    assert owner is not None
    dead = next(daemon for daemon in daemons if str(daemon.pid) == owner.split(":")[1])
    dead.kill()
    dead.join()

    def go_on() -> None:
        for world in worlds.values():
            live(world, store, 1)

    wait_for(lambda: all(has_ended(store, app) for app in worlds), 120.0, go_on)
    for app in worlds:
        check_whole(store, app)
        assert [run.state for run in read_runs(store, app)][-1] == "done"


def test_a_daemon_elsewhere_is_followed_when_its_lease_has_run_out(store: Store) -> None:
    world, elsewhere = prepare(store), "another machine:1:aa"
    with store.begin() as session:
        assert claim_retuning(session, world.app, elsewhere, time.time()) is not None
    assert run_once(store, lambda: world.now) == []
    with store.begin() as session:
        held = claim_retuning(session, world.app, name_owner(), time.time() + RETUNING_LEASE_S + 1.0)
        assert held is not None  # which has it now, of this machine and alive
    assert run_once(store, lambda: world.now) == []


def read_runs(store: Store, app: str) -> list[TuningRun]:
    with store.read() as session:
        return list(list_runs(session, app))


def has_ended(store: Store, app: str) -> bool:
    with store.read() as session:
        return bool(list_events(session, app, ["tuning ended"]))
