"""Objectives are pushed stage by stage, one at a time, with what scalers are told; and back."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest

from scaler.model.errors import BadInput
from scaler.model.orders import Orders, parse_orders, to_task
from scaler.model.task import Moments, Weights
from tests.service.world import START, describe, orders_of
from tuner.rollout.issued_orders import issue_orders, write_orders
from tuner.rollout.push import DAEMON, propose_objective, push, roll_back
from tuner.store.applications import add_application
from tuner.store.audit_log import list_events
from tuner.store.connection import Store
from tuner.store.objectives import StageFigures, find_full_objective, list_objectives, load_objective
from tuner.store.orders import load_orders, set_control
from tuner.store.records import Control, ObjectiveRecord

APP = "shop"
OPERATORS = {"parse": Moments(0.02, 0.0002), "count": Moments(0.01, 0.0001)}
WEIGHTS = Weights(0.6, 0.2, 0.2)


@pytest.fixture
def shop(store: Store) -> Store:
    with store.begin() as session:
        add_application(session, APP, describe(APP, OPERATORS, 0.12), START)
    return store


def propose(store: Store, parse: float = 0.05, count: float = 0.05) -> int:
    with store.begin() as session:
        made = propose_objective(session, APP, WEIGHTS, {"parse": parse, "count": count}, "ann", START)
    assert made.version is not None
    return made.version


def go(store: Store, version: int, *stages: str, who: str = "ann") -> ObjectiveRecord:
    for stage in stages:
        with store.begin() as session:
            moved = push(session, APP, version, stage, who, "a test", START)
    return moved


def states(store: Store) -> Mapping[int | None, str]:
    with store.read() as session:
        return {one.version: one.state for one in list_objectives(session, APP)}


def told(store: Store) -> Orders:
    orders = orders_of(store, APP)
    assert orders is not None
    return orders


def test_scalers_are_told_the_objective_whole(shop: Store) -> None:
    go(shop, propose(shop), "full")
    objective = told(shop).objective
    assert objective is not None
    target = objective.model.operators["parse"]
    assert (objective.bounds["parse"], target.moments, target.k_max) == (0.05, Moments(0.02, 0.0002), 8)
    assert target.highest_rate == pytest.approx(8 / 0.02)  # nothing says at which rates tuples come: what can be served
    task = to_task(objective, "count")
    assert (task.weights, task.types[0].name, told(shop).slot_s) == (WEIGHTS, "small", 60.0)


def test_a_version_tells_the_same_whatever_is_described_later(shop: Store) -> None:
    go(shop, propose(shop), "full")
    before = told(shop).objective
    with shop.begin() as session:
        add_application(session, APP, describe(APP, {**OPERATORS, "parse": Moments(0.03, 0.0)}, 0.12), START)
        issue_orders(session, APP, START)
    assert told(shop).objective == before


def test_orders_change_with_what_changes_them_and_only_then(shop: Store) -> None:
    version = propose(shop)
    with shop.read() as session:
        assert load_orders(session, APP) is None
    go(shop, version, "shadow")
    assert told(shop).revision == 1
    go(shop, version, "shadow")  # an answer was lost
    assert told(shop).revision == 1
    with shop.begin() as session:
        set_control(session, Control(APP, "parse", "direction_lock", {"only": "out"}, "ann", START, until=START + 60.0))
        issue_orders(session, APP, START)
    assert told(shop).guards == {"parse": {"direction_lock": {"only": "out"}}}
    with shop.begin() as session:
        assert issue_orders(session, APP, START + 61.0).revision == 3
    assert told(shop).guards == {}


def test_a_canary_is_the_operator_whose_bound_changes_least(shop: Store) -> None:
    go(shop, propose(shop, 0.05, 0.05), "full")
    second = propose(shop, 0.07, 0.052)
    go(shop, second, "shadow")
    candidate = told(shop).candidate
    assert candidate is not None
    assert not candidate.leads("count", START)
    go(shop, second, "canary")
    candidate = told(shop).candidate
    assert candidate is not None
    assert candidate.leads("count", START)
    assert not candidate.leads("parse", START)


def test_a_single_operator_is_a_canary_half_of_the_time(store: Store) -> None:
    with store.begin() as session:
        add_application(session, APP, describe(APP, {"parse": Moments(0.02, 0.0)}, 0.12), START)
        made = propose_objective(session, APP, WEIGHTS, {"parse": 0.05}, "ann", START)
        push(session, APP, made.version or 0, "canary", "ann", "", START)
    candidate = told(store).candidate
    assert candidate is not None
    led = [candidate.leads("parse", START + 60.0 * slot) for slot in range(480)]
    assert sum(led) == 240
    assert sum(a != b for a, b in pairwise(led)) <= 4  # in long stretches


def test_stages_are_skipped_by_people_alone_and_on_record(shop: Store) -> None:
    version = propose(shop)
    with pytest.raises(ValueError, match="cannot skip shadow"):
        go(shop, version, "canary", who=DAEMON)
    go(shop, version, "full")
    with shop.read() as session:
        evidence = load_objective(session, APP, version).evidence
        event = list_events(session, APP, ["pushed"])[0]
    assert evidence["full"]["skipped"] == event.detail["skipped"] == ["shadow", "canary"]
    assert event.message == f"ann pushed objective {version} to full, past shadow and canary: a test"


def test_one_objective_at_a_time_is_on_its_way_in(shop: Store) -> None:
    first, second = propose(shop), propose(shop, 0.06)
    go(shop, first, "shadow")
    for stage in ("shadow", "full"):
        with pytest.raises(BadInput, match="objective 1 of 'shop' is in shadow, and one at a time"):
            go(shop, second, stage)
    go(shop, first, "canary", "full")
    with pytest.raises(BadInput, match="comes after canary"):
        go(shop, first, "canary")
    with pytest.raises(BadInput, match="must be one of shadow, canary, full"):
        go(shop, second, "proposed")
    go(shop, second, "shadow")
    assert states(shop) == {1: "full", 2: "shadow"}


def test_a_push_that_fails_leaves_nothing_of_itself(shop: Store) -> None:
    version = propose(shop)

    def fail() -> None:
        with shop.begin() as session:
            push(session, APP, version, "full", "ann", "", START)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert states(shop) == {1: "proposed"}
    with shop.read() as session:
        assert load_orders(session, APP) is None
        assert list_events(session, APP, ["pushed"]) == []


@pytest.mark.parametrize("stage", ["shadow", "canary"])
def test_a_candidate_is_taken_back_and_what_stands_stays(shop: Store, stage: str) -> None:
    go(shop, propose(shop), "full")
    go(shop, propose(shop, 0.06), *(("shadow",) if stage == "shadow" else ("shadow", "canary")))
    figures = StageFigures(violations=0.3)
    with shop.begin() as session:
        bad = roll_back(session, APP, DAEMON, "it broke R_max", START + 5.0, figures)
    assert states(shop) == {1: "full", 2: "reverted"}
    reverted = {"why": "it broke R_max", "when": START + 5.0, "who": DAEMON, "stage": stage}
    assert bad.evidence["reverted"] == {**reverted, "figures": {"violations": 0.3}}
    assert told(shop).candidate is None
    with shop.read() as session:
        event = list_events(session, APP, ["rolled back"])[0]
    assert event.message == f"the daemon rolled back objective 2 from {stage}: it broke R_max"
    with pytest.raises(BadInput, match=r"objective 2 of 'shop' was rolled back \(it broke R_max\)"):
        go(shop, 2, "shadow")


def test_what_was_in_full_use_goes_back_to_the_one_before(shop: Store) -> None:
    for bound in (0.04, 0.05, 0.06):
        go(shop, propose(shop, bound), "full")
    assert states(shop) == {1: "retired", 2: "retired", 3: "full"}
    with shop.begin() as session:
        roll_back(session, APP, "ann", "too slow", START)
    assert states(shop) == {1: "retired", 2: "full", 3: "reverted"}
    with shop.begin() as session:
        roll_back(session, APP, "ann", "this too", START)
        roll_back(session, APP, "ann", "and this", START)
    assert set(states(shop).values()) == {"reverted"}
    assert told(shop).objective is None
    with pytest.raises(BadInput, match="nothing to roll back"), shop.begin() as session:
        roll_back(session, APP, "ann", "more", START)
    with shop.read() as session:
        assert find_full_objective(session, APP) is None


def test_what_a_person_proposes_has_a_bound_for_every_operator(shop: Store) -> None:
    cases = [
        ({"parse": 0.05}, "operator 'count' has none"),
        ({"parse": 0.05, "count": 0.0}, "must be a positive number"),
        ({"parse": 0.05, "count": 0.05, "sink": 1.0}, "has no operator 'sink'"),
    ]
    for bounds, says in cases:
        with pytest.raises(BadInput, match=says), shop.begin() as session:
            propose_objective(session, APP, WEIGHTS, bounds, "ann", START)
    assert states(shop) == {}


def test_orders_are_what_scalers_read(shop: Store) -> None:
    go(shop, propose(shop), "shadow")
    with shop.read() as session:
        orders = load_orders(session, APP)
    assert orders is not None
    assert parse_orders(write_orders(orders)).revision == orders.revision == 1
