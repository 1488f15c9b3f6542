"""Offers of history at a driver: a document that cannot be used is refused once, and no sound policy is lost to it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from scaler.agent import known_history
from scaler.agent.decider import Decider
from scaler.agent.known_history import HistoryOffer
from scaler.agent.policy_instance import PolicyInstance
from scaler.model.experience import share_experience
from scaler.model.nodes import Deployment
from scaler.model.orders import Objective, ObjectiveModel, OperatorModel, Orders
from scaler.model.policy import Observation, Transition, build_policy
from scaler.policies import find_policy
from tests.examples import make_rates, make_task

TASK = make_task(k_max=6, one_at_a_time=False)
SLOT_S, LEARNED = 60.0, 40


def observe(slot: int, rate: float) -> Observation:
    return Observation(1e6 + SLOT_S * slot, rate, 0.3, 0.02, Deployment((2, 0, 0)))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    policy = build_policy(find_policy("planner"), TASK)
    course = [observe(slot, rate) for slot, rate in enumerate(make_rates(LEARNED + 1).tolist())]
    for before, after in pairwise(course):
        policy.learn(Transition(before, after))
    shared = share_experience(policy, "planner", SLOT_S)
    assert shared is not None
    sent: dict[str, Any] = json.loads(json.dumps(shared))
    return sent


def make_orders(document: Any) -> Orders:
    operator = OperatorModel(TASK.moments, TASK.k_max, TASK.highest_rate)
    model = ObjectiveModel("planner", TASK.types, {"parse": operator})
    objective = Objective(1, TASK.weights, {"parse": TASK.bound}, model)
    return Orders("shop", 1, SLOT_S, objective, experience={} if document is None else {"parse": document})


class Driver:
    """A driver that has decided for ten slots before anything was offered."""

    def __init__(self) -> None:
        self.decider, self.slots = Decider("parse", TASK.types, slot_s=SLOT_S), 0
        for _ in range(10):
            self.step(None)

    @property
    def instance(self) -> PolicyInstance:
        return self.decider.instances[1]

    def step(self, document: Any) -> list[str]:
        """The codes of what goes on record of a slot under orders that came anew."""
        seen = observe(self.slots, 100.0 + self.slots)
        self.slots += 1
        step = self.decider.step(seen, make_orders(copy.copy(document)), seen.time)
        self.decider.actuated(step, step.change)
        return [note.code for note in step.decision.seen.notes]


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    assert driver.instance.fault == ""


def test_a_sound_history_is_begun_with_once(driver: Driver, document: dict[str, Any]) -> None:
    before = driver.instance
    assert [driver.step(document) for _ in range(3)] == [["began_with_history"], [], []]
    assert driver.instance is not before


@pytest.mark.parametrize("slots", [1e308, 10**308, 10**400, 2**31 + 1, 10**5, LEARNED + 1])
def test_slots_that_nobody_learned_are_refused_once(driver: Driver, document: dict[str, Any], slots: Any) -> None:
    before = driver.instance
    assert [driver.step({**document, "slots": slots}) for _ in range(3)] == [["history_refused"], [], []]
    assert driver.instance is before
    assert driver.step(document) == ["began_with_history"]


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": [{"name": f"a{i}", "speedup": 1.0, "price": 1.0} for i in range(60_000)]},
        {"slot_s": float("nan")},
        {"format": float("nan")},
        {"arrays": ""},
    ],
    ids=["nodes", "length", "format", "arrays"],
)
def test_one_document_is_refused_once(driver: Driver, document: dict[str, Any], changes: dict[str, Any]) -> None:
    before = driver.instance
    text = json.dumps({**document, **changes})  # each slot reads it anew: NaN is unequal to NaN
    assert [driver.step(json.loads(text)) for _ in range(3)] == [["history_refused"], [], []]
    assert driver.instance is before


def nest(depth: int) -> list[Any]:
    lists: list[Any] = []
    for _ in range(depth):
        lists = [lists]
    return lists


def test_deep_documents_do_not_stop_the_driver(driver: Driver, document: dict[str, Any]) -> None:
    said = [driver.step({**document, "more": nest(100_000)}) for _ in range(3)]
    assert said == [["history_refused"], [], []]
    assert driver.step(float("nan")) == ["history_refused"]
    assert driver.step(float("nan")) == []
    assert driver.step(document) == ["began_with_history"]


def test_a_sentence_that_fails_leaves_the_policy(
    driver: Driver, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(seconds: float) -> str:
        raise OverflowError(seconds)

    monkeypatch.setattr(known_history, "describe_span", fail)
    before = driver.instance
    assert [driver.step(document) for _ in range(2)] == [["history_refused"], []]
    assert driver.instance is before


def test_a_policy_that_fails_anew_is_not_taken(
    driver: Driver, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(offer: HistoryOffer, *_: object) -> bool:
        raise OverflowError(offer.digest)

    monkeypatch.setattr(HistoryOffer, "give", fail)
    before = driver.instance
    assert [driver.step(document) for _ in range(2)] == [["history_refused"], []]
    assert driver.instance is before
