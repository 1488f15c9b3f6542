"""One operator's loop: whatever it is shown, a decision with a reason and a deployment within bounds."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.errors import BadInput
from scaler.nodes import NOTHING, Deployment, NodeType, Reconfiguration
from scaler.orders import Orders, parse_orders
from scaler.pilot import Decision, Pilot, Step
from scaler.pilot.checkpoint import write_objective
from scaler.policies import POLICIES
from scaler.policy import Observation
from scaler.queueing import mg1_response
from tests.examples import SPEEDS, make_rates

NODES = tuple(NodeType(f"A{i + 1}", s, s) for i, s in enumerate(SPEEDS[:3]))
MEAN, VARIANCE, BOUND, CONSTANT, K_MAX = 1 / 180, (1 / 180) ** 2 / 2, 0.05, 0.01, 4
SLOT = 60.0
Act = Callable[[Step], Reconfiguration]


def make_objective(version: int = 1, policy: str = "threshold-o", **changes: Any) -> dict[str, Any]:
    target = {"bound": BOUND, "constant": CONSTANT, "mean": MEAN, "variance": VARIANCE, "k_max": K_MAX}
    return {
        "version": version,
        "weights": {"perf": 0.6, "rcf": 0.2, "res": 0.2},
        "policy": policy,
        "levels": 10,
        "nodes": [{"name": n.name, "speedup": n.speedup, "price": n.price} for n in NODES],
        "operators": {"parse": target | {"highest_rate": 650.0}},
    } | changes


def make_orders(
    objective: dict[str, Any] | None = None, candidate: dict[str, Any] | None = None, **guards: Any
) -> Orders:
    return parse_orders(
        {
            "application": "shop",
            "revision": 1,
            "slot_s": SLOT,
            "objective": objective,
            "candidate": candidate,
            "guards": {"": guards},
        }
    )


def observe(deployment: Deployment, rate: float, time: float) -> Observation:
    """A slot as a real operator would have it."""
    speed = min(n.speedup for n, k in zip(NODES, deployment.replicas, strict=True) if k)
    share = rate / deployment.parallelism
    response = mg1_response(share, MEAN, VARIANCE, speed) + CONSTANT
    return Observation(time, rate, share * MEAN / speed, response, deployment)


def obey(step: Step) -> Reconfiguration:
    return step.change


def drive(
    pilot: Pilot,
    orders: Callable[[int], Orders | None] | Orders | None,
    slots: range | int,
    act: Act = obey,
    deployment: Deployment = Deployment((1, 0, 0)),  # noqa: B008
    seed: int = 0,
) -> tuple[list[Decision], Deployment]:
    """Slots on a rate that wanders; every one has a decision with a reason, and keeps within bounds."""
    slots = range(slots) if isinstance(slots, int) else slots
    rates = make_rates(slots.stop, seed).tolist()
    decisions = []
    for t in slots:
        told = orders(t) if callable(orders) else orders
        step = pilot.step(observe(deployment, rates[t], SLOT * t), told, SLOT * t)
        done = act(step)
        decision = pilot.acted(step, done)
        assert decision.time == SLOT * t
        assert decision.reason
        json.dumps(decision.document())
        decisions.append(decision)
        deployment = deployment.after(done)
        assert 1 <= deployment.parallelism <= K_MAX
        assert min(deployment.replicas) >= 0
    return decisions, deployment


def real(decisions: list[Decision]) -> list[Decision]:
    return [replace(decision, shadow=None) for decision in decisions]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_decides_within_bounds_and_the_same_again(policy: str) -> None:
    orders = make_orders(make_objective(policy=policy))
    runs = [drive(Pilot("parse", NODES, seed=3), orders, 80)[0] for _ in range(2)]
    assert runs[0] == runs[1]
    assert {d.kind for d in runs[0]} <= {"SCALED", "NO_CHANGE"}
    assert all(d.objective_version == 1 and d.bound == BOUND + CONSTANT for d in runs[0])
    assert all((d.kind == "SCALED") == (d.action is not None) for d in runs[0])


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_goes_on_from_a_checkpoint(policy: str) -> None:
    candidate = {"objective": make_objective(2, policy), "stage": "shadow"}
    orders = make_orders(make_objective(1, policy), candidate, cooldown={"in_s": 300, "out_s": 120})
    whole, _ = drive(Pilot("parse", NODES, seed=3), orders, 80)
    first = Pilot("parse", NODES, seed=3)
    begun, deployment = drive(first, orders, 50)
    file = io.BytesIO()
    np.savez(file, **first.save())  # type: ignore[arg-type]
    file.seek(0)
    second = Pilot("parse", NODES, seed=3)
    second.load(dict(np.load(file)))
    ended, _ = drive(second, orders, range(50, 80), deployment=deployment)
    assert begun + ended == whole


def test_a_checkpoint_in_the_middle_of_a_step_goes_on(tmp_path: object) -> None:
    orders = make_orders(make_objective())
    first = Pilot("parse", NODES)
    step = first.step(observe(Deployment((1, 0, 0)), 600.0, 0.0), orders, 0.0)
    second = Pilot("parse", NODES)
    second.load(first.save())
    assert second.acted(step, step.change) == first.acted(step, step.change)
    assert second.history == first.history


def test_checkpoints_of_others_are_refused_and_change_nothing() -> None:
    pilot = Pilot("parse", NODES)
    drive(pilot, make_orders(make_objective(policy="ql")), 30)
    saved = pilot.save()
    with pytest.raises(BadInput, match="node types"):
        Pilot("parse", NODES[:2]).load(saved)
    for damaged in (
        {},
        {k: v for k, v in saved.items() if not k.startswith("seat.0")},
        {**saved, "pilot": np.array("[")},
    ):
        other = Pilot("parse", NODES)
        with pytest.raises(BadInput, match="checkpoint"):
            other.load(damaged)
        assert not other.kept
    assert pilot.history.changes


def test_an_objective_is_written_as_it_is_read() -> None:
    objective = make_orders(make_objective(7, "planner", provenance="trial 3")).objective
    assert objective is not None
    again = parse_orders(
        json.loads(
            json.dumps({"application": "a", "revision": 1, "slot_s": 1, "objective": write_objective(objective)})
        )
    ).objective
    assert again == objective


@pytest.mark.parametrize("stage", ["shadow", "canary"])
@pytest.mark.parametrize("policy", ["planner", "threshold-c", "ql-pds-plus", "pid-s"])
def test_a_shadow_never_changes_the_real_decision(policy: str, stage: str) -> None:
    candidate = {"objective": make_objective(2, policy), "stage": stage, "operators": ["another"]}
    objective = make_objective(1, "ql-pds")
    alone, _ = drive(Pilot("parse", NODES), make_orders(objective), 200)
    beside, _ = drive(Pilot("parse", NODES), make_orders(objective, candidate), 200)
    assert real(beside) == alone
    shadows = [d.shadow for d in beside]
    assert all(s is not None and s["version"] == 2 and s["bound"] == BOUND + CONSTANT for s in shadows)
    follow_the_shadow(beside)


def follow_the_shadow(decisions: list[Decision]) -> None:
    """Its deployment is what its actions made of it, and its response what the queue says."""
    counts: dict[str, int] | None = None
    for decision in decisions:
        shadow = decision.shadow
        assert shadow is not None
        assert counts is None or shadow["deployment"] == counts
        counts = dict(shadow["deployment"])
        deployment = Deployment(tuple(counts[n.name] for n in NODES))
        assert shadow["response"] == observe(deployment, decision.rate or 0.0, 0.0).response
        assert shadow["price"] == sum(n.price * counts[n.name] for n in NODES)
        if shadow["action"]:
            delta, name = shadow["action"].split()
            counts[name] += int(delta)


def test_a_roll_out_from_shadow_to_full() -> None:
    old, new = make_objective(1, "threshold-o"), make_objective(2, "threshold-s")

    def orders(t: int) -> Orders:
        if t < 50:
            return make_orders(old, {"objective": new, "stage": "shadow"})
        if t < 110:  # half of each period of 20 slots
            return make_orders(old, {"objective": new, "stage": "canary", "share": 0.5, "period_s": 20 * SLOT})
        return make_orders(new)

    pilot = Pilot("parse", NODES)
    decisions, _ = drive(pilot, orders, 150)
    led = [d.objective_version for d in decisions]
    assert led[:50] == [1] * 50
    assert led[50:110] == [2 if t % 20 < 10 else 1 for t in range(50, 110)]
    assert led[110:] == [2] * 40
    assert all((d.shadow is None) == (d.objective_version == 2) for d in decisions)
    assert set(pilot.seats) == {2}
    stretches = [decisions[a:b] for a, b in ((0, 50), (50, 60), (70, 80), (90, 100))]
    for stretch in (s for s in stretches if s[0].shadow):
        assert stretch[0].shadow["deployment"] == stretch[0].seen["deployment"]  # type: ignore[index]
        follow_the_shadow(stretch)


def test_a_stage_that_ends_early_is_forgotten() -> None:
    old, new = make_objective(1), make_objective(2, "planner")
    pilot = Pilot("parse", NODES)
    drive(pilot, make_orders(old, {"objective": new, "stage": "shadow"}), 20)
    assert set(pilot.seats) == {1, 2}
    drive(pilot, make_orders(old), range(20, 22))
    assert set(pilot.seats) == {1}


def test_a_new_objective_begins_with_what_was_seen_before() -> None:
    pilot = Pilot("parse", NODES)
    drive(pilot, make_orders(make_objective(1, "static")), 300)
    learned = []
    for t in range(300, 303):
        drive(pilot, make_orders(make_objective(2, "planner"), pin={}), range(t, t + 1))
        learned.append(int(pilot.seats[2].policy.save()["clock"][0]))  # type: ignore[union-attr]
        other = Pilot("parse", NODES)
        other.load(pilot.save())
        assert other.seats[2].behind == pilot.seats[2].behind
    assert learned == [250, 301, 302]  # so much in a slot; 299 from before, and the slots themselves


def test_a_version_that_is_used_twice_is_taken_anew() -> None:
    pilot = Pilot("parse", NODES)
    drive(pilot, make_orders(make_objective(1, "static")), 5)
    decisions, _ = drive(pilot, make_orders(make_objective(1, "threshold-s")), range(5, 40))
    assert any(d.kind == "SCALED" for d in decisions)


def test_guards_remember_across_objectives() -> None:
    guards = {"cooldown": {"out_s": 36000, "in_s": 36000}}
    pilot = Pilot("parse", NODES)
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


def test_a_failed_actuation_is_recorded_and_not_repeated_at_once() -> None:
    pilot = Pilot("parse", NODES, again_s=300.0)
    orders = make_orders(make_objective())
    kinds = []
    for t in range(8):
        step = pilot.step(observe(Deployment((1, 0, 0)), 600.0, SLOT * t), orders, SLOT * t)
        kinds.append((decision := pilot.acted(step, NOTHING, "the quota is used up")).kind)
        if kinds[-1] == "ACTUATION_FAILED":
            assert decision.action is not None
            assert "no change was done: the quota is used up" in decision.reason
    assert kinds == ["ACTUATION_FAILED", *["BLOCKED"] * 4, "ACTUATION_FAILED", "BLOCKED", "BLOCKED"]
    assert pilot.history.changes == ()


def test_a_replica_that_never_arrived_is_told_later() -> None:
    pilot = Pilot("parse", NODES)
    orders = make_orders(make_objective())
    seen = observe(Deployment((1, 0, 0)), 200.0, 0.0)
    step = pilot.step(seen, orders, 0.0)
    assert pilot.acted(step, step.change).kind == "SCALED"
    later = pilot.step(replace(seen, time=60.0), orders, 60.0, asked=seen.deployment.after(step.change))
    assert later.decision.kind == "NO_CHANGE"  # what is on its way will do
    assert "is on its way" in later.decision.reason
    assert later.decision.seen["asked"] != later.decision.seen["deployment"]
    pilot.acted(later, NOTHING)
    assert pilot.acted(step, NOTHING, "it never came").kind == "ACTUATION_FAILED"
    assert pilot.step(replace(seen, time=120.0), orders, 120.0).decision.kind == "BLOCKED"


SEEN = observe(Deployment((1, 0, 0)), 600.0, 0.0)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (replace(SEEN, completeness=0.4), "40 % of the metrics arrived, and 80 % are needed"),
        (replace(SEEN, rate=math.nan), "the rate is not known"),
        (replace(SEEN, rate=math.nan, response=math.nan), "the rate and the response are not known"),
        (replace(SEEN, utilisation=math.nan), "the utilisation is not known"),
        (replace(SEEN, rate=math.inf), "the rate is not known"),
        (replace(SEEN, rate=-1.0), "the rate is not known"),
        (replace(SEEN, deployment=Deployment((0, 0, 0))), "no replica runs"),
        (replace(SEEN, deployment=Deployment((1, 0))), "the deployment is not known by node type"),
    ],
)
def test_what_is_missing_is_not_zero(seen: Observation, why: str) -> None:
    decision = (pilot := Pilot("parse", NODES)).step(seen, make_orders(make_objective(policy="planner")), 0.0).decision
    assert (decision.kind, decision.action) == ("HELD", None)
    assert why in decision.reason
    assert pilot.before is None
    assert "NaN" not in json.dumps(decision.document())
    assert decision.rate is None or decision.rate == 600.0


def test_node_types_that_the_objective_does_not_know_hold() -> None:
    two = make_objective(nodes=make_objective()["nodes"][:2])
    pilot = Pilot("parse", NODES)
    decision = pilot.step(observe(Deployment((1, 0, 1)), 600.0, 0.0), make_orders(two), 0.0).decision
    assert decision.kind == "HELD"
    assert "replicas run on A3, which objective 1 does not know" in decision.reason
    assert pilot.step(observe(Deployment((1, 0, 0)), 600.0, 60.0), make_orders(two), 60.0).decision.kind == "SCALED"


def test_lists_in_another_order_are_read_by_name() -> None:
    nodes = make_objective()["nodes"]
    strange = {"name": "huge", "speedup": 0.01, "price": 0.01}  # the cheapest, and not to be had here
    mixed = make_objective(policy="threshold-c", nodes=[strange, nodes[2], nodes[0], nodes[1]])
    step = Pilot("parse", NODES).step(SEEN, make_orders(mixed, bounds={"types": {"huge": {"max": 1}}}), 0.0)
    assert step.decision.action == "+1 A2"
    assert step.change == Reconfiguration(1, 1)


def test_more_replicas_than_allowed_go_one_by_one() -> None:
    pilot = Pilot("parse", NODES, k_max=2)
    deployment = Deployment((2, 1, 1))
    for t in range(2):
        step = pilot.step(observe(deployment, 600.0, SLOT * t), make_orders(make_objective(policy="planner")), SLOT * t)
        assert step.decision.kind == "SCALED"
        assert "the limit of 2 replicas" in step.decision.reason
        deployment = deployment.after(pilot.acted(step, step.change) and step.change)
    assert deployment == Deployment((1, 0, 1))


def test_guards_that_cannot_be_read_hold() -> None:
    decision = Pilot("parse", NODES).step(SEEN, make_orders(make_objective(), levitate={}), 0.0).decision
    assert decision.kind == "HELD"
    assert "levitate" in decision.reason


@pytest.mark.parametrize("orders", [None, make_orders(None), make_orders(make_objective(operators={})),
                                    make_orders(make_objective(policy="magic"))])  # fmt: skip
def test_without_an_objective_it_holds_and_then_falls_back(orders: Orders | None) -> None:
    pilot = Pilot("parse", NODES, k_max=K_MAX, away_s=3600.0)
    decisions, deployment = drive(pilot, orders, 130)
    assert {d.kind for d in decisions[:60]} == {"HELD"}
    assert "after 1 h without an objective the threshold policy takes over" in decisions[0].reason
    assert {d.kind for d in decisions[60:]} == {"SCALED", "NO_CHANGE"}
    assert "the threshold policy decides" in decisions[60].reason
    back, _ = drive(pilot, make_orders(make_objective()), range(130, 140), deployment=deployment)
    assert {d.objective_version for d in back} == {1}
    gone, _ = drive(pilot, orders, range(140, 150))
    assert {d.kind for d in gone} == {"HELD"}


def test_without_any_limit_it_holds_for_ever() -> None:
    decisions, _ = drive(Pilot("parse", NODES, away_s=60.0), None, 50)
    assert {d.kind for d in decisions} == {"HELD"}
    assert "no limit" in decisions[-1].reason


def test_a_policy_that_fails_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    pilot = Pilot("parse", NODES)
    orders = make_orders(make_objective(policy="planner"))
    _, deployment = drive(pilot, orders, 20)
    monkeypatch.setattr(pilot.seats[1].policy, "decide", lambda _: 1 / 0)
    decisions, _ = drive(pilot, orders, range(20, 25), deployment=deployment)
    assert {d.kind for d in decisions} == {"HELD"}
    assert "'planner' of objective 1 failed (ZeroDivisionError" in decisions[-1].reason


def test_alternatives_are_named() -> None:
    decisions, _ = drive(Pilot("parse", NODES), make_orders(make_objective(policy="planner")), 30)
    names = {name for d in decisions for name in d.alternatives}
    assert {"no change", "+1 A1", "+1 A2", "+1 A3", "-1 A1"} <= names


numbers = st.one_of(st.floats(), st.floats(0.0, 1000.0))
sights = st.builds(
    Observation,
    time=st.integers(0, 50).map(lambda n: SLOT * n),
    rate=numbers,
    utilisation=numbers,
    response=numbers,
    deployment=st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)).map(Deployment),
    completeness=st.sampled_from([1.0, 0.9, 0.1, math.nan]),
)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(sights, min_size=1, max_size=12),
    st.sampled_from(["planner", "ql-pds", "threshold-o", "dhalion-c", "model-based", "ds2-s"]),
    st.booleans(),
)
def test_whatever_is_seen_there_is_a_decision(seen: list[Observation], policy: str, leads: bool) -> None:
    candidate = {"objective": make_objective(2, policy), "stage": "canary" if leads else "shadow", "share": 0.5,
                 "period_s": 4 * SLOT}  # fmt: skip
    pilot = Pilot("parse", NODES)
    for sight in seen:
        step = pilot.step(sight, make_orders(make_objective(), candidate, cooldown={}), sight.time)
        decision = pilot.acted(step, step.change)
        assert decision.reason
        assert decision.kind in ("SCALED", "NO_CHANGE", "BLOCKED", "HELD")
        after = sight.deployment.after(step.change)
        assert step.change == NOTHING or min(after.replicas) >= 0
        assert step.change.delta <= 0 or after.parallelism <= K_MAX
        assert step.change.delta >= 0 or after.parallelism >= 1
