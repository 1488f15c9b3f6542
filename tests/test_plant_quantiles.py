"""Response-time quantiles of all plants against closed forms, a twin without slots and a fluid in tiny steps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.model.batch_quantiles import batch_load_within, batch_response
from scaler.model.errors import BadInput
from scaler.model.kernel import lay_out, predict_response, rate_within, replica_response, two_slowest
from scaler.model.micro_batches import (
    SHORTEST,
    MicroBatches,
    load_within,
    phase_of,
    steady_cycle,
    steady_response,
    tuple_seconds,
)
from scaler.model.queue_quantiles import replica_response_time
from scaler.policies.rules.threshold import THRESHOLD_C
from sim.batch_course import fresh_batch_plant, next_noise
from sim.batch_plant import serve_batches
from sim.compiler import compile_kernel
from sim.floor import rate_limit
from sim.graphs import find_application
from sim.infrastructure import find_infrastructure
from sim.plant import backlog, memoryless
from sim.replicas import Inertia, disturb, fresh_plant
from sim.setting import Setting, Shift
from sim.simulate import simulate
from sim.spans import PARTS, Parts, add_part, no_parts, part_quantile
from sim.trace import Trace
from tests.examples import make_rates, make_task, replay
from tests.oracles.fluid import Fluid
from tests.oracles.micro_batches import Arrivals, find_response_quantile, list_batches

QUANTILES = (0.5, 0.95, 0.999)
SLOT = 60.0
AT_ONCE = Inertia(SLOT, 0.0, 0.0)
MEAN = make_task().moments.mean


class Bed:
    """One operator on the micro-batch plant, slot by slot."""

    def __init__(self, quantile: float | None, batches: MicroBatches, replicas: int = 1) -> None:
        self.p = lay_out(make_task(types=1, k_max=6, quantile=quantile))
        self.k = np.array([replicas])
        self.plant = fresh_batch_plant(self.p, self.k, AT_ONCE, batches, 7)

    def serve(self, rate: float, serve=serve_batches) -> tuple[float, float, float]:
        return serve(self.p, self.plant, self.k, int(self.k.sum()), two_slowest(self.p, self.k)[0], rate)


@pytest.mark.parametrize("quantile", QUANTILES)
@pytest.mark.parametrize("speed", [0.7, 1.3])
def test_memoryless_answers_with_the_quantile_of_a_queue(quantile: float, speed: float) -> None:
    task = make_task(types=3, quantile=quantile)
    p, k = lay_out(task), np.array([1, 0, 1] if speed == 1.3 else [1, 1, 0])
    m, v = task.moments.mean, task.moments.variance
    slowest = min(1.0, speed)
    for rate in (1.0, 100.0, 240.0):
        response = memoryless(p, fresh_plant(p, k, AT_ONCE), k, 2, two_slowest(p, k)[0], rate)[1]
        assert response == replica_response_time(rate / 2, m, v, slowest, quantile)
    assert memoryless(p, fresh_plant(p, k, AT_ONCE), k, 2, two_slowest(p, k)[0], 900.0)[1] == math.inf


@pytest.mark.parametrize("quantile", QUANTILES)
def test_capacity_and_floor_meet_the_quantile(quantile: float) -> None:
    p = lay_out(make_task(quantile=quantile, bound=0.1))
    for i, speed in enumerate(p.speedup):
        assert replica_response(p, p.capacity[i], speed) == pytest.approx(0.1, rel=1e-5)
        assert rate_limit(p, 3, speed) == pytest.approx(3 * p.capacity[i], rel=1e-5)
    mean = lay_out(make_task(bound=0.1))
    assert (p.capacity < mean.capacity).all() == (quantile > 0.9)


@pytest.mark.parametrize("trigger", [0.0, 1.0, 5.0, 12.0, 60.0])
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.95])
@pytest.mark.parametrize("quantile", QUANTILES)
def test_batches_answer_with_their_closed_form(trigger: float, rho: float, quantile: float) -> None:
    batches = MicroBatches(trigger, 0.4, 1.3, delay_s=0.2, part=0.8, partitions=8)
    bed = Bed(quantile, batches, replicas=3)
    rate = rho / tuple_seconds(MEAN, 1.3, 8, 1.0, 3)
    for _ in range(120):
        response = bed.serve(rate)[1]
    assert response == pytest.approx(steady_response(trigger, 0.4, 0.2, 0.8, rho, quantile), rel=1e-9)


@given(
    st.floats(0.0, 20.0),
    st.floats(0.05, 3.0),
    st.floats(0.0, 2.0),
    st.floats(0.0, 1.0),
    st.floats(0.1, 60.0),
    st.sampled_from(QUANTILES),
)
def test_load_within_a_quantile_meets_it_exactly(
    trigger: float, overhead: float, delay: float, part: float, bound: float, quantile: float
) -> None:
    rho = load_within(bound, trigger, overhead, delay, part, quantile)
    assert 0.0 <= rho < 1.0
    if rho > 0.0:
        assert steady_response(trigger, overhead, delay, part, rho * (1.0 - 1e-9), quantile) <= bound * (1.0 + 1e-9)
        beyond = min(1.0, rho * 1.001 + 1e-6)
        assert steady_response(trigger, overhead, delay, part, beyond, quantile) >= bound * (1.0 - 1e-9)


def test_capacity_of_batches_is_within_the_quantile() -> None:
    task = make_task(types=1, bound=12.0, quantile=0.95, batches=MicroBatches(10.0, 0.5, 1.2))
    rho = rate_within(task, 1.0) * 1.2 * MEAN
    assert steady_response(10.0, 0.5, 0.0, 1.0, rho, 0.95) == pytest.approx(12.0, rel=1e-9)
    assert rate_within(task, 1.0) < rate_within(replace(task, quantile=None), 1.0)


NOISY = (  # where batches keep to the trigger, follow each other at once, and overrun the trigger by chance
    (MicroBatches(10.0, 2.0, noise_s=1.0, correlation=0.6, delay_s=0.1, part=0.9), 0.5, (0.01, 0.02, 0.03)),
    (MicroBatches(0.0, 0.4, noise_s=0.2, correlation=0.6, delay_s=0.1, part=0.9), 0.5, (0.01, 0.02, 0.03)),
    (MicroBatches(1.0, 0.4, noise_s=0.2, correlation=0.6, delay_s=0.1, part=0.9), 0.58, (0.04, 0.05, 0.07)),
)


@pytest.mark.parametrize(("batches", "rho", "allowed"), NOISY)
def test_quantiles_with_noise_are_the_plants_within_the_error_stated(batches, rho: float, allowed) -> None:
    """Slots of so many batches as are told apart, put together; what is allowed counts what chance adds."""
    p, k = lay_out(make_task(types=1, k_max=6, quantile=0.95)), np.array([1])
    length = PARTS / 2 * steady_cycle(batches.trigger_s, batches.overhead_s, rho)
    plant = fresh_batch_plant(p, k, Inertia(length, 0.0, 0.0), batches, 3)
    slots = []
    for _ in range(10):
        serve_batches(p, plant, k, 1, 0, rho / MEAN)
        slots.append([column[: plant.change.parts.many[0]].copy() for column in plant.change.parts[:3]])
    lows, highs, tuples = (np.concatenate(columns) for columns in zip(*slots, strict=True))
    parts = Parts(lows, highs, tuples, np.array([lows.size]))
    for quantile, error in zip((0.95, 0.99, 0.999), allowed, strict=True):
        seen = part_quantile(parts, quantile)
        assert batch_response(batches, rho, quantile) == pytest.approx(seen, rel=error)
        without = batch_response(replace(batches, noise_s=0.0), rho, quantile)
        assert without < (1.0 - 2.0 * error) * seen or quantile < 0.99


@given(
    st.sampled_from([one for one, _, _ in NOISY]), st.floats(0.5, 30.0), st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999])
)
@settings(max_examples=25, deadline=None)
def test_load_within_a_quantile_counts_the_noise(batches: MicroBatches, bound: float, quantile: float) -> None:
    load = batch_load_within(batches, bound, quantile)
    even = batch_load_within(replace(batches, noise_s=0.0), bound, quantile)
    assert 0.0 <= load <= even
    if 0.0 < load < even:
        assert batch_response(batches, load, quantile) == pytest.approx(bound, rel=1e-3)
    if load == 0.0:
        assert batch_response(batches, 0.0, quantile) > bound * 0.999


def test_means_and_batches_without_noise_keep_their_closed_forms() -> None:
    noisy = MicroBatches(5.0, 0.4, noise_s=0.3, delay_s=0.2, part=0.8)
    for quantile, batches in ((None, noisy), (0.95, replace(noisy, noise_s=0.0))):
        phase = phase_of(quantile or 0.0)
        assert batch_response(batches, 0.6, quantile) == steady_response(5.0, 0.4, 0.2, 0.8, 0.6, phase)
        assert batch_load_within(batches, 7.0, quantile) == load_within(7.0, 5.0, 0.4, 0.2, 0.8, phase)
    assert batch_response(noisy, 1.0, 0.95) == math.inf


@pytest.mark.parametrize("quantile", [None, 0.95])
@pytest.mark.parametrize("batches", [None, MicroBatches(10.0, 0.5, 1.2, delay_s=0.1, part=0.9, partitions=8)])
def test_prediction_of_a_steady_rate_is_what_the_plant_answers(batches, quantile: float | None) -> None:
    task = make_task(types=1, k_max=6, quantile=quantile, batches=batches)
    p, k = lay_out(task), np.array([3])
    if batches is None:
        response = memoryless(p, fresh_plant(p, k, AT_ONCE), k, 3, 0, 240.0)[1]
    else:
        bed = Bed(quantile, batches, replicas=3)
        response = [bed.serve(240.0)[1] for _ in range(3)][-1]
    assert response == pytest.approx(predict_response(task, 240.0, 3, 1.0), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    rates=st.lists(st.sampled_from([0.0, 20.0, 150.0, 400.0, 900.0]), min_size=1, max_size=12),
    trigger=st.sampled_from([0.0, 0.73, 7.0, 45.0, 130.0]),  # none meets a slot's end but for its last bits
    noise=st.sampled_from([0.0, 0.05, 1.5]),
    most=st.sampled_from([0.0, 900.0, 5000.0]),
    merge=st.booleans(),
    replicas=st.integers(1, 4),
    quantile=st.sampled_from(QUANTILES),
)
def test_quantiles_equal_a_twin_that_knows_no_slots(rates, trigger, noise, most, merge, replicas, quantile) -> None:
    merge = merge or trigger == 0.0
    most = most if merge else 0.0
    batches = MicroBatches(trigger, 0.5, 1.1, noise, 0.4, delay_s=0.3, part=0.9, most=most, merge=merge)
    each = tuple_seconds(MEAN, 1.1, 0, 1.0, replicas)
    bed, noises = Bed(quantile, batches, replicas), Bed(quantile, batches).plant

    def last(_: float, tuples: float) -> float:
        return max(SHORTEST * 0.5, 0.5 + each * tuples + next_noise(noises))

    arrivals = Arrivals(rates, SLOT)
    twin = list_batches(arrivals, trigger, merge, most, last, SLOT * len(rates))
    for i, rate in enumerate(rates):
        response = bed.serve(rate)[1]
        low, high = i * SLOT, (i + 1) * SLOT
        started = [b for b in twin if low - 1e-6 <= b.start < high - 1e-6]
        sure = all(min(abs(b.start - low), abs(b.start - high)) > 1e-6 for b in twin if b.start > 0.0)
        if sum(b.tuples for b in started) > 1e-6 and sure:
            least, most_s = (  # apart where just so many of the tuples are batches that were much quicker
                find_response_quantile(arrivals, started, 0.3, 0.9, near) for near in (quantile - 1e-9, quantile + 1e-9)
            )
            assert least * (1.0 - 1e-6) <= response <= most_s * (1.0 + 1e-6)


def test_more_batches_than_are_told_apart_keep_their_quantile() -> None:
    bed = Bed(0.95, MicroBatches(0.0, 0.005), replicas=2)
    for _ in range(2):
        response = bed.serve(100.0)[1]
    assert bed.plant.change.parts.many[0] <= PARTS < SLOT / 0.01
    assert response == pytest.approx(steady_response(0.0, 0.005, 0.0, 1.0, 100.0 * MEAN / 2, 0.95), rel=1e-6)


def test_where_no_batch_starts_those_that_wait_are_foreseen() -> None:
    bed = Bed(0.95, MicroBatches(150.0, 1.0))
    for rate in (0.0, 100.0):
        response = bed.serve(rate)[1]  # in the second slot all wait for the trigger at 150 s
    assert response == pytest.approx(150.0 - 63.0 + 1.0 + MEAN * 6000.0, rel=1e-9)  # 63 s: where the oldest 5 % end


@given(
    st.lists(st.tuples(st.floats(0.0, 9.0), st.floats(0.0, 5.0), st.floats(0.01, 9.0)), min_size=1, max_size=30),
    st.sampled_from(QUANTILES),
)
def test_quantile_of_parts_splits_their_tuples(parts: list[tuple[float, float, float]], quantile: float) -> None:
    found: Parts = no_parts(PARTS)
    for low, width, tuples in parts:
        add_part(found, low, low + width, tuples)
    time = part_quantile(found, quantile)

    def share(moment: float) -> float:
        below = [t * (float(moment >= low) if w < 1e-12 else np.clip((moment - low) / w, 0, 1)) for low, w, t in parts]
        return float(sum(below) / sum(t for _, _, t in parts))

    assert share(time + 1e-9) >= quantile - 1e-9
    assert share(time - 1e-9) <= quantile + 1e-9


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 900.0), st.integers(0, 6)), min_size=1, max_size=6),
    st.floats(0.0, 20.0),
    st.floats(0.0, 90.0),
    st.sampled_from([0.5, 0.95]),
)
def test_waits_of_a_backlog_equal_a_fluid_in_tiny_steps(slots, pause_s: float, start_s: float, quantile: float) -> None:
    task = make_task(k_max=6, quantile=quantile)
    p, inertia, k = lay_out(task), Inertia(30.0, pause_s, start_s), np.array([1, 1, 0])
    plant, fluid = fresh_plant(p, k, inertia), Fluid(task, [1, 1, 0])
    for rate, action in slots:
        response = backlog(p, plant, k, int(k.sum()), two_slowest(p, k)[0], rate)[1]
        served, _ = fluid.slot(rate, inertia.slot_s)
        speed = p.speedup[p.order[two_slowest(p, plant.serving)[0]]]
        steady = replica_response(p, rate / plant.serving.sum(), speed)
        steady = steady if math.isfinite(steady) else replica_response(p, 0.0, speed)
        if served > 100.0:
            assert response - steady == pytest.approx(fluid.wait_quantile(inertia.slot_s, quantile), abs=0.05, rel=0.01)
        if action > 3 and k.sum() < p.k_max:
            disturb(p, plant, k, action)
            k[action - 4] += 1
            fluid.pause += pause_s
            fluid.starting.append((start_s, action - 4))


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_compiled_quantiles_equal_interpreted_ones(noise: float) -> None:
    batches = MicroBatches(7.0, 0.5, noise_s=noise, correlation=0.4, partitions=3, most=4000.0)
    plain, fast = Bed(0.95, batches, 2), Bed(0.95, batches, 2)
    compiled = compile_kernel(serve_batches)
    for rate in make_rates(300, high=500.0):
        assert fast.serve(rate, compiled) == pytest.approx(plain.serve(rate), rel=1e-9)


def test_compiled_backlog_equals_the_interpreted_one() -> None:
    p, k = lay_out(make_task(k_max=6, quantile=0.95)), np.array([1, 1, 0])
    plain, fast = fresh_plant(p, k, Inertia(SLOT)), fresh_plant(p, k, Inertia(SLOT))
    compiled = compile_kernel(backlog)
    for rate in make_rates(300):
        slot = compiled(p, fast, k, 2, two_slowest(p, k)[0], rate)
        assert slot == pytest.approx(backlog(p, plain, k, 2, two_slowest(p, k)[0], rate), rel=1e-9)


@pytest.mark.parametrize("plant", ["memoryless", "backlog"])
def test_replays_judge_slots_by_the_quantile(plant: str) -> None:
    rates = make_rates(2000)
    mean, p95 = (replay(make_task(quantile=q, k_max=10), rates, THRESHOLD_C, plant=plant) for q in (None, 0.95))
    assert p95.violations > mean.violations
    assert p95.actions == mean.actions  # a threshold on utilisation knows no response times
    assert (p95.record.response >= mean.record.response).all() == (plant == "memoryless")
    assert np.median(p95.record.response) > np.median(mean.record.response)


def test_a_shift_keeps_the_quantile() -> None:
    setting = Setting(
        application=find_application("single", service_rate=180.0),
        infrastructure=find_infrastructure("A", 1),
        trace=Trace(np.full(100, 50.0), SLOT),
        policy="threshold-c",
        r_max=0.1,
    )
    with pytest.raises(BadInput, match="a shift keeps the quantile"):
        simulate(setting, shifts=[Shift(50, replace(setting, quantile=0.95))])
