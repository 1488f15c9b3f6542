"""The planner: the worth it computes against theory, its cost against the floor, and the same numbers uncompiled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scaler.model.kernel import Floats, Integers, lay_out, view_deployment
from scaler.model.nodes import NodeType
from scaler.model.policy import Start, build_policy, flatten
from scaler.model.task import Task, Weights
from scaler.policies.planner.capacity import expect_capacity, observe_capacity
from scaler.policies.planner.planner import PLANNER, State
from scaler.policies.planner.replica_worth import appraise, appraise_ages
from scaler.policies.planner.workload import NEAR_RATE_FACTOR, V, X, Y, advance, make_workload, observe
from scaler.policies.rules.threshold import THRESHOLD_C, THRESHOLD_S
from sim.compiler import compile_kernel
from sim.floor import clairvoyant_floor
from sim.graphs import single
from sim.infrastructure import find_infrastructure
from sim.setting import Setting
from sim.simulate import simulate
from sim.trace import Trace
from tests.examples import interpreted, make_rates, make_task, replay
from tuner.lab.policy_benchmark import make_query
from tuner.lab.shifts import SHIFTS, apply_shift
from tuner.simulation.course import replay_costs
from tuner.simulation.floor_cache import compute_floor

ROOT = Path(__file__).parents[1]


def daily(slots: int, period: int, seed: int, noise: float = 1.0) -> Floats:
    """A season of this many slots under noise of Poisson size times `noise`."""
    rng = np.random.default_rng(seed)
    mean = 300.0 - 220.0 * np.cos(2.0 * np.pi * np.arange(slots) / period)
    return np.round(np.maximum(0.0, mean + noise * np.sqrt(mean) * rng.standard_normal(slots)))


def bursty(slots: int, seed: int) -> Floats:
    """A quiet load with bursts that come by chance and last a while."""
    rng = np.random.default_rng(seed)
    rates = np.full(slots, 120.0)
    for begin in np.flatnonzero(rng.random(slots) < 1.0 / 300.0):
        rates[begin : begin + rng.integers(10, 30)] = rng.uniform(200.0, 600.0)
    return rates + rng.normal(0.0, 5.0, slots)


def settle(price: float, above: Integers, weights: Weights) -> State:
    """A planner of one threshold that has seen this sequence of slots above (1) and below (0) it and planned on it."""
    task = make_task(types=1, k_max=2, weights=weights, normaliser=1.0)
    p, state = lay_out(task), PLANNER.prepare(Start(task, task))
    take, see, sweep, sweep_ages = map(compile_kernel, (advance, observe, appraise, appraise_ages))
    for rate in np.where(above == 1, 2.0, 0.5).tolist():
        take(state.workload, rate)
        see(state.workload, 0, 1.0, rate)
    for _ in range(300):
        for view in range(V):
            sweep(p, state.worth, state.workload, view, 0, price)
        sweep_ages(p, state.worth, state.workload, 0, price)
    return state


@pytest.mark.parametrize(("chance", "price", "wanted"), [(0.3, 0.05, 1), (0.001, 0.5, -1)])
def test_a_replica_is_worth_its_rent_or_not(chance: float, price: float, wanted: int) -> None:
    above = (np.random.default_rng(1).random(20_000) < chance).astype(np.int64)
    weights = Weights(0.6, 0.2, 0.2)
    s = settle(price, above, weights)
    d = s.worth.by_age[0, s.workload.age_class[0]]
    assert d * wanted > weights.reconfiguration


def test_worth_by_age_solves_the_choice_between_on_and_off() -> None:
    """Above every 20th slot on the dot: the worth must agree with value iteration on that cycle."""
    weights = Weights(0.6, 0.2, 0.2)
    period, price = 20, 0.3
    s = settle(price, (np.arange(200_000) % period == 0).astype(np.int64), weights)
    d = np.zeros(period)
    for _ in range(2000):
        ahead = np.clip(np.roll(d, -1), -0.2, 0.2)
        d = 0.6 * (np.roll(np.arange(period), -1) == 0) - 0.2 * price + ahead
    for age in (0, 1, 2):  # classes of a single slot, where the model is the cycle itself
        assert s.worth.by_age[0, age] == pytest.approx(d[age], abs=0.02)


def test_ages_and_counts_follow_the_load() -> None:
    w = make_workload(1)
    rng = np.random.default_rng(3)
    last = None
    for t, rate in enumerate(rng.uniform(0.0, 2.0, 500).tolist()):
        advance(w, rate)
        observe(w, 0, 1.5, rate)
        last = t if rate > 1.5 else last
        if last is not None:
            assert w.age[0] == t - last
    assert w.visits.sum() == w.counts.sum() == w.pool.sum() == V * 500
    assert w.ages.sum() == 500
    assert ((w.situation >= 0) & (w.situation < Y * X)).all()


@pytest.mark.slow
@pytest.mark.parametrize("weights", [Weights(0.6, 0.2, 0.2), Weights(0.4, 0.3, 0.3), Weights(0.8, 0.1, 0.1)])
@pytest.mark.parametrize(("load", "multiple"), [("day", 1.2), ("shift", 1.2), ("bursts", 1.6)])
def test_it_comes_near_the_floor(load: str, multiple: float, weights: Weights) -> None:
    """Bursts that nobody can foresee keep everyone but the clairvoyant away from the floor."""
    rates = {"day": daily(20_000, 1440, 1), "shift": daily(20_000, 500, 2, 2.0), "bursts": bursty(20_000, 3)}[load]
    task = make_task(types=3, k_max=8, weights=weights)
    outcome, best = replay(task, rates, PLANNER, perturbed=True), clairvoyant_floor(task, rates)
    assert best.lower <= outcome.cost <= multiple * best.lower
    assert outcome.violations < 0.01
    rivals = [replay(task, rates, kernel).cost for kernel in (THRESHOLD_C, THRESHOLD_S)]
    assert outcome.cost < min(rivals)


def test_it_leaves_a_type_that_cannot_keep_the_bound() -> None:
    types = (NodeType("slow", 0.1, 0.1), NodeType("fit", 1.0, 1.0), NodeType("huge", 30.0, 30.0))
    task = make_task(types=3, k_max=6)
    task = Task(types, 6, task.moments, task.bound, task.weights, task.highest_rate, normaliser=180.0)
    outcome = replay(task, daily(5000, 1440, 4), PLANNER, perturbed=True)
    assert outcome.state.kind[0] == 1
    assert outcome.violations < 0.02


def test_capacity_is_learnt_from_what_is_seen() -> None:
    task = make_task(types=3, k_max=5)
    state = replay(task, make_rates(3000), PLANNER, perturbed=True).state
    seen = state.capacity.sights[:3] > 0
    assert seen[state.kind[0]]
    np.testing.assert_allclose(state.capacity.each[seen], lay_out(task).capacity[seen], rtol=1e-6)


def test_a_backlog_does_not_derail_it() -> None:
    task = make_task(types=2, k_max=8)
    outcome = replay(task, daily(10_000, 1440, 5), PLANNER, perturbed=True, plant="backlog")
    assert outcome.violations < 0.05


@pytest.mark.slow
def test_it_decides_the_same_uncompiled() -> None:
    task, rates = make_task(types=2, k_max=4), make_rates(250)
    compiled = replay(task, rates, PLANNER).actions
    with interpreted():
        policy = build_policy(PLANNER, task)
    assert replay(task, rates, policy).actions == compiled
    assert any(compiled)


def test_its_memory_does_not_grow() -> None:
    task = make_task(types=3, k_max=5)
    short, long = (replay(task, make_rates(n), PLANNER).state for n in (10, 3000))
    sizes = [sum(a.nbytes for a in flatten(state).values()) for state in (short, long)]
    assert sizes[0] == sizes[1]
    assert PLANNER.measure(long) <= sizes[1]


@pytest.mark.slow
@pytest.mark.parametrize("infrastructure", ["A", "B"])
@pytest.mark.parametrize("shift", SHIFTS)
def test_it_recovers_from_a_change(shift: str, infrastructure: str) -> None:
    """Near the floor over the whole run, and nearer again two thousand slots after the world has changed."""
    nodes = find_infrastructure(infrastructure, 3)
    trace = Trace(daily(60_000, 1440, seed=1))
    world = apply_shift(
        shift, Setting(single(180.0, 10), nodes, trace, "planner", 0.05, highest_rate=650.0, perturbed=True)
    )
    question = make_query(world)
    assert question is not None
    least = compute_floor(question)
    assert least.tail is not None
    shifts = () if world.shift is None else (world.shift,)
    run = simulate(world.setting, 0, record=True, shifts=shifts)
    assert run.timeline is not None
    late = replay_costs(world.shift.setting if world.shift else world.setting, run.timeline).cost[world.tail :]
    assert least.whole.multiple(run.cost) < 1.25
    assert least.tail.multiple(float(late.mean())) < 1.15


@pytest.mark.parametrize(("slower", "at_once"), [(1.3, True), (0.7, False)])
def test_replicas_that_do_not_keep_up_are_believed_at_once_and_those_that_do_better_are_not(
    slower: float, at_once: bool
) -> None:
    task = make_task(types=1, k_max=4)
    p, k = lay_out(task), np.array([2])
    capacity = expect_capacity(p, task)
    h = task.moments.mean
    for _ in range(10):
        observe_capacity(p, capacity, view_deployment(p, k, 0.5 * 2 / h, 0.5, h))
    asked = 1.5 * 2 / h  # of two replicas
    observe_capacity(p, capacity, view_deployment(p, k, asked, slower * asked * h / 2, 1.0))
    assert capacity.service[0] == pytest.approx(h * (slower if at_once else 1.0 + 0.3 * (slower - 1.0)))


def test_a_slot_in_which_next_to_nothing_comes_teaches_no_service_time() -> None:
    """What it was busy with had come in the slot before, as at the end of a stream."""
    p = lay_out(make_task(types=1))
    capacity, k, h = expect_capacity(p, make_task(types=1)), np.array([2]), 1 / 180
    for _ in range(50):
        observe_capacity(p, capacity, view_deployment(p, k, 0.5 * 2 / h, 0.5, h))
    before = capacity.each[0]
    observe_capacity(p, capacity, view_deployment(p, k, 0.0005, 0.09, h))
    assert capacity.each[0] == before


def test_a_new_bound_takes_each_threshold_from_the_nearest_rate() -> None:
    task = replace(make_task(types=1, k_max=6), bound=0.1)
    old = build_policy(PLANNER, task)
    for key in ("ages", "counts"):
        table = getattr(old.state.workload, key)  # type: ignore[attr-defined]
        for b in range(5):
            table[(b,) if key == "ages" else (slice(None), b)] = b + 1
    halved = build_policy(PLANNER, replace(task, types=(replace(task.types[0], speedup=0.5 * task.types[0].speedup),)))
    assert halved.inherit(old)
    workload = halved.state.workload  # type: ignore[attr-defined]
    rates = [(j + 1) * halved.state.capacity.each[0] for j in range(5)]  # type: ignore[attr-defined]
    rates_before = [(j + 1) * old.state.capacity.each[0] for j in range(5)]  # type: ignore[attr-defined]
    for b, rate in enumerate(rates):
        nearest = min(range(5), key=lambda j: abs(np.log(rates_before[j] / rate)))
        near = abs(np.log(rates_before[nearest] / rate)) <= np.log(NEAR_RATE_FACTOR)
        assert workload.ages[b].max() == (nearest + 1 if near else 0)
        assert workload.counts[:, b].max() == (nearest + 1 if near else 0)
    assert 0 < sum(workload.ages.max(axis=(1, 2)) > 0) < 5
