"""What became of a decision: done, refused, pending, never arrived."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.agent.decider import Decider
from scaler.agent.pending import expect_arrivals
from scaler.agent.record import conclude
from scaler.model.nodes import NOTHING, Deployment
from tests.pilot.drive import (
    NODES,
    SLOT,
    make_objective,
    make_orders,
    observe,
)


def test_a_failed_actuation_is_recorded_and_not_repeated_at_once() -> None:
    pilot = Decider("parse", NODES, retry_s=300.0)
    orders = make_orders(make_objective())
    kinds = []
    for t in range(8):
        step = pilot.step(observe(Deployment((1, 0, 0)), 600.0, SLOT * t), orders, SLOT * t)
        pilot.actuated(step, NOTHING)
        decision = conclude(step, NOTHING, "the quota is used up", pilot.names)
        kinds.append(decision.kind)
        if kinds[-1] == "ACTUATION_FAILED":
            assert decision.action is not None
            assert "no change was done: the quota is used up" in decision.reason
    assert kinds == ["ACTUATION_FAILED", *["BLOCKED"] * 4, "ACTUATION_FAILED", "BLOCKED", "BLOCKED"]
    assert pilot.memory.history.changes == ()


def test_a_replica_that_never_arrived_is_told_later() -> None:
    pilot = Decider("parse", NODES)
    orders = make_orders(make_objective())
    seen = observe(Deployment((1, 0, 0)), 200.0, 0.0)
    step = pilot.step(seen, orders, 0.0)
    pilot.actuated(step, step.change)
    assert conclude(step, step.change, "", pilot.names).kind == "SCALED"
    later = pilot.step(replace(seen, time=60.0), orders, 60.0, target=seen.deployment.after(step.change))
    assert later.decision.kind == "NO_CHANGE"  # what is on its way will do
    assert "are pending" in later.decision.reason
    assert later.decision.seen.target != later.decision.seen.deployment
    pilot.actuated(later, NOTHING)
    pilot.actuated(step, NOTHING)
    assert conclude(step, NOTHING, "it never came", pilot.names).kind == "ACTUATION_FAILED"
    assert pilot.step(replace(seen, time=120.0), orders, 120.0).decision.kind == "BLOCKED"


@pytest.mark.parametrize(
    ("there", "asked", "share"),
    [
        ((1, 0, 0), (2, 0, 0), 1 / 2),
        ((2, 0, 0), (3, 0, 0), 2 / 3),
        ((2, 0, 0), (2, 1, 0), 2 / (3 * 0.7)),  # the slowest sets the pace of all
        ((0, 2, 0), (1, 1, 0), 1.0),
        ((2, 0, 0), (1, 0, 0), 2.0),
    ],
)
def test_the_work_seen_is_shared_with_those_to_come(
    there: tuple[int, ...], asked: tuple[int, ...], share: float
) -> None:
    seen = observe(Deployment(there), 100.0, 0.0)
    later = expect_arrivals(seen, Deployment(asked), NODES)
    assert later.deployment.replicas == asked
    assert later.utilisation == pytest.approx(share * seen.utilisation)
    assert (later.rate, later.response) == (seen.rate, seen.response)


def test_speeds_are_the_objectives_and_not_what_the_driver_believes() -> None:
    """A driver that was told no speeds takes each node type for as fast as the others."""
    flat = tuple(replace(node, speedup=1.0) for node in NODES)
    pilot = Decider("parse", flat)
    seen = observe(Deployment((2, 0, 0)), 200.0, 0.0)
    step = pilot.step(seen, make_orders(make_objective()), 0.0, target=Deployment((2, 1, 0)))
    assert "pending (1 on A2, now 0)" in step.decision.reason
    assert pilot.instances[1].match_nodes(flat) == NODES
