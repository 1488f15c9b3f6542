"""Response times predicted on windows that the fit never saw, in streams simulated event by event."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import ciw
import numpy as np
import pytest

from scaler.model.errors import BadInput
from scaler.model.queueing import mg1_response
from scaler.model.sample import Sample
from tests.surrogate.changes import changing_stream
from tests.surrogate.worlds import LAWS, WINDOW, batch_stream, queue_stream
from tuner.surrogate.calibrate import deal, hold_out
from tuner.surrogate.fit import fit, make_load
from tuner.surrogate.observed_windows import build_windows
from tuner.surrogate.response_models import (
    WindowLoad,
    beat_evenly,
    fit_batches,
    fit_rhythm,
    measure_noise,
    overhead_by,
    predict_batches,
    predict_model,
    to_micro_batches,
)
from tuner.surrogate.service_moments import list_services
from tuner.surrogate.surrogate import Accuracy, OperatorSurrogate
from tuner.views.surrogate_report import format_model

ALLOWED = 0.15


@cache
def fitted(kind: str, **options: Any) -> OperatorSurrogate:
    samples = {"queue": queue_stream, "batches": batch_stream}[kind](**options)
    return fit(samples, "shop").operators[0]


@pytest.mark.parametrize("trigger", [1.0, 2.0])
def test_quantiles_of_batches_are_predicted_on_windows_held_out(trigger: float) -> None:
    operator = fitted("batches", trigger=trigger)
    assert [one.quantile for one in operator.quantiles] == [0.5, 0.95, 0.99]
    assert all(one.accuracy.error.value < ALLOWED for one in operator.quantiles)
    assert all(0.05 < group.observed < 4.0 for one in operator.quantiles for group in one.accuracy.groups)


RIGHT_ON_MEANS = ({"trigger": 0.0}, {"trigger": 0.3}, {"trigger": 1.0, "overhead": 0.3, "unrest": 0.5, "high": 0.75})


@pytest.mark.parametrize("options", RIGHT_ON_MEANS)
@pytest.mark.parametrize("quantile", [None, 0.95])
def test_batches_that_were_seen_go_before_a_queue(options: dict[str, float], quantile: float | None) -> None:
    """Of streams whose batches overrun a queue predicts means within 2 %, and quantiles not at all."""
    operator = fit(batch_stream(windows=120, **options), "shop", quantile=quantile).operators[0]
    assert operator.response is not None
    assert (operator.response.model, operator.response.chosen_by) == ("batches", quantile)
    assert accuracy_of(operator).error.value < 0.03
    assert all(one.accuracy.error.value < ALLOWED for one in operator.quantiles)


def test_rhythm_survives_tuples_that_count_to_other_windows() -> None:
    """Of windows of two batches or so, each batch's tuples lie in several and its duration in one."""
    share = np.linspace(0.2, 0.75, 40)
    truth = {"trigger": 2.0, "overhead": 0.8}
    wait, duration = beat_evenly(1.1 * share, truth)
    misplaced = np.random.default_rng(0).choice([0.5, 1.0, 2.0], share.size)
    columns = (2.0 * wait, duration, 2.0 * wait * share * misplaced, np.ones(share.size))
    found = fit_rhythm(*columns, share)
    assert found == pytest.approx({**truth, "work": 1.1, "noise": 0.0}, abs=1e-6)
    assert fit_rhythm(*columns)["work"] < 0.9


def test_misplaced_tuples_are_no_noise_of_batches() -> None:
    """Of two loads; where one follows the other, durations differ by more than noise."""
    rng = np.random.default_rng(1)
    work = np.repeat([0.4, 1.0, 0.4, 1.0], 15)
    duration = 0.8 + work + 0.1 * rng.standard_normal(work.size)
    misplaced = rng.choice([0.5, 1.0, 2.0], work.size)
    columns = (np.full(work.size, 2.0), duration, work * misplaced, np.ones(work.size))
    adjoining = np.diff(work) == 0.0
    assert fit_rhythm(*columns)["noise"] > 0.15
    assert fit_rhythm(*columns, adjoining=adjoining)["noise"] == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize("shared", [0.0, 0.4])
def test_overhead_that_replicas_share_is_told(shared: float) -> None:
    rng = np.random.default_rng(2)
    replicas = np.repeat([1.0, 2.0, 3.0, 4.0], 10)
    work = rng.uniform(0.2, 1.0, replicas.size)
    duration = 0.7 + shared / replicas + work + 0.03 * rng.standard_normal(replicas.size)
    columns = (np.full(replicas.size, 5.0), duration, work, np.ones(replicas.size))
    found = fit_rhythm(*columns, replicas=replicas)
    assert ("shared_overhead" in found) == (shared > 0.0)
    for many in (1, 2, 3, 4):
        assert overhead_by(found, many) == pytest.approx(0.7 + shared / many, abs=0.03)
    assert overhead_by(found, 9) == overhead_by(found, 4)  # of more nothing is known
    curve = to_micro_batches({**found, "delay": 0.0, "part": 1.0}).overhead_curve_s
    assert curve == (tuple(overhead_by(found, many) for many in (1, 2, 3, 4)) if shared else ())


def test_batches_whose_overhead_is_shared_are_predicted_at_every_number_of_replicas() -> None:
    changes = [(0.0, 1), *((1200.0 * i, 1 + i % 4) for i in range(1, 8))]
    samples = [
        replace(s, batch_interval=max(5.0 * (s.batches or 0.0), s.batch_time or 0.0))
        for s in changing_stream(changes, lambda _: 0.0, lambda _: 4.0, windows=160, overhead=1.0, shared=2.0)
    ]
    operator = fit(samples, "shop").operators[0]
    assert operator.response is not None
    assert operator.response.model == "batches"
    for many in (1, 2, 3, 4):
        assert overhead_by(operator.response.parameters, many) == pytest.approx(1.08 + 2.0 / many, rel=0.06)
    assert accuracy_of(operator).error.value < 0.03
    assert "overhead of one replica" in format_model(operator)


def test_another_quantile_is_judged_with_those_always_told() -> None:
    operator = fit(batch_stream(windows=60), "shop", quantile=0.9).operators[0]
    assert [one.quantile for one in operator.quantiles] == [0.5, 0.9, 0.95, 0.99]
    with pytest.raises(BadInput, match="the quantile is 1, and must be 0"):
        fit(batch_stream(windows=60), "shop", quantile=1.0)


def test_without_sketches_the_mean_chooses_whatever_is_asked() -> None:
    samples = [replace(s, responses=None) for s in batch_stream(windows=60)]
    assert fit(samples, "shop", quantile=0.95).operators == fit(samples, "shop").operators


def test_quantiles_that_no_window_tells_are_not_judged() -> None:
    assert fitted("queue").quantiles == ()


def accuracy_of(operator: OperatorSurrogate) -> Accuracy:
    assert operator.response is not None
    assert operator.response.accuracy is not None
    return operator.response.accuracy


def assert_predicts(operator: OperatorSurrogate, allowed: float = ALLOWED) -> None:
    """Within what is allowed at every load from .2 to .8, what the simulator replays too."""
    accuracy = accuracy_of(operator)
    loads = [group.utilisation for group in accuracy.groups]
    assert min(loads) < 0.3
    assert max(loads) > 0.7
    assert all(abs(group.predicted / group.observed - 1.0) <= allowed for group in accuracy.groups)
    assert accuracy.error.low <= accuracy.error.value <= accuracy.error.high <= allowed
    assert operator.replayed is not None
    assert operator.replayed.accuracy is not None
    assert operator.replayed.accuracy.error.value <= ALLOWED


@pytest.mark.parametrize("law", LAWS)
def test_a_queue_is_predicted_by_its_moments_and_a_constant(law: str) -> None:
    operator = fitted("queue", law=law)
    assert_predicts(operator, 0.06)
    assert operator.response is not None
    assert operator.response.model == "queue"
    assert operator.response.parameters["constant"] == pytest.approx(0.05, rel=0.05)


def test_replicas_of_several_node_types_are_told_apart() -> None:
    operator = fitted("queue", law="gamma", replicas=(("big", 1), ("small", 2)), speeds=(("big", 1.7), ("small", 1.0)))
    speeds = {speedup.node_type: speedup.speed for speedup in operator.speedups}
    assert speeds["big"].low <= 1.7 <= speeds["big"].high
    assert operator.reference == "small"
    assert_predicts(operator, 0.06)


@pytest.mark.parametrize("batches_seen", [True, False])
@pytest.mark.parametrize("trigger", [0.0, 0.3, 1.0, 2.0])
def test_micro_batches_are_predicted(trigger: float, batches_seen: bool) -> None:
    operator = fitted("batches", trigger=trigger, batches_seen=batches_seen, windows=120)
    assert_predicts(operator, 0.08)
    if trigger >= 1.0:  # below it, batches overrun at nearly every load, which looks like a queue
        assert operator.response is not None
        assert operator.response.model == "batches"
        assert operator.response.parameters["trigger"] == pytest.approx(trigger, rel=0.05)
        assert operator.response.parameters["overhead"] == pytest.approx(0.2, rel=0.2)


def ciw_stream() -> list[Sample]:
    """M/G/1 queues by Ciw, one run per load, each cut into windows; scv of service 3."""
    law = ciw.dists.HyperExponential(rates=[0.4, 3.0], probs=[0.3076923, 0.6923077])
    samples: list[Sample] = []
    order = np.random.default_rng(5).permutation(24)
    for place, level in enumerate(order):
        rho = 0.2 + 0.6 * level / 23
        network = ciw.create_network(
            arrival_distributions=[ciw.dists.Exponential(rate=rho)],
            service_distributions=[law],
            number_of_servers=[1],
        )
        ciw.seed(int(level))
        simulation = ciw.Simulation(network)
        length, runs = 20_000.0 / 20, 5
        simulation.simulate_until_max_time(length * runs)
        rows = [(r.exit_date, r.service_time, r.exit_date - r.arrival_date) for r in simulation.get_all_records()]
        table = np.array(sorted(rows))
        table = table[table[:, 0] < length * runs]
        for i in range(1, runs):
            part = table[(table[:, 0] // length).astype(int) == i]
            start = (place * runs + i) * WINDOW
            samples.append(
                Sample(
                    "shop", "count", start, start + WINDOW, "records", tuples_in=float(len(part)), replicas=1.0,
                    service_n=float(len(part)), service_sum=float(part[:, 1].sum()) * WINDOW / length,
                    service_squares=float((part[:, 1] ** 2).sum()) * (WINDOW / length) ** 2,
                    response_n=float(len(part)), response_sum=float(part[:, 2].sum() * WINDOW / length),
                )
            )  # fmt: skip
    return samples


@pytest.mark.slow
def test_queues_simulated_by_ciw_are_predicted() -> None:
    """Time in units of the service, then a thousand of them pressed into a window of 60 s."""
    operator = fit(ciw_stream(), "shop").operators[0]
    accuracy = accuracy_of(operator)
    assert accuracy.error.value <= ALLOWED
    assert operator.mean.low <= WINDOW / 1000.0 <= operator.mean.high


def test_odd_windows_do_not_rule() -> None:
    samples = queue_stream("gamma")
    odd = [replace(s, response_sum=20.0 * (s.response_sum or 0.0)) if i % 16 == 0 else s for i, s in enumerate(samples)]
    clean, dirty = (fit(some, "shop").operators[0].response for some in (samples, odd))
    assert clean is not None
    assert dirty is not None
    assert dirty.model == clean.model
    assert dirty.parameters["constant"] == pytest.approx(clean.parameters["constant"], rel=0.05)


def test_held_out_windows_are_never_fitted_on() -> None:
    """Spoiling them changes the stated error and not one prediction of theirs."""
    samples = queue_stream("gamma")
    sound = fit(samples, "shop").operators[0]
    times = {point.time for point in sound.points if point.held_out}
    spoilt = fit(
        [replace(s, response_sum=3.0 * (s.response_sum or 0.0)) if s.start in times else s for s in samples], "shop"
    ).operators[0]
    before = {point.time: point.predicted for point in sound.points if point.held_out}
    after = {point.time: point.predicted for point in spoilt.points if point.held_out}
    assert before == after
    assert accuracy_of(spoilt).error.value == pytest.approx(2.0 / 3.0, abs=0.03)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("count", [20, 63, 240, 1440])
def test_what_is_held_out_are_stretches_of_time(count: int, share: float) -> None:
    held = hold_out(count, share)
    assert held.mean() == pytest.approx(share, abs=0.06)
    assert held[-1]
    assert np.count_nonzero(np.diff(held.astype(int))) <= 2 * 20 * share + 2
    assert sorted(set(deal(count).tolist())) == [0, 1, 2, 3]


def test_the_same_samples_and_seed_give_the_same_surrogate() -> None:
    samples = queue_stream("exponential", windows=80)
    assert fit(samples, "shop", seed=3) == fit(list(reversed(samples)), "shop", seed=3)
    one, other = (fit(samples, "shop", seed=seed).operators[0] for seed in (3, 4))
    assert accuracy_of(one).error != accuracy_of(other).error


@pytest.mark.parametrize("options", [{"law": "gamma"}, {"law": "hyperexponential"}])
def test_the_error_is_about_as_large_on_a_stream_not_seen(options: dict[str, Any]) -> None:
    """Another seed of the same world, predicted with nothing of it known but the load."""
    fresh = build_windows(queue_stream(seed=77, **options))["count"]
    operator = fitted("queue", **options)
    assert operator.response is not None
    assert operator.variance is not None
    nothing = np.full(fresh.start.size, np.nan)
    load = WindowLoad(
        fresh.rate,
        fresh.rate,
        fresh.replicas,
        np.ones(1),
        operator.mean.value,
        operator.variance.value,
        nothing,
        nothing,
        nothing,
        nothing,
        np.arange(fresh.start.size),
    )
    predicted = predict_model(operator.response.model, load, operator.response.parameters)
    groups = np.array_split(np.argsort(load.utilisation), 6)
    off = np.mean([abs(predicted[g].mean() / fresh.response[g].mean() - 1.0) for g in groups])
    assert off <= max(2.0 * accuracy_of(operator).error.high, 0.02)


def restless(windows: int, felt: float) -> list[Sample]:
    """Loads that jump from window to window, answered as by M/G/1 at a load that is partly still the last one."""
    loads = np.random.default_rng(4).uniform(0.2, 0.8, windows)
    effective = (1.0 - felt) * loads + felt * np.append(loads[0], loads[:-1])
    samples = []
    for w in range(windows):
        n, mean = loads[w] * WINDOW / 0.02, 0.02
        response = 0.05 + mg1_response(effective[w] / mean, mean, mean**2, 1.0)
        samples.append(
            Sample(
                "shop", "count", w * WINDOW, w * WINDOW + WINDOW, "records", arrived=n, tuples_in=n, replicas=1.0,
                service_n=n, service_sum=n * mean, service_squares=2.0 * n * mean**2, response_n=n,
                response_sum=n * response,
            )
        )  # fmt: skip
    return samples


@pytest.mark.parametrize("felt", [0.0, 0.25, 0.5])
def test_a_load_that_is_still_felt_in_the_next_window_is_noticed(felt: float) -> None:
    operator = fit(restless(120, felt), "shop").operators[0]
    assert operator.response is not None
    assert operator.response.parameters["memory"] == felt
    assert accuracy_of(operator).error.value < 0.01


def test_batches_near_their_trigger_run_into_each_other_by_chance() -> None:
    """Overhead that swings by half: batches overrun where even ones would not, and drag the next along."""
    windows = build_windows(batch_stream(120, overhead=0.3, unrest=0.5, high=0.75))["count"]
    load = make_load(windows, list_services(windows)[0]["plain"], (), 1.0)
    parameters = fit_batches(load, windows.response)
    assert parameters["noise"] == pytest.approx(0.15, rel=0.2)
    near = load.utilisation > 0.65
    seen = float(windows.response[near].mean())
    assert float(predict_batches(load, parameters)[near].mean()) == pytest.approx(seen, rel=0.03)
    assert float(predict_batches(load, {**parameters, "noise": 0.0})[near].mean()) < 0.97 * seen


def test_drift_over_many_windows_is_no_noise_of_batches() -> None:
    """A busy neighbour makes all batches of a minute longer; windows of 16 batches would call it four times as much."""
    rng = np.random.default_rng(0)
    batches = rng.integers(4, 17, 400).astype(np.float64)
    noise = 0.1 * rng.standard_normal(400) / np.sqrt(batches)
    drift = 0.1 * np.sin(np.arange(400) / 12.0)
    assert measure_noise(noise, batches) == pytest.approx(0.1, rel=0.1)
    assert measure_noise(noise + drift, batches) == pytest.approx(0.1, rel=0.1)
