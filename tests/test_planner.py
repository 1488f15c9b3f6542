"""The planner: the worth it computes against theory, its cost against the floor, and the same numbers uncompiled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scaler.model.batch_quantiles import batch_response
from scaler.model.hold import HoldTime, HoldTimes
from scaler.model.kernel import Floats, Integers, lay_out, rate_within, view_deployment
from scaler.model.micro_batches import MicroBatches
from scaler.model.nodes import Deployment, NodeType
from scaler.model.policy import Observation, Start, Transition, build_policy, flatten
from scaler.model.queueing import CATCH_UP_SLOTS
from scaler.model.task import Moments, Task, Weights
from scaler.policies.planner.capacity import expect_capacity, observe_capacity
from scaler.policies.planner.planner import PLANNER
from scaler.policies.planner.replica_worth import (
    appraise,
    appraise_ages,
    cost_in,
    cost_out,
    make_worth,
    present_height,
    price_changes,
)
from scaler.policies.planner.state import State
from scaler.policies.planner.workload import NEAR_RATE_FACTOR, V, X, Y, advance, begin, make_workload, observe
from scaler.policies.rules.threshold import THRESHOLD_C, THRESHOLD_S
from sim.application import Application, Operator
from sim.compiler import compile_kernel
from sim.floor import clairvoyant_floor
from sim.graphs import single
from sim.infrastructure import Infrastructure, find_infrastructure
from sim.replicas import Inertia, fresh_plant
from sim.setting import Setting, hold_law, tasks
from sim.simulate import simulate
from sim.trace import Trace
from tests.examples import Replayed, interpreted, make_rates, make_task, replay
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
    for start in np.flatnonzero(rng.random(slots) < 1.0 / 300.0):
        rates[start : start + rng.integers(10, 30)] = rng.uniform(200.0, 600.0)
    return rates + rng.normal(0.0, 5.0, slots)


def settle(price: float, above: Integers, weights: Weights, late: tuple[float, float] = (0.0, 0.0)) -> State:
    """A planner of one threshold that has seen this sequence of slots above (1) and below (0) it and planned on it."""
    task = make_task(types=1, k_max=2, weights=weights, normaliser=1.0)
    p, state = lay_out(task), PLANNER.prepare(Start(task, task))
    state.worth.late_out[:], state.worth.late_in[:] = late
    take, see, sweep, sweep_ages = map(compile_kernel, (advance, observe, appraise, appraise_ages))
    for rate in np.where(above == 1, 2.0, 0.5).tolist():
        take(state.workload, rate)
        see(state.workload, 0, 1.0, rate)
    for _ in range(300):
        for view in range(V):
            sweep(p, state.worth, state.workload, view, 0, price, True)
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


def test_worth_weighs_each_direction_by_what_it_makes_late() -> None:
    """The same cycle where turning on costs .2 + .3 and turning off .2 + .1: the band is no longer symmetric."""
    period, price = 20, 0.06
    above = (np.arange(200_000) % period == 0).astype(np.int64)
    s = settle(price, above, Weights(0.6, 0.2, 0.2), late=(0.3, 0.1))
    d, even = np.zeros(period), np.zeros(period)
    for _ in range(2000):
        gain = 0.6 * (np.roll(np.arange(period), -1) == 0) - 0.2 * price
        d, even = gain + np.clip(np.roll(d, -1), -0.3, 0.5), gain + np.clip(np.roll(even, -1), -0.2, 0.2)
    assert abs(d - even)[:3].min() > 0.05
    for age in (0, 1, 2):
        assert s.worth.by_age[0, age] == pytest.approx(d[age], abs=0.02)


def replay_held(told: HoldTimes | None, hold: HoldTimes) -> Replayed:
    """Waves of load on a backlog plant that holds so much, whether the planner is told of it or not."""
    operator = Operator("count", Moments(0.01, 1e-4), 4, hold=hold)
    nodes, trace = find_infrastructure("A", 1), Trace(daily(600, 120, 5, 3.0) / 2.0)
    setting = Setting(Application((operator,)), nodes, trace, "planner", 0.6, plant="backlog")
    task = replace(tasks(setting)[0], hold=told)
    plant = fresh_plant(lay_out(task), np.array([1]), setting.inertia, hold_law(setting, operator))
    return replay(task, trace.rates, PLANNER, plant="backlog", world=plant)


@pytest.mark.slow
def test_measured_hold_makes_changes_rarer_and_slots_cheaper() -> None:
    heavy = HoldTimes(HoldTime(50.0), HoldTime(50.0))
    blind, told = replay_held(None, heavy), replay_held(heavy, heavy)
    assert told.reconfigurations < 0.8 * blind.reconfigurations
    assert told.cost < 0.97 * blind.cost


@pytest.mark.slow
def test_a_change_that_holds_nothing_is_weighed_as_ever() -> None:
    light = HoldTimes(HoldTime(0.0), HoldTime(0.0))
    unknown = replay_held(None, light).actions
    assert any(unknown)
    assert replay_held(light, light).actions == unknown


def test_late_seconds_price_a_change() -> None:
    task = replace(make_task(types=1, k_max=4), hold=HoldTimes(HoldTime(6.0, 3.0)), slot_s=30.0)
    p, w = lay_out(task), make_workload(3)
    v = make_worth(w)
    begin(w, 200.0)
    observe(w, 1, 300.0, 200.0)
    price_changes(p, v, w, 1, 2, 1.0 / 180.0, 0.01)
    x = present_height(w, 1)
    late = (9.0 - (task.bound - 0.01)) * 540.0 / (540.0 - 200.0)
    assert v.late_out[1, x] == pytest.approx(task.weights.performance * late / 30.0)
    assert (np.count_nonzero(v.late_out), np.count_nonzero(v.late_in)) == (1, 0)
    assert cost_out(p, v, w, 1) == p.w_rcf + v.late_out[1, x]
    assert cost_in(p, v, w, 1) == p.w_rcf
    price_changes(p, v, w, 1, 2, 1.0 / 90.0, 0.01)  # two replicas do not keep up: all is late in any case
    assert v.late_out[1, x] == pytest.approx(task.weights.performance * 9.0 / 30.0)
    inward = lay_out(replace(task, hold=HoldTimes(into=HoldTime(6.0))))
    price_changes(inward, v, w, 1, 2, 1.0 / 90.0, 0.01)
    assert v.late_in[1, x] == task.weights.performance * CATCH_UP_SLOTS


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
    assert outcome.k.argmax() == 1
    assert outcome.violations < 0.02


def test_capacity_is_learnt_from_what_is_seen() -> None:
    task = make_task(types=3, k_max=5)
    state = replay(task, make_rates(3000), PLANNER, perturbed=True).state
    seen = state.capacity.sights[:3] > 0
    assert seen[state.kind[0]]
    np.testing.assert_allclose(state.capacity.each[seen], lay_out(task).capacity[seen], rtol=1e-6)


@pytest.mark.parametrize("quantile", [0.95, 0.999])
def test_it_keeps_the_quantile_that_the_bound_is_about(quantile: float) -> None:
    task, rates = make_task(types=3, k_max=8, quantile=quantile, bound=0.1), daily(3000, 1440, 4)
    outcome = replay(task, rates, PLANNER, perturbed=True)
    careless = replay(replace(task, quantile=None), rates, PLANNER, perturbed=True)
    assert outcome.violations < 0.02
    prices = lay_out(task).price
    assert outcome.held @ prices > careless.held @ prices
    seen = outcome.state.capacity.sights[:3] > 0
    np.testing.assert_allclose(outcome.state.capacity.each[seen], lay_out(task).capacity[seen], rtol=0.01)


@pytest.mark.parametrize("quantile", [None, 0.95])
def test_capacity_of_batches_is_within_what_their_constants_leave(quantile: float | None) -> None:
    """M/G/1 alone would fit all of a bound of 15 s with work, and the trigger takes most of it."""
    batches = MicroBatches(10.0, 0.5, 1.2, noise_s=0.2)
    task = make_task(types=2, bound=15.0, quantile=quantile, batches=batches)
    p = lay_out(task)
    each = expect_capacity(p, task).each
    assert each == pytest.approx([rate_within(task, node.speedup) for node in task.types])
    queue = expect_capacity(lay_out(replace(task, batches=None)), task).each
    assert (each < 0.9 * queue).all()
    hopeless = replace(task, bound=4.0)  # half a trigger takes longer
    assert lay_out(hopeless).capacity.max() == 0.0
    assert expect_capacity(lay_out(hopeless), hopeless).each == pytest.approx(queue, rel=0.05)


@pytest.mark.slow
def test_a_quantile_of_batches_is_kept_as_well_as_their_mean() -> None:
    """Bounds that the same load meets just so: within 3 points of late slots, and few of either."""
    batches = MicroBatches(10.0, 0.5, 1.2, noise_s=0.2)
    mean = make_task().moments.mean
    one = Operator("one", Moments(mean, mean**2 / 2.0), k_max=8, batches=batches)
    late = [
        simulate(
            Setting(
                application=Application((one,)),
                infrastructure=find_infrastructure("A", 1),
                trace=Trace(make_rates(120), 60.0),
                policy="planner",
                r_max=batch_response(batches, 0.7, quantile),
                plant="batches",
                inertia=Inertia(60.0, 0.0, 0.0),
                quantile=quantile,
            ),
            seed=0,
        ).violations
        for quantile in (None, 0.95)
    ]
    assert abs(late[1] - late[0]) <= 0.03
    assert max(late) <= 0.1


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


@pytest.mark.parametrize("one_at_a_time", [False, True])
def test_its_parts_decide_and_learn_as_the_whole(one_at_a_time: bool) -> None:
    task, rates = make_task(types=2, k_max=4, one_at_a_time=one_at_a_time), make_rates(150)
    with interpreted():
        part, whole = build_policy(PLANNER, task), build_policy(replace(PLANNER, parts=None), task)
    assert (part.hot.decide, whole.hot.decide) == (PLANNER.parts[one_at_a_time].decide, PLANNER.decide)  # type: ignore[index]
    assert replay(task, rates, part).actions == replay(task, rates, whole).actions
    states = flatten(part.state), flatten(whole.state)
    assert all(np.array_equal(states[0][name], states[1][name]) for name in states[0])
    k, seen = np.array([2, 0]), view_deployment(lay_out(task), np.array([2, 0]), 300.0, 0.8, 0.03)
    for action in range(5):
        worths = [policy.hot.worth(policy.problem, policy.state, k, seen, action) for policy in (part, whole)]  # type: ignore[misc]
        assert worths[0] == worths[1]


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


def make_sized(rates: Floats, plant: str, start_s: float = 60.0, k_max: int = 12, **changes: Any) -> Setting:
    """One operator on three node types in a world with changes of any size and start-ups of a slot."""
    batches = MicroBatches(trigger_s=10.0, overhead_s=1.0) if plant == "batches" else None
    nodes = (NodeType("small", 1.0, 1.0), NodeType("medium", 1.8, 2.0), NodeType("large", 3.4, 4.0))
    return Setting(
        Application((Operator("count", Moments(0.01, 0.5e-4), k_max, batches=batches),)),
        Infrastructure("three", nodes, 4.0),
        Trace(rates),
        "planner",
        30.0,
        plant=plant,
        inertia=Inertia(60.0, 5.0, start_s),
        quantile=0.95,
        **changes,
    )


def capacities(setting: Setting, replicas: Integers) -> Floats:
    """Tuples per second of every slot's deployment, which its slowest replicas pace."""
    speeds = np.array([node.speedup for node in setting.infrastructure.types])
    slowest = np.where(replicas > 0, speeds, np.inf).min(axis=1)
    return np.asarray(replicas.sum(axis=1) * slowest / setting.application.operators[0].moments.mean)


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["backlog", "batches"])
def test_a_step_to_seven_replicas_is_answered_at_once_and_caught_up_with(plant: str) -> None:
    """One change within the slot after it; a slot of start-up, and two to work off what waited."""
    rates = np.full(200, 90.0)
    rates[100:] = 650.0
    line = simulate(make_sized(rates, plant), record=True).timeline
    assert line is not None
    late = np.flatnonzero(line.responses[0, 100:] > 30.0)
    assert late[-1] <= 3
    assert np.count_nonzero(line.actions[0, 100:110]) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["backlog", "batches"])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_given_away_while_answers_are_late(plant: str, seed: int) -> None:
    setting = make_sized(bursty(3000, seed), plant)
    line = simulate(setting, record=True).timeline
    assert line is not None
    late = line.responses[0] > setting.r_max
    holds = capacities(setting, line.replicas(0))
    assert np.count_nonzero(late) > 5
    less = holds[1:] < 0.99 * holds[:-1]
    assert not np.any(less & late[:-1])
    assert np.any(less)


@pytest.mark.slow
def test_a_move_between_node_types_is_one_change() -> None:
    setting = make_sized(daily(6000, 720, seed=3), "batches", k_max=3)
    line = simulate(setting, record=True).timeline
    assert line is not None
    types = (line.replicas(0) > 0).sum(axis=1)
    assert types.max() == 1
    assert len(np.unique((line.replicas(0) > 0).argmax(axis=1))) > 1


@pytest.mark.slow
def test_a_change_of_several_is_valued_beside_single_ones() -> None:
    task = make_task(types=1, k_max=8, one_at_a_time=False)
    policy = build_policy(PLANNER, task)
    h = task.moments.mean
    seen = Observation(0.0, 0.5 / h, 0.5, 0.02, Deployment((1,)))
    for _ in range(50):
        policy.learn(Transition(seen, seen))
    rise = replace(seen, rate=5.0 / h, utilisation=5.0, response=10.0)
    policy.learn(Transition(seen, rise))
    change = policy.decide(rise)
    worth = policy.worth(rise)
    assert change.added > 1
    assert worth[change] == min(worth.values()) < 0.0


def test_an_operator_that_is_behind_leaves_a_type_only_for_what_is_more_as_stated_too() -> None:
    """Of the other type a little more was learned than of its own, in a bad moment."""
    task = make_task(types=2, k_max=8, one_at_a_time=False)
    policy = build_policy(PLANNER, task)
    seen = Observation(0.0, 100.0, 0.5, 0.02, Deployment((2, 0)))
    for _ in range(50):
        policy.learn(Transition(seen, seen))
    late = replace(seen, rate=700.0, utilisation=2.0, response=10.0, backlog=5000.0)
    policy.learn(Transition(seen, late))
    change = policy.decide(late)
    before, after = Deployment((2, 0)), Deployment((2, 0)).after(change)
    speeds = [node.speedup for node in task.types]
    holds = [min(s for s, n in zip(speeds, d.replicas, strict=True) if n) * d.parallelism for d in (before, after)]
    assert change.added > 0
    assert holds[1] > holds[0]
