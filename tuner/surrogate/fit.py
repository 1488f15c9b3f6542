"""Fit, calibrate and check the surrogate of an application from its folded samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.kernel import Floats
from scaler.model.nodes import NodeType
from scaler.model.sample import Sample
from scaler.model.task import check_quantile
from tuner.surrogate.calibrate import CalibrationResult, QuantileSeen, assess, calibrate, hold_out
from tuner.surrogate.checks import CHECKS, NEAR_ONE, CheckInput
from tuner.surrogate.drift import describe_rates, judge_changes, measure_profile, profile_of_fit
from tuner.surrogate.estimate import Estimate, estimate_positive, scale
from tuner.surrogate.observed_windows import (
    UNNAMED,
    Flags,
    Windows,
    build_windows,
    divide,
    filter_windows,
    find_backlog,
    find_changes,
    follows,
)
from tuner.surrogate.reconfiguration_times import measure_reconfigurations, measure_state
from tuner.surrogate.response_models import WindowLoad, predict_quantile, select_windows
from tuner.surrogate.service_moments import ServiceMoments, anchor, find_speedups, list_services
from tuner.surrogate.surrogate import Check, OperatorSurrogate, PredictedWindow, QuantileAccuracy, Speedup, Surrogate

HOLDOUT = 0.3
COVERED = 0.5  # of a window, below which its rate and response time are not relied on
MOST_POINTS = 400  # kept for a plot
JUDGED = (0.5, 0.95, 0.99)  # quantiles of response times
FEWEST_QUANTILES = 4  # held-out windows that tell a quantile


def fit(
    samples: Iterable[Sample],
    application: str,
    holdout: float = HOLDOUT,
    seed: int = 0,
    node_types: Sequence[NodeType] = (),
    quantile: float | None = None,
) -> Surrogate:
    """`node_types` declares speeds for the types that were not seen, and the unit of speed for those that were.

    `quantile` is that of response times which bounds are about, by which models are then chosen; None: their mean.
    """
    check_quantile(quantile)
    if not 0.0 < holdout < 1.0:
        raise BadInput(f"the share of windows to hold out is {holdout}, and must lie between 0 and 1")
    own = choose_length([sample for sample in samples if sample.application == application])
    if not own:
        raise BadInput(
            f"there is no sample of application {application!r}; read some with: tuner ingest PATH --app {application}"
        )
    operators, checks = [], []
    for windows in build_windows(own).values():
        operator, found = fit_operator(windows, holdout, seed, node_types, quantile)
        operators.append(operator)
        checks += found
    span = min(s.start for s in own), max(s.end for s in own)
    return Surrogate(application, *span, own[0].end - own[0].start, holdout, seed, tuple(operators), tuple(checks))


def choose_length(samples: list[Sample]) -> list[Sample]:
    """Of windows of several lengths those of the length that covers most time."""
    lengths: dict[float, float] = {}
    for sample in samples:
        length = round(sample.end - sample.start, 6)
        lengths[length] = lengths.get(length, 0.0) + length
    most = max(lengths, key=lambda length: lengths[length], default=0.0)
    return [sample for sample in samples if round(sample.end - sample.start, 6) == most]


def fit_operator(
    windows: Windows, holdout: float, seed: int, node_types: Sequence[NodeType], quantile: float | None
) -> tuple[OperatorSurrogate, list[Check]]:
    services, reference = list_services(windows)
    if not services:
        raise BadInput(
            f"operator {windows.operator!r}: no sample tells a service time; ingest timed records, an event log with "
            "its tasks, or a table with busy time and tuples"
        )
    reference = anchor(services, reference, node_types)
    named = [name for name in windows.node_types if name != UNNAMED]
    used = named if reference in named else [reference, *named]
    speedups = find_speedups(services, used, node_types, reference)
    base = next(s.speed.value for s in speedups if s.node_type == reference)
    service = services[reference]
    after = make_load(windows, service, speedups, base)
    backlog = find_backlog(windows)
    calm = find_known(windows) & ~backlog & ~find_changes(windows)
    sound = calm & (windows.response > 0.0) & (after.utilisation < NEAR_ONE)
    held = np.zeros(sound.size, dtype=np.bool_)
    held[np.flatnonzero(sound)] = hold_out(int(sound.sum()), holdout)
    fewer = filter_windows(windows, ~held)
    before = make_load(windows, list_services(fewer)[0].get(reference, service), speedups, base)
    loads = select_windows(before, sound), select_windows(after, sound)
    asked = None if quantile is None else QuantileSeen(quantile, windows.response_at(quantile)[sound])
    judged = calibrate(*loads, windows.response[sound], held[sound], seed, asked)
    points = list_points(windows, before, judged, sound, held)
    usable = after.utilisation[np.isfinite(after.utilisation) & find_known(windows)]
    operator = OperatorSurrogate(
        operator=windows.operator,
        evidence=service.evidence,
        reference=reference,
        reference_speed=base,
        windows=windows.start.size,
        tuples=service.tuples,
        mean=scale(service.mean, base),
        variance=None if service.variance is None else scale(service.variance, base**2),
        overhead=service.overhead,
        selectivity=find_selectivity(windows),
        speedups=speedups,
        rates=describe_rates(windows),
        utilisation=(float(np.quantile(usable, 0.05)), float(np.quantile(usable, 0.95))) if usable.size else (0.0, 0.0),
        response=judged.response if judged else None,
        replayed=judged.replayed if judged else None,
        points=thin(points),
        quantiles=judge_quantiles(windows, before, judged, sound & held, seed, quantile),
        state=measure_state(windows),
        reconfiguration=measure_reconfigurations(
            windows, after.batch_work, after.utilisation, ~find_changes(windows), ~windows.replicas_unknown
        ),
    )
    seen = CheckInput(operator, service, windows, sound, backlog, after.utilisation[calm], points, quantile)
    return operator, [Check(name, windows.operator, *check(seen)) for name, check in CHECKS.items()]


def find_known(windows: Windows) -> Flags:
    """Windows whose load is known."""
    return (windows.rate > 0.0) & (windows.completeness >= COVERED)


def make_load(windows: Windows, service: ServiceMoments, speedups: Sequence[Speedup], base: float) -> WindowLoad:
    """Replicas of nobody knows which type are as fast as the reference; unknown replicas count as one."""
    variance = service.mean.value**2 if service.variance is None else service.variance.value
    speeds = {s.node_type: s.speed.value for s in speedups}
    counts = np.nan_to_num(windows.replicas)
    counts = np.where(counts.sum(axis=1, keepdims=True) > 0.0, counts, np.eye(1, counts.shape[1]))
    sums = windows.batch_interval, windows.batch_time, windows.tuples_in
    interval, duration, taken = (divide(total, windows.batches) for total in sums)
    rate = windows.rate
    before = np.append(np.nan, rate[:-1])
    return WindowLoad(
        rate,
        np.where(follows(windows) & (before > 0.0), before, rate),
        counts,
        np.array([speeds.get(name, base) for name in windows.node_types]),
        service.mean.value * base,
        variance * base**2,
        np.where(interval > 0.0, interval, np.nan),
        np.where(duration > 0.0, duration, np.nan),
        np.where(taken > 0.0, taken, np.nan),
        windows.batches,
        number_places(windows),
    )


def number_places(windows: Windows) -> Floats:
    """Places in time [W]; a window that does not follow the one before it has one between."""
    return np.cumsum(np.where(follows(windows), 1.0, 2.0))


def judge_quantiles(
    windows: Windows,
    load: WindowLoad,
    judged: CalibrationResult | None,
    held: Flags,
    seed: int,
    asked: float | None,
) -> tuple[QuantileAccuracy, ...]:
    """Errors of the replayed model's quantiles, where enough held-out windows tell theirs."""
    found: list[QuantileAccuracy] = []
    if judged is None:
        return ()
    for quantile in sorted({*JUDGED, *([] if asked is None else [asked])}):
        observed = windows.response_at(quantile)
        known = held & (observed > 0.0)
        if np.count_nonzero(known) >= FEWEST_QUANTILES:
            part = select_windows(load, known)
            predicted = predict_quantile(judged.replayed.model, part, judged.replayed.parameters, quantile)
            accuracy = assess(predicted, observed[known], part.utilisation, seed)
            found += [] if accuracy is None else [QuantileAccuracy(quantile, accuracy)]
    return tuple(found)


def list_points(
    windows: Windows, load: WindowLoad, judged: CalibrationResult | None, sound: Flags, held: Flags
) -> tuple[PredictedWindow, ...]:
    if judged is None:
        return ()
    columns = windows.start[sound], load.utilisation[sound], windows.response[sound], judged.predicted
    return tuple(
        PredictedWindow(float(t), float(rho), float(seen), float(said), bool(out))
        for t, rho, seen, said, out in zip(*columns, held[sound], strict=True)
    )


def thin(points: tuple[PredictedWindow, ...]) -> tuple[PredictedWindow, ...]:
    """At most so many, evenly over time."""
    if len(points) <= MOST_POINTS:
        return points
    return tuple(points[i] for i in np.linspace(0, len(points) - 1, MOST_POINTS).astype(int))


def find_selectivity(windows: Windows) -> Estimate | None:
    """Tuples out per tuple in."""
    came, went = windows.tuples_in, windows.tuples_out
    known = (came > 0.0) & ~np.isnan(went)
    if not known.any():
        return None
    total: float = came[known].sum()
    ratio = float(went[known].sum() / total)
    slips: Floats = (went[known] - ratio * came[known]) / total
    return estimate_positive(ratio, slips)


def check_drift_since(surrogate: Surrogate, samples: Iterable[Sample]) -> Surrogate:
    """The same with what samples since the fit say of drift."""
    later = [s for s in samples if s.application == surrogate.application and s.start >= surrogate.end]
    since = build_windows(choose_length(later))
    known = {}
    for operator in (one for one in surrogate.operators if one.operator in since):
        windows = since[operator.operator]
        sides = profile_of_fit(operator), measure_profile(windows, operator.reference)
        found = judge_changes(*sides, f"in {windows.start.size} windows since the fit")
        known[operator.operator] = Check("drift", operator.operator, *found)
    checks = tuple(known.get(c.operator, c) if c.name == "drift" else c for c in surrogate.checks)
    return replace(surrogate, checks=checks)
