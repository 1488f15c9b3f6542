"""Floor under changes of any size: exact where slots stand alone, below every course where the plant remembers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scaler.model.kernel import lay_out
from scaler.model.micro_batches import MicroBatches
from scaler.model.nodes import NodeType, Supply
from scaler.model.task import Moments, Weights
from sim.application import Application, Operator
from sim.batch_course import END, FLYING, fresh_batch_plant, seconds_each
from sim.infrastructure import Infrastructure
from sim.plants import PLANTS
from sim.replicas import Inertia, fresh_plant
from sim.setting import Setting
from sim.simulate import simulate
from sim.sized_floor import SizedWorld, count_slots_reached, list_options, sized_floor
from sim.sized_sweep import is_late
from sim.spans import count_waiting
from sim.trace import Trace
from tests.examples import make_rates, make_task
from tests.oracles.exhaustive import least_cost
from tuner.simulation.comparison import find_floor

AT_ONCE = Inertia(60.0, 0.0, 0.0)
BATCHES = MicroBatches(trigger_s=10.0, overhead_s=1.0)
NO_PRICES = np.zeros((0, 2))


def world(plant: str, first: tuple[int, ...] = (1, 0), prices: np.ndarray = NO_PRICES) -> SizedWorld:
    return SizedWorld(np.array(first), plant, 60.0, prices)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("quantile", [None, 0.95])
def test_without_memory_it_is_the_best_course(seed: int, quantile: float | None) -> None:
    task = make_task(types=2, k_max=3, one_at_a_time=False, quantile=quantile)
    rates = make_rates(5, seed)
    floor = sized_floor(task, rates, world("memoryless"))
    p, k = lay_out(task), np.array([1, 0])
    assert floor.exact
    assert floor.lower == pytest.approx(
        least_cost(task, "memoryless", fresh_plant(p, k, AT_ONCE), (1, 0), rates), rel=1e-12
    )


@pytest.mark.parametrize("plant", ["backlog", "batches"])
@pytest.mark.parametrize("start_s", [0.0, 40.0, 150.0])
@pytest.mark.parametrize("seed", [0, 1, 6])
def test_with_memory_it_is_below_the_best_course(plant: str, start_s: float, seed: int) -> None:
    batches = BATCHES if plant == "batches" else None
    task = make_task(types=2, k_max=2, one_at_a_time=False, batches=batches, bound=20.0)
    first = (1, 0) if seed % 2 else (2, 0)
    p, k = lay_out(task), np.array(first)
    rates = make_rates(5, seed, high=250.0)  # two replicas serve 360
    inertia = replace(AT_ONCE, start_s=start_s)
    began = fresh_plant(p, k, inertia) if batches is None else fresh_batch_plant(p, k, inertia, batches, 0)
    best = least_cost(task, plant, began, first, rates)
    floor = sized_floor(task, rates, replace(world(plant, first), start_s=start_s))
    assert not floor.exact
    assert (0.5 if start_s == 0.0 else 0.1) * best < floor.lower <= best + 1e-12


@settings(max_examples=25, deadline=None)
@given(
    quantile=st.sampled_from([None, 0.5, 0.95]),
    start_s=st.sampled_from([60.0, 75.0, 120.0]),
    bound=st.sampled_from([14.0, 22.0, 30.0]),
    first=st.sampled_from([(1, 0), (2, 0), (0, 1), (1, 1)]),
    rates=st.lists(st.integers(0, 700), min_size=3, max_size=4),
)
def test_slow_starts_are_below_the_best_course(
    quantile: float | None, start_s: float, bound: float, first: tuple[int, ...], rates: list[int]
) -> None:
    """Of every course of changes through the plant, replicas ordered before they are needed included."""
    task = make_task(types=2, k_max=2, one_at_a_time=False, batches=BATCHES, bound=bound, quantile=quantile)
    inertia, load = replace(AT_ONCE, start_s=start_s), np.array(rates, np.float64)
    began = fresh_batch_plant(lay_out(task), np.array(first), inertia, BATCHES, 0)
    best = least_cost(task, "batches", began, first, load)
    assert sized_floor(task, load, replace(world("batches", first), start_s=start_s)).lower <= best + 1e-12


def test_replicas_are_paid_before_they_serve() -> None:
    """The clairvoyant orders for a jump a slot ahead, and pays that slot."""
    task = make_task(types=1, k_max=6, one_at_a_time=False, batches=BATCHES, bound=20.0, quantile=0.95)
    p, told = lay_out(task), world("batches", (1,), np.zeros((0, 1)))
    share = np.repeat([0.5, 4.5, 0.5], [20, 40, 20])
    rates = share * p.speedup[0] / p.mean
    floors = [sized_floor(task, rates, replace(told, start_s=start_s)).lower for start_s in (0.0, 60.0)]
    assert floors[1] - floors[0] == pytest.approx(4 * p.w_res * p.price[0] / len(rates), rel=0.3)


@pytest.mark.parametrize("plant", ["backlog", "batches"])
@pytest.mark.parametrize("seed", range(3))
def test_starts_one_after_another_are_below_the_best_course(plant: str, seed: int) -> None:
    """While both sides of an exchange serve there are more replicas than a deployment has."""
    batches = BATCHES if plant == "batches" else None
    supply = Supply(start_s=(20.0, 70.0, 110.0))
    task = make_task(types=2, k_max=2, one_at_a_time=False, batches=batches, bound=20.0)
    task = replace(task, types=tuple(replace(node, supply=supply) for node in task.types))
    p, k = lay_out(task), np.array([2, 0])
    rates = make_rates(5, seed, high=450.0)
    told = AT_ONCE, (supply, supply)
    if batches is None:
        began = fresh_plant(p, k, told[0], supplies=told[1], seed=seed)
    else:
        began = fresh_batch_plant(p, k, told[0], batches, seed, supplies=told[1])
    best = least_cost(task, plant, began, (2, 0), rates)
    floor = sized_floor(task, rates, replace(world(plant, (2, 0)), staggered=True))
    assert 0.1 * best < floor.lower <= best + 1e-12


def make_setting(
    policy: str, plant: str, rates: list[int], r_max: float, quantile: float | None, start_s: float = 0.0
) -> Setting:
    batches = BATCHES if plant == "batches" else None
    nodes = (NodeType("a", 1.0, 1.0), NodeType("b", 1.7, 1.9))
    return Setting(
        Application((Operator("count", Moments(0.01, 0.5e-4), 6, batches=batches),)),
        Infrastructure("two", nodes, 1.9),
        Trace(np.array(rates, np.float64)),
        policy,
        r_max,
        plant=plant,
        inertia=replace(AT_ONCE, start_s=start_s),
        quantile=quantile,
        one_at_a_time=False,
    )


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["planner", "ds2-c", "static", "threshold-s"]),
    st.sampled_from(["memoryless", "backlog", "batches"]),
    st.lists(st.integers(0, 900), min_size=10, max_size=60),
    st.sampled_from([0.6, 1.5, 8.0, 40.0]),
    st.sampled_from([None, 0.5, 0.95]),
    st.sampled_from([0.0, 25.0, 130.0]),
)
def test_no_policy_is_below_it(
    policy: str, plant: str, rates: list[int], bound: float, quantile: float | None, start_s: float
) -> None:
    bound = bound * 0.05 if plant == "memoryless" else bound
    setting = make_setting(policy, plant, rates, bound, quantile, start_s)
    floor = find_floor(setting)
    assert floor is not None
    assert simulate(setting).cost >= floor.lower - 1e-12


@pytest.mark.parametrize(("share", "replicas"), [(0.9, 1), (1.0, 2), (1.3, 2)])
def test_a_load_that_overhead_leaves_no_time_for_takes_another_replica(share: float, replicas: int) -> None:
    """Over hundreds of slots nothing is worked off for nothing: neither by rounding nor in a batch's overhead."""
    dear_changes = Weights(0.7, 0.29, 0.01)
    task = make_task(types=1, k_max=3, one_at_a_time=False, batches=BATCHES, bound=20.0, weights=dear_changes)
    p = lay_out(task)
    rates = np.full(400, share * p.speedup[0] / p.mean)
    floor = sized_floor(task, rates, world("batches", (replicas,), np.zeros((0, 1)))).lower
    assert floor == pytest.approx(p.w_res * p.price[0] * replicas, rel=0.03)


def test_it_knows_of_supply_and_of_prices_over_time() -> None:
    task = make_task(types=2, k_max=4, one_at_a_time=False)
    rates = make_rates(300, 1)
    free = sized_floor(task, rates, world("memoryless")).lower
    few = replace(task, types=tuple(replace(t, supply=Supply(capacity=1)) for t in task.types))
    short = sized_floor(few, rates, world("memoryless"))
    assert short.lower > free
    assert not short.exact
    prices = np.tile([t.price for t in task.types], (300, 1))
    same = sized_floor(task, rates, world("memoryless", prices=prices))
    assert same.lower == pytest.approx(free, rel=1e-12)
    assert sized_floor(task, rates, world("memoryless", prices=prices / 2.0)).lower < free


def test_batches_that_are_cut_apart_or_scatter_have_none() -> None:
    """Under noise some slots are in time that must be late without it."""
    setting = make_setting("static", "batches", [100] * 5, 40.0, None)
    assert find_floor(setting) is not None
    (operator,) = setting.application.operators
    for batches in (replace(BATCHES, merge=False), replace(BATCHES, most=100.0), replace(BATCHES, noise_s=0.1)):
        application = Application((replace(operator, batches=batches),))
        assert find_floor(replace(setting, application=application)) is None


@given(
    bound=st.floats(5.0, 200.0), count=st.integers(1, 5), highest=st.floats(20.0, 1500.0), share=st.floats(0.0, 1.0),
    waited=st.floats(0.0, 400.0),
)  # fmt: skip
@settings(max_examples=300)
@example(bound=62.0, count=4, highest=412.0, share=1.0, waited=108.3)  # of all that waits more than comes is served
def test_what_must_be_late_is_late_in_the_plant(
    bound: float, count: int, highest: float, share: float, waited: float
) -> None:
    """The mean over a slot counts by what is served in it, however long the queue took to grow."""
    task = make_task(types=1, k_max=5, one_at_a_time=False, bound=bound)
    p, k, rate = lay_out(task), np.array([count]), share * highest
    plant = fresh_plant(p, k, AT_ONCE)
    plant.queue[0] = waited * highest
    options = list_options(task, p, np.array([highest, rate]), world("backlog", (count,), np.zeros((0, 1))))
    waiting, place = waited * highest, len(options.count) - 1
    left = waiting + (rate - options.work_rate[place]) * AT_ONCE.slot_s
    late = is_late(options, place, AT_ONCE.slot_s, rate, rate, highest, waiting, left)
    response = PLANTS["backlog"].serve(p, plant, k, count, 0, rate)[1]
    assert response > bound * (1.0 - 1e-9) or not late


@given(
    bound=st.floats(12.0, 55.0), count=st.integers(1, 4), quantile=st.sampled_from([None, 0.5, 0.9, 0.99]),
    loads=st.lists(st.floats(0.0, 1.6), min_size=2, max_size=8),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
@example(bound=30.0, count=3, quantile=0.95, loads=[0.9, 1.04, 1.04, 1.0])
def test_batches_that_must_be_late_are_late_in_the_plant(
    bound: float, count: int, quantile: float | None, loads: list[float]
) -> None:
    """Whatever waits when a slot begins, the batch under way included."""
    task = make_task(types=1, k_max=4, one_at_a_time=False, batches=BATCHES, bound=bound, quantile=quantile)
    p, k = lay_out(task), np.array([count])
    plant = fresh_batch_plant(p, k, AT_ONCE, BATCHES, 0)
    each = seconds_each(p, plant)
    rates = np.array(loads) / each
    options = list_options(task, p, rates, world("batches", (count,), np.zeros((0, 1))))
    place, reach = len(options.count) - 1, count_slots_reached(options, AT_ONCE.slot_s)
    for t, rate in enumerate(rates.tolist()):
        under_way = min(plant.clock[FLYING], max(0.0, plant.clock[END]) / each)
        waiting = (count_waiting(plant.spans)[0] + under_way) * (1.0 - 1e-9)
        left = waiting + (rate - options.work_rate[place]) * AT_ONCE.slot_s
        newest, least = rates[max(0, t - reach) : t + 1].max(), rates[max(0, t - 1) : t + 1].min()
        late = is_late(options, place, AT_ONCE.slot_s, rate, least, newest, waiting, left)
        response = PLANTS["batches"].serve(p, plant, k, count, 0, rate)[1]
        assert response > bound * (1.0 - 1e-9) or not late
