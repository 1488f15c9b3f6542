"""The micro-batch plant against closed forms, an event-by-event twin, and the laws it keeps."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.model.errors import BadInput
from scaler.model.kernel import action_of, lay_out, two_slowest
from scaler.model.micro_batches import (
    MicroBatches,
    load_within,
    parse_batches,
    steady_cycle,
    steady_response,
    tuple_seconds,
)
from sim.application import read_application
from sim.batch_course import END, FLYING, fresh_batch_plant
from sim.batch_plant import batch_queue, change_batches, serve_batches, take_from_batch
from sim.compiler import compile_kernel
from sim.replicas import Inertia
from sim.simulate import simulate
from sim.spans import count_waiting
from tests.examples import make_rates, make_task
from tests.oracles.micro_batches import Arrivals, Replicas, list_batches
from tuner.scenario.document import format_application
from tuner.scenario.scenario import read_scenario

TASK = make_task(types=1, k_max=6)
P = lay_out(TASK)
MEAN = TASK.moments.mean
SLOT = 60.0
AT_ONCE = Inertia(SLOT, 0.0, 0.0)


class Bed:
    """One operator on the micro-batch plant, slot by slot."""

    def __init__(self, batches: MicroBatches, replicas: int = 1, inertia: Inertia = AT_ONCE) -> None:
        self.k = np.array([replicas])
        self.plant = fresh_batch_plant(P, self.k, inertia, batches, 7)

    def serve(self, rate: float) -> tuple[float, float, float]:
        return serve_batches(P, self.plant, self.k, int(self.k.sum()), two_slowest(P, self.k)[0], rate)

    def change(self, action: int) -> None:
        change_batches(P, self.plant, self.k, action)
        self.k[0] += 1 if action == 2 else -1

    def inside(self) -> float:
        return count_waiting(self.plant.spans)[0] + float(self.plant.clock[FLYING])


@pytest.mark.parametrize("trigger", [0.0, 1.0, 5.0, 12.0, 60.0])
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.7, 0.95])
@pytest.mark.parametrize("partitions", [0, 8])
def test_steady_state_equals_its_closed_form(trigger: float, rho: float, partitions: int) -> None:
    batches = MicroBatches(trigger, 0.4, 1.3, delay_s=0.2, part=0.8, partitions=partitions)
    each = tuple_seconds(MEAN, 1.3, partitions, 1.0, 3)
    bed = Bed(batches, replicas=3)
    for _ in range(400):
        utilisation, response, output = bed.serve(rho / each)
    cycle = steady_cycle(trigger, 0.4, rho)
    assert response == pytest.approx(steady_response(trigger, 0.4, 0.2, 0.8, rho), rel=1e-9)
    if cycle == trigger and rho > 0.0:
        assert utilisation == pytest.approx(rho / each * MEAN / 3, rel=1e-9)
        assert output == pytest.approx(rho / each, rel=1e-9)


def test_cycle_overruns_its_trigger_without_a_jump() -> None:
    kept = 1.0 - 0.4 / 5.0
    assert steady_cycle(5.0, 0.4, kept - 1e-12) == 5.0
    assert steady_cycle(5.0, 0.4, kept + 1e-9) == pytest.approx(5.0, rel=1e-6)
    assert steady_cycle(5.0, 0.4, 1.0) == math.inf


@given(st.floats(0.0, 20.0), st.floats(0.05, 3.0), st.floats(0.0, 2.0), st.floats(0.0, 1.0), st.floats(0.1, 60.0))
def test_load_within_a_bound_meets_it_exactly(
    trigger: float, overhead: float, delay: float, part: float, bound: float
) -> None:
    rho = load_within(bound, trigger, overhead, delay, part)
    assert 0.0 <= rho < 1.0
    if rho > 0.0:
        assert steady_response(trigger, overhead, delay, part, rho * (1.0 - 1e-9)) <= bound * (1.0 + 1e-9)
        assert steady_response(trigger, overhead, delay, part, min(1.0, rho * 1.001 + 1e-6)) >= bound * (1.0 - 1e-9)


@settings(max_examples=60, deadline=None)
@given(
    rates=st.lists(st.sampled_from([0.0, 20.0, 150.0, 400.0, 900.0]), min_size=1, max_size=12),
    trigger=st.sampled_from([0.0, 0.73, 7.0, 45.0, 130.0]),  # none meets a slot's end but for its last bits
    most=st.sampled_from([0.0, 900.0, 5000.0]),
    merge=st.booleans(),
    replicas=st.integers(1, 4),
    partitions=st.sampled_from([0, 3]),
)
def test_slots_equal_a_twin_that_knows_none(rates, trigger, most, merge, replicas, partitions) -> None:
    merge = merge or trigger == 0.0
    most = most if merge else 0.0
    batches = MicroBatches(trigger, 0.5, 1.1, delay_s=0.3, part=0.9, partitions=partitions, most=most, merge=merge)
    each = tuple_seconds(MEAN, 1.1, partitions, 1.0, replicas)
    bed = Bed(batches, replicas)
    until = SLOT * len(rates)
    twin = list_batches(Arrivals(rates, SLOT), trigger, merge, most, lambda _, n: 0.5 + each * n, until)
    for i, rate in enumerate(rates):
        utilisation, response, output = bed.serve(rate)
        low, high = i * SLOT, (i + 1) * SLOT
        started = [b for b in twin if low - 1e-6 <= b.start < high - 1e-6]
        ended = sum(b.tuples for b in twin if low < b.end <= high)
        sure = all(min(abs(b.end - low), abs(b.end - high), abs(b.start - high)) > 1e-6 for b in twin)
        taken = sum(b.tuples for b in started)
        overlaps = ((b, max(0.0, min(b.end, high) - max(b.start, low))) for b in twin)
        served = sum(b.tuples * MEAN / replicas * inside / (b.end - b.start) for b, inside in overlaps)
        used = max(served / SLOT, rate * MEAN / replicas)  # what is served, or what comes
        assert utilisation == pytest.approx(used, abs=1e-6) or utilisation >= 1.0 or not sure
        if taken > 1e-6 and sure:
            total = sum(b.waits + b.tuples * (0.3 + 0.9 * (b.end - b.start)) for b in started)
            assert response == pytest.approx(total / taken, rel=1e-6)
        if sure:
            assert output * SLOT == pytest.approx(ended, rel=1e-9, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    slots=st.lists(st.tuples(st.floats(0.0, 900.0), st.integers(0, 2)), min_size=1, max_size=60),
    trigger=st.sampled_from([0.0, 3.0, 45.0]),
    noise=st.sampled_from([0.0, 0.8]),
    most=st.sampled_from([0.0, 2000.0]),
)
def test_what_came_is_out_or_waits_in_every_slot(slots, trigger: float, noise: float, most: float) -> None:
    batches = MicroBatches(trigger, 0.5, 1.0, noise_s=noise, correlation=0.6, most=most)
    bed = Bed(batches, inertia=Inertia(SLOT, 5.0, 100.0))
    came = out = 0.0
    for rate, action in slots:
        _, response, output = bed.serve(rate)
        came += rate * SLOT
        out += output * SLOT
        assert out + bed.inside() == pytest.approx(came, rel=1e-9, abs=1e-6)
        assert response > 0.0
        assert bed.plant.change.serving.sum() >= 1
        if (action == 2 and bed.k.sum() < P.k_max) or (action == 1 and bed.k.sum() > 1):
            bed.change(action)


@settings(max_examples=100, deadline=None)
@given(
    slots=st.lists(st.tuples(st.sampled_from([0.0, 150.0, 400.0, 900.0]), st.integers(-2, 2)), min_size=2, max_size=10),
    trigger=st.sampled_from([0.0, 7.0, 45.0, 130.0]),
    start_s=st.sampled_from([0.0, 7.3, 41.0, 77.0]),
    partitions=st.sampled_from([0, 7]),
)
def test_changes_during_a_batch_equal_a_twin_that_knows_none(slots, trigger, start_s, partitions) -> None:
    """What is removed, ordered or cancelled while a batch runs changes the pace of what is left of it alone."""
    batches = MicroBatches(trigger, 0.5, 1.1, partitions=partitions)
    bed, twin = Bed(batches, 3, Inertia(SLOT, 0.0, start_s)), Replicas(3)
    count, deltas = 3, []
    for i, (_, wanted) in enumerate(slots):
        deltas.append(max(1, min(P.k_max, count + wanted)) - count)
        count += deltas[-1]
        twin.change((i + 1) * SLOT, deltas[-1], start_s)

    def last(start: float, tuples: float) -> float:
        return twin.find_end(start + 0.5, tuples, lambda k: tuple_seconds(MEAN, 1.1, partitions, 1.0, k)) - start

    rates = [rate for rate, _ in slots]
    listed = list_batches(Arrivals(rates, SLOT), trigger, True, 0.0, last, SLOT * len(slots))
    edges = [i * SLOT for i in range(len(slots) + 1)]
    if any(min(abs(moment - edge) for edge in edges[1:]) < 1e-6 for b in listed for moment in (b.start, b.end)):
        return
    for i, (rate, delta) in enumerate(zip(rates, deltas, strict=True)):
        _, _, output = bed.serve(rate)
        ended = sum(b.tuples for b in listed if edges[i] < b.end <= edges[i + 1])
        assert output * SLOT == pytest.approx(ended, rel=1e-9, abs=1e-6)
        if delta:
            change_batches(P, bed.plant, bed.k, action_of(P, bed.k, 0, delta))
            bed.k[0] += delta


def test_a_change_delays_the_next_batch_alone() -> None:
    bed = Bed(MicroBatches(10.0, 0.5), replicas=2, inertia=Inertia(SLOT, 4.0, 0.0))
    before = bed.serve(100.0), bed.serve(100.0)
    bed.change(2)
    during, after = bed.serve(100.0), bed.serve(100.0)
    own = steady_response(10.0, 0.5, 0.0, 1.0, 100.0 * MEAN / 3)
    assert during[1] == pytest.approx(own + 4.0 / 6.0, rel=1e-9)  # one of the slot's six batches is 4 s longer
    assert after[1] == pytest.approx(own, rel=1e-9)
    assert before[1][1] > own


def test_noise_scatters_batches_as_stated() -> None:
    bed = Bed(MicroBatches(60.0, 5.0, noise_s=1.5, correlation=0.5))
    responses = np.array([bed.serve(100.0)[1] for _ in range(20_000)])
    assert responses.std() == pytest.approx(1.5, rel=0.03)
    assert np.corrcoef(responses[1:], responses[:-1])[0, 1] == pytest.approx(0.5, abs=0.03)
    assert responses.mean() == pytest.approx(steady_response(60.0, 5.0, 0.0, 1.0, 100.0 * MEAN), abs=0.05)


def test_partitions_make_replicas_useless_beyond_them() -> None:
    def respond(replicas: int) -> float:
        bed = Bed(MicroBatches(10.0, 0.5, partitions=4), replicas)
        return [bed.serve(150.0)[1] for _ in range(3)][-1]

    assert respond(2) == respond(3) > respond(4) == respond(5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trigger_s": 0.3, "overhead_s": 0.5}, "trigger less often"),
        ({"overhead_s": 0.0}, "overhead of a batch is 0 s"),
        ({"part": 1.5}, "shares from 0 to 1"),
        ({"work": 0.0}, "must be positive"),
        ({"merge": False}, "trigger_s above 0"),
        ({"most": -1.0}, "0 or more"),
    ],
)
def test_impossible_batches_are_refused(changes, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        replace(MicroBatches(), **changes)


SCENARIO = """
[application]
operator = [
  {name = "parse", service_time = 0.005, scv = 1.0, batches = {trigger_s = 10.0, overhead_s = 0.8, noise_s = 0.2}},
  {name = "count", service_time = 0.004, scv = 1.0},
]
edge = [{from = "parse", to = "count"}]
[qos]
r_max = 20.0
[trace]
generator = "diurnal"
slots = 3000
[run]
plant = "batches"
[policy]
name = "threshold-c"
"""


def test_a_scenario_replays_operators_in_batches_and_others_as_queues(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO)
    run = simulate(read_scenario(tmp_path / "s.toml").settings[0], record=True)
    assert run.timeline is not None
    assert run.timeline.responses[0].min() > 5.0  # half the trigger's interval
    assert run.timeline.responses[1].min() < 1.0  # an operator that states no batches is a queue


def test_compiled_slots_equal_interpreted_ones() -> None:
    batches = MicroBatches(7.0, 0.5, noise_s=0.3, correlation=0.4, partitions=3, most=4000.0)
    plain, fast = Bed(batches, 2), Bed(batches, 2)
    serve = compile_kernel(serve_batches)
    for rate in make_rates(300, high=500.0):
        slot = serve(P, fast.plant, fast.k, 2, two_slowest(P, fast.k)[0], rate)
        assert slot == pytest.approx(plain.serve(rate), rel=1e-12)


def test_a_description_with_batches_reads_back_the_same(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO)
    application = read_scenario(tmp_path / "s.toml").settings[0].application
    (tmp_path / "a.toml").write_text(format_application(application))
    assert read_application(tmp_path / "a.toml").operators == application.operators


def test_plant_of_batches_without_any_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[run]\nplant = "batches"\n')
    with pytest.raises(BadInput, match="no operator of 'single' states any"):
        read_scenario(tmp_path / "s.toml")


def test_replicas_that_come_during_a_batch_take_part_in_it() -> None:
    """One replica for a second of overhead and ten of work, then three for what is left of thirty."""
    p = lay_out(make_task(types=1, k_max=3))
    k, batches = np.array([1]), MicroBatches(60.0, 1.0, 1.0)
    plant, rate = fresh_batch_plant(p, k, Inertia(60.0, 0.0, 11.0), batches, 0), 0.5 / p.mean
    serve_batches(p, plant, k, 1, 0, rate)
    change_batches(p, plant, k, action_of(p, k, 0, 2))
    serve_batches(p, plant, np.array([3]), 3, 0, rate)
    assert batch_queue(plant)[2] * 60.0 == pytest.approx(1.0 + 10.0 + 20.0 / 3.0)


@pytest.mark.parametrize(("start_s", "lasts"), [(200.0, 32.0 + 29.0), (11.0, 11.0 + 50.0 / 2.0)])
def test_lost_replica_has_its_part_of_the_batch_redone(start_s: float, lasts: float) -> None:
    """Two replicas have done 29 s of 45; what the lost one did is done again, by the other and its replacement."""
    p = lay_out(make_task(types=1, k_max=2))
    k, plant = (
        np.array([2]),
        fresh_batch_plant(p, np.array([2]), Inertia(60.0, 0.0, start_s), MicroBatches(90.0, 1.0), 0),
    )
    for _ in range(2):
        serve_batches(p, plant, k, 2, 0, 1.0 / p.mean)
    assert plant.clock[END] == pytest.approx(16.0)
    take_from_batch(p, plant, 0, 1)
    assert plant.clock[END] == pytest.approx(lasts)


def test_batch_waits_where_all_its_replicas_were_lost() -> None:
    p = lay_out(make_task(types=1, k_max=1))
    k, plant = np.array([1]), fresh_batch_plant(p, np.array([1]), Inertia(60.0, 0.0, 7.0), MicroBatches(90.0, 1.0), 0)
    for _ in range(2):
        serve_batches(p, plant, k, 1, 0, 0.5 / p.mean)
    take_from_batch(p, plant, 0, 1)
    assert plant.clock[END] == pytest.approx(7.0 + 45.0)


@pytest.mark.parametrize("batches", [MicroBatches(10.0, 0.5), MicroBatches(10.0, 8.0, overhead_curve_s=(3.0, 2.0))])
def test_constants_that_crossed_a_wire_are_the_same_and_can_be_looked_up(batches: MicroBatches) -> None:
    wire = json.dumps(asdict(batches) | {"of_a_newer_release": 1.0})
    read = parse_batches(json.loads(wire))
    assert read == batches
    assert hash(read) == hash(batches)
