"""One operator's loop: whatever it is shown, a decision with a reason and a deployment within bounds."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.agent.decider import Decider
from scaler.model.decision import METRICS, METRICS_HELD, Objection
from scaler.model.errors import BadInput
from scaler.model.nodes import NOTHING, Deployment, scale
from scaler.model.orders import Orders, parse_orders, to_task
from scaler.model.policy import Observation
from scaler.policies import POLICIES
from tests.pilot.drive import (
    BOUND,
    CONSTANT,
    K_MAX,
    NODES,
    SEEN,
    SLOT,
    drive,
    make_objective,
    make_orders,
    observe,
)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_decides_within_bounds_and_the_same_again(policy: str) -> None:
    orders = make_orders(make_objective(policy=policy))
    runs = [drive(Decider("parse", NODES, seed=3), orders, 80)[0] for _ in range(2)]
    assert runs[0] == runs[1]
    assert {d.kind for d in runs[0]} <= {"SCALED", "NO_CHANGE"}
    assert all(d.objective_version == 1 and d.bound == BOUND + CONSTANT for d in runs[0])
    assert all((d.kind == "SCALED") == (d.action is not None) for d in runs[0])


def test_the_quantile_of_the_objective_reaches_the_policy() -> None:
    document = make_objective(policy="threshold-p", quantile=0.95)
    orders = make_orders(document)
    assert orders.objective is not None
    assert to_task(orders.objective, "parse").quantile == 0.95
    assert parse_orders(orders.to_json()) == orders
    with pytest.raises(BadInput, match=r"the quantile is 1, and must be 0\.5 to 0\.999"):
        make_orders(make_objective(quantile=1.0))


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
    decision = (
        (pilot := Decider("parse", NODES)).step(seen, make_orders(make_objective(policy="planner")), 0.0).decision
    )
    assert (decision.kind, decision.action) == ("HELD", None)
    assert why in decision.reason
    assert pilot.memory.before is None
    assert "NaN" not in json.dumps(decision.to_json())
    assert decision.rate is None or decision.rate == 600.0


def test_node_types_that_the_objective_does_not_know_hold() -> None:
    two = make_objective(nodes=make_objective()["nodes"][:2])
    pilot = Decider("parse", NODES)
    decision = pilot.step(observe(Deployment((1, 0, 1)), 600.0, 0.0), make_orders(two), 0.0).decision
    assert decision.kind == "HELD"
    assert "replicas run on A3, which objective 1 does not know" in decision.reason
    assert pilot.step(observe(Deployment((1, 0, 0)), 600.0, 60.0), make_orders(two), 60.0).decision.kind == "SCALED"


def test_lists_in_another_order_are_read_by_name() -> None:
    nodes = make_objective()["nodes"]
    strange = {"name": "huge", "speedup": 0.01, "price": 0.01}  # the cheapest, and not to be had here
    mixed = make_objective(policy="threshold-c", nodes=[strange, nodes[2], nodes[0], nodes[1]])
    step = Decider("parse", NODES).step(SEEN, make_orders(mixed, bounds={"types": {"huge": {"max": 1}}}), 0.0)
    assert step.decision.action == "+1 A2"
    assert step.change == scale(1, 1)


def test_more_replicas_than_allowed_go_one_by_one() -> None:
    pilot = Decider("parse", NODES, k_max=2)
    deployment = Deployment((2, 1, 1))
    for t in range(2):
        step = pilot.step(observe(deployment, 600.0, SLOT * t), make_orders(make_objective(policy="planner")), SLOT * t)
        assert step.decision.kind == "SCALED"
        assert "the limit of 2 replicas" in step.decision.reason
        pilot.actuated(step, step.change)
        deployment = deployment.after(step.change)
    assert deployment == Deployment((1, 0, 1))


def with_least(k_min: int) -> Orders:
    objective = make_objective(policy="static")
    objective["operators"]["parse"]["k_min"] = k_min
    return make_orders(objective)


def test_fewer_replicas_than_allowed_are_made_up_to_them() -> None:
    step = Decider("parse", NODES).step(observe(Deployment((0, 1, 0)), 100.0, 0.0), with_least(3), 0.0)
    assert (step.decision.kind, step.decision.code, step.change) == ("SCALED", "under_limit", scale(1, 2))
    assert "the limit of at least 3 replicas proposed adding 2 replicas on A2" in step.decision.reason
    limited = Decider("parse", NODES, k_max=2).step(observe(Deployment((0, 1, 0)), 100.0, 0.0), with_least(3), 0.0)
    assert limited.change == scale(1, 1)  # the driver's own limit goes before


def test_no_change_leads_below_the_least_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    pilot = Decider("parse", NODES)
    seen = observe(Deployment((2, 1, 0)), 100.0, 0.0)
    pilot.step(seen, with_least(3), 0.0)
    monkeypatch.setattr(pilot.instances[1].policy, "decide", lambda _: scale(0, -1))
    decision = pilot.step(seen, with_least(3), 0.0).decision
    assert (decision.kind, decision.code) == ("BLOCKED", "replica_limit")
    assert "it would make 2 replicas, and 3 to 4 are allowed" in decision.reason
    assert decision.objections[0].data == {"replicas": 2, "k_min": 3, "k_max": 4}


def test_guards_that_cannot_be_read_hold() -> None:
    decision = Decider("parse", NODES).step(SEEN, make_orders(make_objective(), levitate={}), 0.0).decision
    assert decision.kind == "HELD"
    assert "levitate" in decision.reason


@pytest.mark.parametrize("orders", [None, make_orders(None), make_orders(make_objective(operators={})),
                                    make_orders(make_objective(policy="magic"))])  # fmt: skip
def test_without_an_objective_it_holds_and_then_falls_back(orders: Orders | None) -> None:
    pilot = Decider("parse", NODES, k_max=K_MAX, fallback_s=3600.0)
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
    decisions, _ = drive(Decider("parse", NODES, fallback_s=60.0), None, 50)
    assert {d.kind for d in decisions} == {"HELD"}
    assert "no limit" in decisions[-1].reason


def test_a_policy_that_fails_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    pilot = Decider("parse", NODES)
    orders = make_orders(make_objective(policy="planner"))
    _, deployment = drive(pilot, orders, 20)
    monkeypatch.setattr(pilot.instances[1].policy, "decide", lambda _: 1 / 0)
    decisions, _ = drive(pilot, orders, range(20, 25), deployment=deployment)
    assert {d.kind for d in decisions} == {"HELD"}
    assert "'planner' of objective 1 failed (ZeroDivisionError" in decisions[-1].reason


def test_alternatives_are_named() -> None:
    decisions, _ = drive(Decider("parse", NODES), make_orders(make_objective(policy="planner")), 30)
    names = {name for d in decisions for name in d.alternatives}
    assert {"no change", "+1 A1", "+1 A2", "+1 A3", "-1 A1"} <= names


GUESS = Objection(METRICS, METRICS_HELD, "a guess")
deployments = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)).map(Deployment)
numbers = st.one_of(st.floats(), st.floats(0.0, 1000.0))


sights = st.builds(
    Observation,
    time=st.integers(0, 50).map(lambda n: SLOT * n),
    rate=numbers,
    utilisation=numbers,
    response=numbers,
    deployment=deployments,
    completeness=st.sampled_from([1.0, 0.9, 0.1, math.nan]),
)


@settings(max_examples=120)
@given(
    st.lists(st.tuples(sights, st.none() | deployments, st.sampled_from([None, GUESS])), min_size=1, max_size=12),
    st.sampled_from(["planner", "ql-pds", "threshold-p", "dhalion-c", "model-based", "ds2-s"]),
    st.booleans(),
)
def test_whatever_is_seen_and_awaited_there_is_a_decision(
    story: list[tuple[Observation, Deployment | None, Objection | None]], policy: str, leads: bool
) -> None:
    """Within bounds once all that was asked for has come; and nothing is taken away before, nor on a guess."""
    candidate = {"objective": make_objective(2, policy), "stage": "canary" if leads else "shadow", "share": 0.5,
                 "period_s": 4 * SLOT}  # fmt: skip
    pilot = Decider("parse", NODES)
    for sight, asked, no_scale_in in story:
        orders = make_orders(make_objective(), candidate, cooldown={})
        step = pilot.step(sight, orders, sight.time, asked, None, no_scale_in)
        pilot.actuated(step, step.change)
        decision = step.decision
        assert decision.reason
        assert decision.kind in ("SCALED", "NO_CHANGE", "BLOCKED", "HELD")
        whole = sight.deployment if asked is None else asked
        after = whole.after(step.change)
        assert step.change == NOTHING or min(after.replicas) >= 0
        assert step.change.net <= 0 or after.parallelism <= K_MAX
        assert not step.change.removed or (after.parallelism >= 1 and whole == sight.deployment and no_scale_in is None)
