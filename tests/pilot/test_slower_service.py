"""Agents in slots without memory: a first rise is answered in time, and so are tuples that come to take longer."""

from __future__ import annotations

from scaler.model.orders import Orders
from scaler.model.sample import Sample
from scaler.model.task import Moments
from tests.pilot.drive import make_orders
from tests.service.world import DecisionRecord, World

BOUND, TAKES, SLOWER = 0.06, Moments(0.02, 0.0002), Moments(0.025, 0.00032)
SLOTS_TO_ANSWER = 5
DAY, LATE = 60, 0.05  # slots, and the share of them that may be late


def make_target() -> Orders:
    target = {"bound": BOUND, "mean": TAKES.mean, "variance": TAKES.variance, "k_max": 12, "highest_rate": 205.0}
    return make_orders(
        {
            "version": 1, "weights": {"perf": 0.34, "rcf": 0.33, "res": 0.33}, "policy": "planner",
            "nodes": [{"name": "small", "speedup": 1.0, "price": 1.0}], "operators": {"parse": target},
        }
    )  # fmt: skip


def test_first_days_are_seldom_late() -> None:
    """Levels that the load comes to for the first time are planned for as those that it knows are."""
    world, late = World("shop", {"parse": TAKES}, start=(6,)), []

    def report(app: str, decisions: list[DecisionRecord], samples: list[Sample]) -> None:
        late.extend(one.response is not None and one.response > BOUND for one in decisions)

    for _ in range(2 * DAY):
        world.step(make_target(), report)
    assert sum(late[:DAY]) <= LATE * DAY
    assert sum(late[DAY:]) <= LATE * DAY


def test_slower_service_is_answered_within_slots() -> None:
    world, replicas = World("shop", {"parse": TAKES}, start=(6,)), []

    def report(app: str, decisions: list[DecisionRecord], samples: list[Sample]) -> None:
        replicas.append(world.deployments["parse"].parallelism)

    orders = make_target()
    for _ in range(150):  # two days and a half, to the height of the third
        world.step(orders, report)
    before = replicas[-1]
    world.truth = {"parse": SLOWER}
    for _ in range(SLOTS_TO_ANSWER):
        world.step(orders, report)
    assert replicas[-1] > before
