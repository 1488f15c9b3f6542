"""Operators of one application change together, within their budget of changes."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.model.change_budget import ChangeBudget, make_budget, share_pause
from scaler.model.errors import BadInput
from scaler.model.joint_changes import (
    AVERTS,
    GRANTED,
    NO_TOKEN,
    NO_WISH,
    PAYS_ALONE,
    PAYS_WITH_OTHERS,
    TOO_DEAR,
    UNLIMITED,
    WORTH_LESS,
    is_made,
    open_account,
    price_pause,
    refill,
    settle_slot,
)
from scaler.model.kernel import lay_out
from scaler.model.nodes import NodeType
from scaler.model.task import Moments, Weights
from sim.application import Application, Edge, Operator
from sim.infrastructure import Infrastructure
from sim.setting import Setting
from sim.simulate import Run, simulate
from sim.trace import Trace
from tests.examples import make_task
from tests.oracles.joint_optimum import Chain, box_minimum

BUDGET = ChangeBudget(per_slot=0.05, depth=3.0)
ONE_TYPE = Infrastructure("one type", (NodeType("node", 1.0, 1.0),), 1.0)
TWO_TYPES = Infrastructure("two types", (NodeType("slow", 1.0, 1.0), NodeType("fast", 1.6, 2.0)), 2.0)


def settle(wishes: list[int], gains: list[float], account: np.ndarray, depth: float = UNLIMITED) -> int:
    return settle_slot(np.array(wishes), np.array(gains), account, depth)


def test_changes_that_pay_together_are_granted() -> None:
    account = open_account(None)
    assert settle([PAYS_WITH_OTHERS, PAYS_WITH_OTHERS], [0.6, 0.5], account) == GRANTED
    assert settle([PAYS_WITH_OTHERS, PAYS_WITH_OTHERS], [0.6, 0.3], account) == WORTH_LESS
    assert settle([PAYS_WITH_OTHERS, PAYS_ALONE], [0.1, 1.0], account) == GRANTED
    assert settle([NO_WISH, NO_WISH], [0.0, 0.0], account) == WORTH_LESS


def test_one_token_pays_a_slot_however_many_change() -> None:
    account = np.array([2.0, 0.0])
    assert settle([PAYS_ALONE, PAYS_ALONE, AVERTS], [2.0, 2.0, 1.0], account, 2.0) == GRANTED
    assert account.tolist() == [1.0, 0.0]


def test_a_scarce_token_goes_to_what_is_worth_it() -> None:
    account = np.array([1.5, 0.0])
    assert settle([PAYS_ALONE], [1.2], account, 6.0) == TOO_DEAR
    assert account[0] == 1.5
    assert settle([PAYS_ALONE], [1.6], account, 6.0) == GRANTED
    assert settle([PAYS_ALONE], [math.inf], account, 6.0) == NO_TOKEN


def test_what_averts_passes_alone_and_is_owed() -> None:
    account = np.array([0.5, 0.0])
    outcome = settle([AVERTS, PAYS_ALONE], [1.0, 5.0], account, 3.0)
    assert [is_made(outcome, wish) for wish in (AVERTS, PAYS_ALONE)] == [True, False]
    assert account.tolist() == [0.5, 1.0]
    refill(account, 0.3, 3.0, 5.0)
    assert account == pytest.approx([1.0, 0.0])


def test_a_shared_pause_has_its_whole_price() -> None:
    task = make_task(weights=Weights(0.5, 0.3, 0.2))
    p, shared = lay_out(task), lay_out(share_pause(task, 3))
    assert (shared.w_perf / shared.w_res, shared.pause / shared.w_perf) == pytest.approx(
        (p.w_perf / p.w_res, p.w_rcf / p.w_perf)
    )
    assert shared.w_rcf == pytest.approx(shared.pause / 4)
    whole, free = price_pause(shared)
    assert (whole.w_rcf, free.w_rcf) == (shared.pause, 0.0)


def test_budget_of_another_range_is_refused() -> None:
    with pytest.raises(BadInput, match="0 to 1 a slot"):
        ChangeBudget(1.5, 2.0)
    assert make_budget(0.0).depth == 0.0


slots_of_wishes = st.lists(
    st.tuples(*[st.tuples(st.integers(NO_WISH, AVERTS), st.floats(0.0, 4.0))] * 3), min_size=1, max_size=80
)


@given(slots=slots_of_wishes, per_slot=st.floats(0.0, 1.0), depth=st.floats(0.0, 9.0))
def test_no_more_tokens_are_spent_than_there_are(
    slots: list[tuple[tuple[int, float], ...]], per_slot: float, depth: float
) -> None:
    account, paid = open_account(ChangeBudget(per_slot, depth)), 0.0
    for slot in slots:
        refill(account, per_slot, depth, 1.0)
        before = account.copy()
        wishes = [wish for wish, _ in slot]
        outcome = settle(wishes, [gain for _, gain in slot], account, depth)
        made = [is_made(outcome, wish) for wish in wishes]
        assert all(done for done, wish in zip(made, wishes, strict=True) if wish == AVERTS)
        assert account[0] >= 0.0
        spent, owed = before[0] - account[0], account[1] - before[1]
        assert spent == pytest.approx(1.0 if any(made) and owed < 0.5 else 0.0)
        assert owed == pytest.approx(round(owed))
        assert owed < 0.5 or all(wish == AVERTS for done, wish in zip(made, wishes, strict=True) if done)
        paid += spent
    assert paid <= depth + per_slot * len(slots) + 1e-9


def make_setting(rates: np.ndarray, infrastructure: Infrastructure, **changes: object) -> Setting:
    operators = tuple(Operator(f"operator {mu}", Moments(1 / mu, 0.0), 5) for mu in (40, 35, 30))
    edges = tuple(Edge(one.name, other.name, 1.0) for one, other in pairwise(operators))
    fields = {
        "application": Application(operators, edges),
        "infrastructure": infrastructure,
        "trace": Trace(rates),
        "policy": "threshold-c",
        "r_max": 0.6,
        "plant": "backlog",
    }
    return Setting(**(fields | changes))  # type: ignore[arg-type]


def list_changed(run: Run) -> np.ndarray:
    assert run.timeline is not None
    return (run.timeline.actions != 0).any(axis=0)


@pytest.mark.slow
@settings(max_examples=12)
@given(rates=st.lists(st.floats(0.0, 160.0), min_size=2, max_size=12), held=st.integers(1, 6))
@pytest.mark.parametrize("policy", ["threshold-c", "planner"])
def test_no_load_reconfigures_more_often_than_the_budget(policy: str, rates: list[float], held: int) -> None:
    trace = np.tile(np.repeat(rates, held), 40)[:800]
    setting = make_setting(trace, ONE_TYPE, policy=policy, change_budget=BUDGET, highest_rate=160.0)
    changed = list_changed(simulate(setting, record=True))
    adds = sum(operator.k_max - operator.k_min for operator in setting.application.operators)
    assert changed.sum() <= BUDGET.per_slot * len(trace) + BUDGET.depth + adds


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["threshold-c", "planner"])
def test_an_empty_budget_lets_capacity_be_added(policy: str) -> None:
    rates = np.tile(np.repeat([10.0, 130.0], 20), 10)
    setting = make_setting(rates, TWO_TYPES, policy=policy, change_budget=ChangeBudget(0.0, 0.0), highest_rate=160.0)
    free = simulate(replace(setting, change_budget=None), record=True)
    kept = simulate(setting, record=True)
    assert kept.violations <= free.violations
    assert kept.reconfigurations < free.reconfigurations
    assert kept.timeline is not None
    for o in range(3):
        replicas = kept.timeline.replicas(o) @ [1.0, 1.6]
        assert (np.diff(replicas) >= 0.0).all()
        assert replicas[-1] > replicas[0]


def daily_chain(service_rates: tuple[float, ...]) -> Chain:
    """Levels as they follow each other on days with a morning, an evening and some noise."""
    rng, levels, top = np.random.default_rng(7), 24, 10.0
    hour = np.arange(300 * 1440) / 60.0
    noise = np.convolve(rng.normal(size=len(hour) + 19), np.full(20, 0.05), "valid")
    rates = 5.0 - 3.0 * np.cos(2.0 * np.pi * hour / 24.0) - np.cos(4.0 * np.pi * hour / 24.0) + 1.2 * noise
    found = np.clip((rates * levels / top).astype(np.int64), 0, levels - 1)
    counts = np.eye(levels)
    np.add.at(counts, (found[:-1], found[1:]), 1.0)
    middles = (np.arange(levels) + 0.5) * top / levels
    limit = 1.9 * len(service_rates) / 3
    return Chain(service_rates, 5, limit, (0.4, 0.4, 0.2), middles, counts / counts.sum(axis=1, keepdims=True))


def replay_chain(chain: Chain, levels: np.ndarray, shares: tuple[float, ...], together: bool) -> float:
    """Mean cost of operators that plan with bounds at these utilisations."""
    names = [f"operator {o}" for o in range(len(shares))]
    pairs = list(zip(names, chain.service_rates, shares, strict=True))
    setting = Setting(
        application=Application(
            tuple(Operator(name, Moments(1.0 / mu, 0.0), chain.k_max) for name, mu, _ in pairs),
            tuple(Edge(a, b, 1.0) for a, b in pairwise(names)),
        ),
        infrastructure=ONE_TYPE,
        trace=Trace(chain.rates[levels]),
        policy="value-iteration",
        r_max=chain.limit,
        bounds={name: (1.0 + u / (2.0 * (1.0 - u))) / mu for name, mu, u in pairs},
        weights=Weights(*chain.weights),
        highest_rate=float(chain.rates[-1] + chain.rates[0]),
        levels=len(chain.rates),
        options={"history": chain.rates[chain.draw(100_000, seed=1)]},
        together=together,
    )
    return simulate(setting).cost


@pytest.mark.slow
def test_shared_pauses_come_near_the_joint_optimum() -> None:
    """Bounds are each way's best of a grid. On the taxi trace: tests/bench/bench_joint_changes.py."""
    chain = daily_chain((3.7, 3.3, 2.7))
    levels = chain.draw(60_000, seed=2)
    optimum = chain.replay(levels)
    together = replay_chain(chain, levels, (0.65, 0.65, 0.8), True) / optimum - 1.0
    alone = replay_chain(chain, levels, (0.65, 0.75, 0.7), False) / optimum - 1.0
    assert 0.0 < together < 0.025
    assert together < 0.75 * alone


def test_box_minimum_is_the_least_of_all_joint_moves() -> None:
    values = np.random.default_rng(3).random((4, 3, 5, 2))
    for k in np.ndindex(4, 3, 5):
        near = np.ix_(*[range(max(0, i - 1), min(n, i + 2)) for i, n in zip(k, values.shape, strict=False)])
        assert (box_minimum(values)[k] == values[near].min(axis=(0, 1, 2))).all()
