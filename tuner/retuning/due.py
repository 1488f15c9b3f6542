"""What is known of an application by now in; why it is to be tuned again, or nothing, out.

By period; by drift of service times or rates since the surrogate was fitted; by response times other than the surrogate
predicts; by QoS that is missed. Each with a sentence, and only where it is beyond chance and large enough to matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from scaler.model.queueing import mg1_response
from tuner.history.qos_history import BROKEN, UNKNOWN, find_changes, judge_slots, load_slots
from tuner.rollout.betting import exceeds, share_of
from tuner.rollout.issue_orders import find_slot
from tuner.rollout.retuning_settings import RetuningSettings
from tuner.scenario.description import shape_of, tables_of
from tuner.scenario.scenario import make_infrastructure
from tuner.search.search_plan import read_qos
from tuner.store.applications import load_application
from tuner.store.connection import Session
from tuner.store.decisions import list_decisions
from tuner.store.records import RetuningRecord
from tuner.store.records import SurrogateRecord as Record
from tuner.store.samples import load_samples
from tuner.store.surrogates import list_surrogates
from tuner.surrogate.drift import WindowProfile, compare_figures, compare_rates, profile, recall
from tuner.surrogate.drift_answer import check_since
from tuner.surrogate.fit import choose_length
from tuner.surrogate.fitted_application import apply_speeds, choose_moments
from tuner.surrogate.observed_windows import Windows, build_windows
from tuner.surrogate.surrogate import OperatorSurrogate, Surrogate
from tuner.surrogate.surrogate_records import from_record

MEAN, VARIANCE, RATES = 0.05, 0.5, 0.1  # changes worth a tuning: of the mean, of the variance, of the distribution
OFF = 0.25  # of a predicted response time, from which on a surrogate is not relied on
BLOCK, FEWEST_BLOCKS = 20, 3  # slots, and blocks of so many of them
AGREE = 0.8  # of the blocks
NEAR_ONE = 0.9  # utilisation beyond which response times are luck
MOST_OFF = 10.0  # times the predicted response time, as which a longer one counts
COMPLETE = 0.8  # share of a slot's metrics, below which its response time is not relied on
WEEK_S = 7 * 86_400.0
ROWS = 2_000  # decisions looked at


class Reason(NamedTuple):
    kind: str  # period, drift, error, qos, asked
    why: str


def find_reason(session: Session, settings: RetuningSettings, watch: RetuningRecord, now: float) -> Reason | None:
    """The first that there is; what a person asks for is not looked for here."""
    detail = watch.detail
    if not settings.enabled or detail.get("paused") or now < detail.get("not_before", -math.inf):
        return None
    tuned = detail.get("tuned")
    if tuned is None:
        return Reason("period", "it was never tuned")
    if now - tuned >= settings.period_s:
        return Reason("period", f"it was tuned {(now - tuned) / 3600.0:.1f} h ago, and is to be every "
                      f"{settings.period_s / 3600.0:g} h")  # fmt: skip
    since = max(tuned, detail.get("since", tuned), now - WEEK_S)  # under what stands now, on the surrogate of now
    return (
        find_drift(session, watch.application)
        or find_missed(session, watch.application, since, settings.alpha)
        or find_wrong(session, watch.application, since)
    )


def find_drift(session: Session, app: str) -> Reason | None:
    """Of samples since the newest fit against those behind it."""
    record = next(iter(list_surrogates(session, app, limit=1)), None)
    if record is None:
        return None
    later = load_samples(session, app, since=record.end)
    if not later:
        return None
    since, fitted = build_windows(choose_length(later)), from_record(record)
    for operator in fitted.operators:
        if operator.operator in since and has_changed(operator, since[operator.operator]):
            says = check_since(operator, since[operator.operator]).says
            return Reason("drift", f"operator {operator.operator!r}: {says.partition(', beyond chance')[0]}")
    return None


def has_changed(operator: OperatorSurrogate, since: Windows) -> bool:
    """Beyond chance, and by so much that an objective may not fit any more."""
    before, after = recall(operator), profile(since, operator.reference)
    if after is None or after.evidence != before.evidence:
        return False
    distance, certain = compare_rates(before.rates, after.rates)
    return have_moments_changed(before, after) or (certain and distance >= RATES)


def have_moments_changed(before: WindowProfile, after: WindowProfile) -> bool:
    fewest = min(before.windows, after.windows)
    mean = compare_figures(before.mean, after.mean, fewest)
    if mean.certain and abs(mean.factor - 1.0) >= MEAN:
        return True
    if before.variance is None or after.variance is None:
        return False
    variance = compare_figures(before.variance, after.variance, fewest)
    return variance.certain and abs(math.log(variance.factor)) >= math.log1p(VARIANCE)


def find_missed(session: Session, app: str, since: float, alpha: float) -> Reason | None:
    """Of the slots since it was tuned last, however often one looks."""
    document = load_application(session, app).document
    shape, qos = shape_of(document), read_qos(tables_of(document))
    slots = load_slots(session, app, tuple(o.name for o in shape.operators), since, math.inf, find_slot(document))
    verdict = judge_slots(slots, shape, qos)
    broken, moved = verdict[verdict != UNKNOWN] == BROKEN, find_changes(slots)
    if exceeds(broken, qos.eta_v, alpha / 2.0):
        return Reason("qos", f"R_max was broken in {share_of(broken):.1%} of {broken.size} slots since it was tuned, "
                      f"where {qos.eta_v:.1%} is allowed")  # fmt: skip
    if exceeds(moved, qos.eta_r, alpha / 2.0):
        return Reason("qos", f"replicas came or went in {share_of(moved):.1%} of {moved.size} slots since it was "
                      f"tuned, where {qos.eta_r:.1%} is allowed")  # fmt: skip
    return None


def find_wrong(session: Session, app: str, since: float) -> Reason | None:
    record = next(iter(list_surrogates(session, app, limit=1)), None)
    says = None if record is None else say_error(session, app, record, since)
    return None if says is None else Reason("error", says)


def say_error(session: Session, app: str, record: Record, since: float, until: float = math.inf) -> str | None:
    """What is wrong with the surrogate's predictions of the response times that scalers reported; None: nothing."""
    fitted = from_record(record)
    speeds = find_speeds(session, app, fitted)
    for operator in fitted.operators:
        pairs = []
        for row in list_decisions(session, app, [operator.operator], None, since, until, ROWS):
            said = predict(operator, speeds, row.rate, row.seen.get("deployment"))
            seen = row.response
            whole = float(row.seen.get("completeness") or 0.0) >= COMPLETE
            if whole and said is not None and seen is not None and seen > 0.0:
                pairs.append((said, min(seen, MOST_OFF * said)))  # more came than could be served: off by a lot
        ratio = compare_blocks(pairs)
        if ratio is not None:
            return (
                f"operator {operator.operator!r}: response times were predicted to be {ratio:.2f} times as long as "
                f"they were in {len(pairs)} slots, and {OFF:.0%} is the most that they may be off"
            )
    return None


def find_speeds(session: Session, app: str, fitted: Surrogate) -> dict[str, float]:
    """Every node type's, as seen, else as described."""
    described = make_infrastructure(tables_of(load_application(session, app).document)["infrastructure"])
    return {node.name: node.speedup for node in apply_speeds(described, fitted).types}


def predict(
    operator: OperatorSurrogate, speeds: Mapping[str, float], rate: float | None, deployment: Any
) -> float | None:
    """The mean response time over the replicas; None where nobody can tell or where it would be luck."""
    if rate is None or not rate > 0.0 or not isinstance(deployment, Mapping) or operator.replayed is None:
        return None
    counts = {name: count for name, count in deployment.items() if name in speeds and count > 0}
    total = sum(counts.values())
    if not total or len(counts) < sum(1 for count in deployment.values() if count > 0):
        return None
    m = choose_moments(operator)
    each = rate / total
    if any(each * m.mean / speeds[name] >= NEAR_ONE for name in counts):
        return None
    times = [n * mg1_response(each, m.mean, m.variance, speeds[name]) for name, n in counts.items()]
    return operator.replayed.parameters["constant"] + sum(times) / total


def compare_blocks(pairs: list[tuple[float, float]]) -> float | None:
    """Predicted over observed, where blocks of slots agree that it is off; None where it is not."""
    whole = len(pairs) // BLOCK
    if whole < FEWEST_BLOCKS:
        return None
    table = np.array(pairs[: whole * BLOCK]).reshape(whole, BLOCK, 2).sum(axis=1)
    ratios = table[:, 0] / table[:, 1]
    middle = float(np.median(ratios))
    high, low = (ratios > 1.0 + OFF).mean(), (ratios < 1.0 - OFF).mean()
    return middle if max(high, low) >= AGREE else None
