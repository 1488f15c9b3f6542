"""Find the cause for which an application is due for a tuning.

Its period; drift of service times or arrival rates since the surrogate was fitted; response times other than the
surrogate predicts; a missed QoS. Each only where it is beyond chance and large enough to matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from scaler.model.batch_quantiles import batch_response
from scaler.model.micro_batches import tuple_seconds
from scaler.model.queue_quantiles import replica_response_time
from scaler.model.queueing import mg1_response
from scaler.model.units import format_share
from tuner.history.qos_history import UNKNOWN, VIOLATED, find_changes, find_violations, load_slots
from tuner.retuning.state import Cause, RetuningState
from tuner.rollout.betting import exceeds, share_of
from tuner.rollout.issued_orders import find_slot
from tuner.rollout.retuning_settings import RetuningSettings
from tuner.scenario.description import tables_of
from tuner.scenario.document import shape_of
from tuner.scenario.scenario import make_infrastructure, make_qos
from tuner.store.applications import list_surrogates, load_application
from tuner.store.connection import Session
from tuner.store.decisions import list_decisions
from tuner.store.records import SurrogateRecord
from tuner.store.samples import load_samples
from tuner.surrogate.drift import (
    WindowProfile,
    compare_figures,
    compare_rates,
    list_changes,
    measure_profile,
    profile_of_fit,
)
from tuner.surrogate.fit import choose_length
from tuner.surrogate.fitted_application import apply_speeds, choose_moments, find_batches
from tuner.surrogate.observed_windows import build_windows
from tuner.surrogate.surrogate import OperatorSurrogate, from_record

MEAN_CHANGE, VARIANCE_CHANGE, RATE_CHANGE = 0.05, 0.5, 0.1  # worth a tuning: relative, relative, KS distance
MAX_ERROR = 0.25  # of a predicted response time, relative
BLOCK_SLOTS, MIN_BLOCKS = 20, 3
MIN_AGREEMENT = 0.8  # of the blocks
MAX_UTILISATION = 0.9  # beyond, response times are chance
MAX_RATIO = 10.0  # of an observed to a predicted response time; longer ones count as this
MIN_COMPLETENESS = 0.8  # of a slot's metrics, for its response time to count
WEEK_S = 7 * 86_400.0
MAX_DECISIONS = 2_000


def find_cause(
    session: Session, app: str, settings: RetuningSettings, state: RetuningState, now: float
) -> Cause | None:
    """The first cause of the daemon's own; people's requests are not among them."""
    if not settings.enabled or state.paused_by is not None:
        return None
    if state.not_before is not None and now < state.not_before:
        return None
    if state.tuned is None:
        return Cause("period", "it was never tuned")
    if now - state.tuned >= settings.period_s:
        hours, period = (now - state.tuned) / 3600.0, settings.period_s / 3600.0
        return Cause("period", f"it was tuned {hours:.1f} h ago, and is to be every {period:g} h")
    confirmed = state.tuned if state.since is None else state.since
    since = max(state.tuned, confirmed, now - WEEK_S)  # under the present objective and surrogate
    return find_drift(session, app) or find_missed_qos(session, app, since, settings.alpha) or find_error(
        session, app, since
    )  # fmt: skip


def find_drift(session: Session, app: str) -> Cause | None:
    """Compare the samples since the newest fit with those behind it."""
    record = next(iter(list_surrogates(session, app, limit=1)), None)
    if record is None:
        return None
    later = load_samples(session, app, since=record.end)
    if not later:
        return None
    since, fitted = build_windows(choose_length(later)), from_record(record)
    for operator in fitted.operators:
        windows = since.get(operator.operator)
        after = None if windows is None else measure_profile(windows, operator.reference)
        if windows is not None and after is not None and has_changed(profile_of_fit(operator), after):
            changes = " and ".join(list_changes(profile_of_fit(operator), after)[0])
            when = f"in {windows.start.size} windows since the fit"
            return Cause("drift", f"operator {operator.operator!r}: {when} {changes}")
    return None


def has_changed(before: WindowProfile, after: WindowProfile) -> bool:
    """Whether moments or rates changed beyond chance, and enough for an objective not to fit any more."""
    if after.evidence != before.evidence:
        return False
    distance, certain = compare_rates(before.rates, after.rates)
    return have_moments_changed(before, after) or (certain and distance >= RATE_CHANGE)


def have_moments_changed(before: WindowProfile, after: WindowProfile) -> bool:
    fewest = min(before.windows, after.windows)
    mean = compare_figures(before.mean, after.mean, fewest)
    if mean.certain and abs(mean.factor - 1.0) >= MEAN_CHANGE:
        return True
    if before.variance is None or after.variance is None:
        return False
    variance = compare_figures(before.variance, after.variance, fewest)
    return variance.certain and abs(math.log(variance.factor)) >= math.log1p(VARIANCE_CHANGE)


def find_missed_qos(session: Session, app: str, since: float, alpha: float) -> Cause | None:
    """Test the slots since the last tuning against the QoS; valid however often it runs."""
    document = load_application(session, app).document
    shape, qos = shape_of(document), make_qos(tables_of(document)["qos"])
    names = tuple(o.name for o in shape.operators)
    slots = load_slots(session, app, names, since, math.inf, find_slot(document), registered=True)
    verdict = find_violations(slots, shape, qos)
    broken, moved = verdict[verdict != UNKNOWN] == VIOLATED, find_changes(slots)
    if exceeds(broken, qos.eta_v, alpha / 2.0):
        late = f"R_max was broken in {format_share(share_of(broken))} of {broken.size} slots since it was tuned"
        return Cause("qos", f"{late}, where {format_share(qos.eta_v)} is allowed")
    if exceeds(moved, qos.eta_r, alpha / 2.0):
        moves = f"replicas came or went in {format_share(share_of(moved))} of {moved.size} slots since it was tuned"
        return Cause("qos", f"{moves}, where {format_share(qos.eta_r)} is allowed")
    return None


def find_error(session: Session, app: str, since: float) -> Cause | None:
    record = next(iter(list_surrogates(session, app, limit=1)), None)
    why = None if record is None else explain_error(session, app, record, since)
    return None if why is None else Cause("error", why)


def explain_error(
    session: Session, app: str, record: SurrogateRecord, since: float, until: float = math.inf
) -> str | None:
    """Describe the error of the surrogate's predicted response times against the reported ones; None: small."""
    fitted = from_record(record)
    described = make_infrastructure(tables_of(load_application(session, app).document)["infrastructure"])
    speeds = {node.name: node.speedup for node in apply_speeds(described, fitted).types}  # measured, else described
    quantile = make_qos(tables_of(load_application(session, app).document)["qos"]).quantile
    for operator in fitted.operators:
        pairs = []
        for row in list_decisions(session, app, [operator.operator], None, since, until, MAX_DECISIONS):
            predicted = predict(operator, speeds, row.rate, row.seen.get("deployment"), quantile)
            observed = row.response
            complete = float(row.seen.get("completeness") or 0.0) >= MIN_COMPLETENESS
            if complete and predicted is not None and observed is not None and observed > 0.0:
                pairs.append((predicted, min(observed, MAX_RATIO * predicted)))  # infinite where overloaded
        ratio = compare_blocks(pairs)
        if ratio is not None:
            return (
                f"operator {operator.operator!r}: response times were predicted to be {ratio:.2f} times as long as "
                f"they were in {len(pairs)} slots, and {format_share(MAX_ERROR)} is the most that they may be off"
            )
    return None


def predict(
    operator: OperatorSurrogate,
    speeds: Mapping[str, float],
    rate: float | None,
    deployment: Any,
    quantile: float | None = None,
) -> float | None:
    """Predict the mean response time over the replicas, or the quantile; None where not known or chance.

    A quantile is the slowest replica's, as in the simulator; a mean is without noise of batches.
    """
    if rate is None or not rate > 0.0 or not isinstance(deployment, Mapping) or operator.replayed is None:
        return None
    counts = {name: count for name, count in deployment.items() if name in speeds and count > 0}
    total = sum(counts.values())
    if not total or len(counts) < sum(1 for count in deployment.values() if count > 0):
        return None
    m = choose_moments(operator)
    each = rate / total
    if any(each * m.mean / speeds[name] >= MAX_UTILISATION for name in counts):
        return None
    batches = find_batches(operator)
    if batches is not None:
        b, slowest = batches, min(speeds[name] for name in counts)
        load = rate * tuple_seconds(m.mean, b.work, b.partitions, slowest, total)
        response = batch_response(b, load, quantile)
        return response if math.isfinite(response) else None
    constant = operator.replayed.parameters["constant"]
    if quantile is not None:
        slowest = min(speeds[name] for name in counts)
        return constant + replica_response_time(each, m.mean, m.variance, slowest, quantile)
    times = [n * mg1_response(each, m.mean, m.variance, speeds[name]) for name, n in counts.items()]
    return constant + sum(times) / total


def compare_blocks(pairs: list[tuple[float, float]]) -> float | None:
    """Ratio of predicted to observed where blocks of slots agree on a large error; else None."""
    whole = len(pairs) // BLOCK_SLOTS
    if whole < MIN_BLOCKS:
        return None
    table = np.array(pairs[: whole * BLOCK_SLOTS]).reshape(whole, BLOCK_SLOTS, 2).sum(axis=1)
    ratios = table[:, 0] / table[:, 1]
    middle = float(np.median(ratios))
    high, low = (ratios > 1.0 + MAX_ERROR).mean(), (ratios < 1.0 - MAX_ERROR).mean()
    return middle if max(high, low) >= MIN_AGREEMENT else None
