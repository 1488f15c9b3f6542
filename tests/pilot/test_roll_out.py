"""Candidates by stage: shadow decisions change nothing, canaries lead, what was learned stays."""

from __future__ import annotations

import numpy as np
import pytest

from scaler.agent.decider import Decider
from scaler.model.decision import Decision
from scaler.model.nodes import Deployment
from scaler.model.orders import Orders
from tests.pilot.drive import (
    BOUND,
    CONSTANT,
    NODES,
    SLOT,
    drive,
    make_objective,
    make_orders,
    observe,
    real,
)


@pytest.mark.parametrize("stage", ["shadow", "canary"])
@pytest.mark.parametrize("policy", ["planner", "threshold-c", "ql-pds-plus", "pid-s"])
def test_a_shadow_never_changes_the_real_decision(policy: str, stage: str) -> None:
    candidate = {"objective": make_objective(2, policy), "stage": stage, "operators": ["another"]}
    objective = make_objective(1, "ql-pds")
    alone, _ = drive(Decider("parse", NODES), make_orders(objective), 200)
    beside, _ = drive(Decider("parse", NODES), make_orders(objective, candidate), 200)
    assert real(beside) == alone
    shadows = [d.shadow for d in beside]
    assert all(s is not None and s.version == 2 and s.bound == BOUND + CONSTANT for s in shadows)
    follow_the_shadow(beside)


def follow_the_shadow(decisions: list[Decision]) -> None:
    """Its deployment is what its actions made of it, and its response what the queue says."""
    counts: dict[str, int] | None = None
    for decision in decisions:
        shadow = decision.shadow
        assert shadow is not None
        assert counts is None or shadow.deployment == counts
        counts = dict(shadow.deployment)
        deployment = Deployment(tuple(counts[n.name] for n in NODES))
        assert shadow.response == observe(deployment, decision.rate or 0.0, 0.0).response
        assert shadow.price == sum(n.price * counts[n.name] for n in NODES)
        for name, delta in shadow.change.items():
            counts[name] += delta


def test_a_roll_out_from_shadow_to_full() -> None:
    old, new = make_objective(1, "threshold-p"), make_objective(2, "threshold-s")

    def orders(t: int) -> Orders:
        if t < 50:
            return make_orders(old, {"objective": new, "stage": "shadow"})
        if t < 110:  # half of each period of 20 slots
            return make_orders(old, {"objective": new, "stage": "canary", "share": 0.5, "period_s": 20 * SLOT})
        return make_orders(new)

    pilot = Decider("parse", NODES)
    decisions, _ = drive(pilot, orders, 150)
    led = [d.objective_version for d in decisions]
    assert led[:50] == [1] * 50
    assert led[50:110] == [2 if t % 20 < 10 else 1 for t in range(50, 110)]
    assert led[110:] == [2] * 40
    assert all((d.shadow is None) == (d.objective_version == 2) for d in decisions)
    assert set(pilot.instances) == {2}
    stretches = [decisions[a:b] for a, b in ((0, 50), (50, 60), (70, 80), (90, 100))]
    for stretch in (s for s in stretches if s[0].shadow):
        assert stretch[0].shadow.deployment == stretch[0].seen.deployment
        follow_the_shadow(stretch)


def test_a_stage_that_ends_early_is_forgotten() -> None:
    old, new = make_objective(1), make_objective(2, "planner")
    pilot = Decider("parse", NODES)
    drive(pilot, make_orders(old, {"objective": new, "stage": "shadow"}), 20)
    assert set(pilot.instances) == {1, 2}
    drive(pilot, make_orders(old), range(20, 22))
    assert set(pilot.instances) == {1}


def test_a_new_objective_begins_with_what_was_seen_before() -> None:
    pilot = Decider("parse", NODES)
    drive(pilot, make_orders(make_objective(1, "static")), 300)
    learned = []
    for t in range(300, 303):
        drive(pilot, make_orders(make_objective(2, "planner"), pin={}), range(t, t + 1))
        learned.append(int(pilot.instances[2].policy.save()["clock"][0]))  # type: ignore[union-attr]
        other = Decider("parse", NODES)
        other.load(pilot.save())
        assert other.instances[2].unlearned == pilot.instances[2].unlearned
    assert learned == [250, 301, 302]  # so much in a slot; 299 from before, and the slots themselves


def test_a_push_hands_over_all_that_was_learned_of_the_workload() -> None:
    """More slots than transitions are kept; the weights and the bound are others."""
    pilot = Decider("parse", NODES, kept=50)
    _, deployment = drive(pilot, make_orders(make_objective(1, "planner")), 400)
    before = pilot.instances[1].policy.save()  # type: ignore[union-attr]
    pushed = {**make_objective(2, "planner"), "weights": {"perf": 0.2, "rcf": 0.2, "res": 0.6}}
    drive(pilot, make_orders(pushed), range(400, 401), deployment=deployment)
    after = pilot.instances[2].policy.save()  # type: ignore[union-attr]
    assert int(before["clock"][0]) == 399
    assert int(after["clock"][0]) == 400
    assert float(after["chain.visits"].sum()) > float(before["chain.visits"].sum()) > 0.0
    assert (after["capacity.sights"] >= before["capacity.sights"]).all()
    assert not pilot.instances[2].unlearned
    assert not pilot.instances[2].replays  # 50 in one slot
    restored = Decider("parse", NODES)
    restored.load(pilot.save())
    np.testing.assert_array_equal(restored.instances[2].policy.save()["chain.rates"], after["chain.rates"])  # type: ignore[union-attr]


def test_a_version_that_is_used_twice_is_taken_anew() -> None:
    pilot = Decider("parse", NODES)
    drive(pilot, make_orders(make_objective(1, "static")), 5)
    decisions, _ = drive(pilot, make_orders(make_objective(1, "threshold-s")), range(5, 40))
    assert any(d.kind == "SCALED" for d in decisions)


def test_guards_remember_across_objectives() -> None:
    guards = {"cooldown": {"out_s": 36000, "in_s": 36000}}
    pilot = Decider("parse", NODES)
    orders = make_orders(make_objective(1, "threshold-s"), **guards)
    first, deployment = drive(pilot, orders, 100)
    assert sum(d.kind == "SCALED" for d in first) == 1
    second, _ = drive(
        pilot, make_orders(make_objective(2, "threshold-s"), **guards), range(100, 200), deployment=deployment
    )
    assert {d.kind for d in second} == {"BLOCKED", "NO_CHANGE"}
    blocked = next(d for d in second if d.kind == "BLOCKED")
    assert "which was blocked by cooldown: the last change was" in blocked.reason
    assert blocked.action is None
