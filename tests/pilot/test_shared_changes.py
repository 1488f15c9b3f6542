"""Agents of one application: changes made together, and within the budget that orders state."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scaler.agent.decider import Decider
from scaler.agent.joint_slots import JointSlots
from scaler.model.change_budget import ChangeBudget
from scaler.model.joint_changes import AVERTS, GRANTED, NO_TOKEN, NO_WISH, PAYS_ALONE, PAYS_WITH_OTHERS, WORTH_LESS
from scaler.model.nodes import Deployment
from scaler.model.orders import Orders, parse_orders, to_task
from scaler.model.task import Moments
from sim.application import Application, Edge, Operator
from sim.infrastructure import Infrastructure
from sim.setting import Setting
from sim.simulate import simulate
from sim.trace import Trace
from tests.examples import make_rates
from tests.pilot.drive import BOUND, K_MAX, MEAN, NODES, SLOT, VARIANCE, drive, make_objective, make_orders, observe
from tuner.search.recommendation import make_model

BUDGET = ChangeBudget(0.02, 2.0)
ONE = Infrastructure("one", NODES[:1], 1.0)


def with_budget(policy: str, budget: ChangeBudget) -> Orders:
    return replace(make_orders(make_objective(policy=policy)), change_budget=budget)


@pytest.mark.parametrize("policy", ["threshold-p", "planner"])
def test_an_empty_budget_blocks_all_but_additions(policy: str) -> None:
    orders = with_budget(policy, BUDGET)
    decisions, _ = drive(Decider("parse", NODES), orders, 400)
    blocked = [d for d in decisions if d.kind == "BLOCKED"]
    assert {d.code for d in blocked} == {"change_budget"}
    for decision in blocked:
        [objection] = decision.objections
        assert "budget of changes has" in objection.message
        assert objection.data["tokens"] == decision.seen.tokens
        assert (objection.data["per_slot"], objection.data["depth"]) == (0.02, 2.0)
        assert any(delta < 0 for delta in decision.proposed.values())
    changes = sum(d.kind == "SCALED" for d in decisions)
    assert changes <= BUDGET.per_slot * 400 + BUDGET.depth + K_MAX - 1
    assert all(d.seen.tokens is not None and 0.0 <= d.seen.tokens <= BUDGET.depth for d in decisions)


def test_orders_carry_budget_and_joint_changes() -> None:
    objective = make_objective(together=True)
    objective["operators"] |= {"count": objective["operators"]["parse"]}
    orders = replace(make_orders(objective), change_budget=BUDGET)
    assert parse_orders(orders.to_json()) == orders
    assert orders.objective is not None
    assert to_task(orders.objective, "parse").pause_share < 1.0
    alone = make_orders(make_objective(together=True)).objective
    assert alone is not None
    assert to_task(alone, "parse").pause_share == 1.0


def settle_all(board: JointSlots, start: float, **wishes: tuple[int, float]) -> dict[str, bool]:
    """The agents of these operators, each on a thread of its own."""
    with ThreadPoolExecutor(len(wishes)) as threads:
        found = {name: threads.submit(board.settle, name, start, 1e6, wish, BUDGET) for name, wish in wishes.items()}
        return {name: one.result().is_made for name, one in found.items()}


def make_board(*operators: str) -> JointSlots:
    board = JointSlots()
    for operator in operators:
        board.join(operator)
    return board


def test_agents_wait_for_each_other_and_change_together() -> None:
    board = make_board("parse", "count")
    joint = (PAYS_WITH_OTHERS, 0.7)
    assert settle_all(board, 0.0, parse=joint, count=joint) == {"parse": True, "count": True}
    assert settle_all(board, 60.0, parse=joint, count=(NO_WISH, 0.0)) == {"parse": False, "count": False}


def test_a_late_agent_joins_what_was_paid() -> None:
    board = make_board("parse")
    assert board.settle("parse", 0.0, SLOT, (PAYS_ALONE, 3.0), BUDGET).tokens == 1.0
    late = board.settle("late", 0.0, SLOT, (PAYS_WITH_OTHERS, 0.1), BUDGET)
    assert (late.is_made, late.tokens) == (True, 1.0)
    assert board.settle("parse", SLOT, SLOT, (NO_WISH, 0.0), BUDGET).outcome == WORTH_LESS
    assert board.settle("late", SLOT, SLOT, (PAYS_ALONE, 3.0), BUDGET).tokens == pytest.approx(0.02)
    past = board.settle("parse", 0.0, SLOT, (PAYS_ALONE, 3.0), BUDGET)
    assert (past.is_made, past.outcome) == (False, NO_TOKEN)


def test_an_agent_that_left_is_not_waited_for() -> None:
    board = make_board("parse", "gone")
    board.leave("gone")
    assert board.settle("parse", 0.0, 1e9, (AVERTS, 1.0), BUDGET).outcome == GRANTED


def test_the_budget_outlives_a_restart() -> None:
    orders = with_budget("threshold-p", BUDGET)
    pilot = Decider("parse", NODES)
    before, deployment = drive(pilot, orders, 100)
    again = Decider("parse", NODES)
    again.load(pilot.save())
    on, _ = drive(again, orders, range(100, 110), deployment=deployment)
    left, next_left = before[-1].seen.tokens, on[0].seen.tokens
    assert left is not None
    assert next_left is not None
    assert left < BUDGET.depth
    spent = on[0].kind == "SCALED"
    assert next_left == pytest.approx(left + BUDGET.per_slot - spent)


def make_setting(policy: str, **changes: Any) -> Setting:
    operators = tuple(Operator(name, Moments(MEAN, VARIANCE), K_MAX) for name in ("parse", "count"))
    return Setting(
        application=Application(operators, (Edge("parse", "count", 1.0),)),
        infrastructure=ONE,
        trace=Trace(make_rates(150)),
        policy=policy,
        r_max=2 * BOUND,
        bounds={operator.name: BOUND for operator in operators},
        levels=10,
        highest_rate=650.0,
        one_at_a_time=False,
        **changes,
    )


def drive_both(setting: Setting) -> Iterator[list[Deployment]]:
    """Deployments slot by slot of two agents in one driver, on what the setting's operators would see."""
    model = make_model(setting, {})
    document = model.to_json() | {"version": 1, "weights": setting.weights.to_json()}
    document["operators"] = {name: {"bound": BOUND, **one} for name, one in document["operators"].items()}
    orders = replace(make_orders(document), change_budget=setting.change_budget)
    board = make_board("parse", "count")
    agents = [Decider(name, ONE.types, board=board) for name in ("parse", "count")]
    deployments = [Deployment((1,))] * 2
    with ThreadPoolExecutor(2) as threads:
        for t, rate in enumerate(setting.trace.rates.tolist()):
            yield deployments
            first, rates = observe(Deployment((*deployments[0].replicas, 0, 0)), rate, SLOT * t), [rate]
            rates.append(min(rate, deployments[0].parallelism / MEAN) if np.isinf(first.response) else rate)
            observed = [
                replace(seen, response=seen.response - 0.01, deployment=one)
                for one, own in zip(deployments, rates, strict=True)
                for seen in [observe(Deployment((*one.replicas, 0, 0)), own, SLOT * t)]
            ]
            steps = list(threads.map(lambda a, s, t=t: a.step(s, orders, SLOT * t), agents, observed))  # type: ignore[misc]
            for agent, step in zip(agents, steps, strict=True):
                agent.actuated(step, step.change)
            deployments = [one.after(step.change) for one, step in zip(deployments, steps, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("together", [True, False])
def test_agents_change_as_the_replay_does(together: bool) -> None:
    setting = make_setting("planner", together=together, change_budget=ChangeBudget(0.05, 3.0))
    run = simulate(setting, record=True)
    assert run.timeline is not None
    replayed = np.array([run.timeline.replicas(o)[:, 0] for o in range(2)]).T.tolist()
    driven = [[one.parallelism for one in slot] for slot in drive_both(setting)]
    assert len({tuple(slot) for slot in driven}) > 2
    assert driven == replayed
