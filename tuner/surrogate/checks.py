"""Health checks of a fitted operator: a verdict and a sentence for each.

Every sentence says what was seen, what was wanted and, where it is not there, what to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.task import name_quantile
from scaler.model.units import format_milliseconds, format_share
from tuner.surrogate.drift import correlate, judge_changes, split_profiles
from tuner.surrogate.observed_windows import Flags, Windows
from tuner.surrogate.response_models import MODELS
from tuner.surrogate.service_moments import ServiceMoments
from tuner.surrogate.surrogate import Calibration, CheckResult, OperatorSurrogate, PredictedWindow

ENOUGH, FEWEST = 60, 20  # windows
RESPONSES = 10.0  # that a window should be as long as
FAR_ENOUGH, TOO_NEAR = 0.6, 0.3  # highest utilisation seen
WIDE_ENOUGH = 0.2  # from the lowest to the highest
GOOD_ERROR, BAD_ERROR = 0.15, 0.25
NEAR_ONE, OFTEN_NEAR, OFTEN_BEYOND = 0.9, 0.05, 0.01
BEHIND, OFTEN_BEHIND = 0.05, 0.2
COVERED, HARDLY_COVERED = 0.95, 0.8
BENT, VERY_BENT = 0.1, 0.3  # of the prediction, from low load to high
OFTEN_UNKNOWN = 0.1
CERTAIN = 3.0  # standard errors
CARRIED_OVER = 0.5  # of a window's residual, into the next
LATER = 0.3  # of the windows, that are compared with those before them


@dataclass(frozen=True, slots=True, eq=False)
class CheckInput:
    """What checks look at."""

    operator: OperatorSurrogate
    service: ServiceMoments
    windows: Windows
    sound: Flags  # windows that were used to calibrate
    backlog: Flags
    loads: Floats  # utilisation of every window without a backlog or a change
    points: tuple[PredictedWindow, ...]  # of the sound windows, in order of time
    asked: float | None = None  # quantile of response times that bounds are about; None: their mean


def check_windows(seen: CheckInput) -> CheckResult:
    count, all_of_them = int(seen.sound.sum()), seen.sound.size
    said = f"{count} of {all_of_them} windows have a load below {NEAR_ONE}, a response time, no backlog and no change"
    usual = float(np.median([point.observed for point in seen.points])) if seen.points else 0.0
    length = float(np.median(seen.windows.length))
    if length < RESPONSES * usual:
        long = math.ceil(RESPONSES * usual)
        said += f", each of {length:g} s, beside responses of {usual:.2g} s, whose load is partly that of other windows"
        longer = "" if count * length / long >= ENOUGH else f" a longer time, for {ENOUGH} are wanted,"
        do = f"ingest{longer} with windows of {long} s or more"
        return CheckResult("warn" if count >= FEWEST else "fail", f"{said}: {do}.")
    if count >= ENOUGH:
        return CheckResult("pass", f"{said}; {ENOUGH} are enough.")
    short = max(1, math.ceil(RESPONSES * usual))  # any shorter ones would be too short
    is_enough = usual > 0.0 and short < length and count * length / short >= ENOUGH
    do = f"ingest a longer time, or windows of {short} s" if is_enough else "ingest a longer time with windows as these"
    wanted = f"{said}, and {ENOUGH} are wanted ({FEWEST} at the least): {do}."
    return CheckResult("warn" if count >= FEWEST else "fail", wanted)


def check_load(seen: CheckInput) -> CheckResult:
    low, high = seen.operator.utilisation
    said = f"utilisation was seen from {low:.2f} to {high:.2f} (5 to 95 % of the windows)"
    if high >= FAR_ENOUGH and high - low >= WIDE_ENOUGH:
        return CheckResult("pass", f"{said}, and a range of {WIDE_ENOUGH} that reaches {FAR_ENOUGH} is enough.")
    do = f"wanted is a range of {WIDE_ENOUGH} that reaches {FAR_ENOUGH}: ingest a busier time, or run "
    do += "with fewer replicas for a while."
    return CheckResult("fail" if high < TOO_NEAR else "warn", f"{said}; {do}")


def check_prediction(seen: CheckInput) -> CheckResult:
    return judge_error(seen.operator.response, "what was predicted", "look at the residual pattern and the backlog")


def check_replay(seen: CheckInput) -> CheckResult:
    if seen.operator.replayed is None:
        return CheckResult("fail", "there is nothing to replay, for no model was calibrated; see prediction.")
    return judge_error(
        seen.operator.replayed,
        f"what the simulator replays ({MODELS[seen.operator.replayed.model].says})",
        "scale only within the load that was seen",
    )


def check_quantiles(seen: CheckInput) -> CheckResult:
    """Of what is replayed: a model may be right about means and wrong about how response times are spread."""
    judged = [one for one in seen.operator.quantiles if seen.asked in (None, one.quantile)]
    if not judged and seen.asked is None:
        return CheckResult("pass", "no held-out window tells quantiles of response times; rely on means alone.")
    if not judged:
        return CheckResult(
            "warn",
            f"bounds are about {name_quantile(seen.asked)} of response times, and too few windows tell it for a model "
            "to be chosen or judged by: state bounds on the mean, or ingest batches.",
        )
    off = max(judged, key=lambda one: one.accuracy.error.value)
    error = off.accuracy.error.value
    which = "the worst of them" if seen.asked is None else "which bounds are about"
    said = f"on held-out windows the replayed {name_quantile(off.quantile)}, {which}, was off by {format_share(error)}"
    if error <= GOOD_ERROR:
        return CheckResult("pass", f"{said}; {format_share(GOOD_ERROR)} is allowed.")
    return CheckResult(
        "fail" if seen.asked is not None and error > BAD_ERROR else "warn",
        f"{said}, and {format_share(GOOD_ERROR)} is allowed: state bounds on the mean, or ingest batches.",
    )


def judge_error(calibration: Calibration | None, what: str, do: str) -> CheckResult:
    if calibration is None or calibration.accuracy is None:
        return CheckResult(
            "fail",
            "no response time was predicted, for too few windows tell one: ingest what tells response times "
            "(progress of the query, or a table with response_n and response_sum).",
        )
    accuracy = calibration.accuracy
    off = max(accuracy.groups, key=lambda group: abs(group.predicted / group.observed - 1.0))
    e = accuracy.error
    said = (
        f"on held-out windows {what} was off by {format_share(e.value)} [{format_share(e.low)}, "
        f"{format_share(e.high)}], most at utilisation {off.utilisation:.2f} ({format_milliseconds(off.predicted)} ms "
        f"for {format_milliseconds(off.observed)} ms)"
    )
    if e.value <= GOOD_ERROR:
        return CheckResult("pass", f"{said}; {format_share(GOOD_ERROR)} is allowed.")
    return CheckResult(
        "warn" if e.value <= BAD_ERROR else "fail", f"{said}, and {format_share(GOOD_ERROR)} is allowed: {do}."
    )


def check_saturation(seen: CheckInput) -> CheckResult:
    load = seen.loads
    if load.size == 0:
        return CheckResult("warn", "no window tells how near to saturation the operator ran; see windows.")
    beyond, near = float(np.mean(load >= 1.0)), float(np.mean(load >= NEAR_ONE))
    if beyond > OFTEN_BEYOND:
        return CheckResult(
            "fail",
            f"{format_share(beyond)} of the windows without a backlog have a utilisation of 1 or more, which cannot "
            "be: the mean service time is too high or replicas are missing; check both at their source.",
        )
    said = f"{format_share(near)} of the windows have a utilisation of {NEAR_ONE} or more"
    if near > OFTEN_NEAR:
        return CheckResult(
            "warn",
            f"{said}, where response times are luck and are left out, and {format_share(OFTEN_NEAR)} is allowed: add "
            "replicas.",
        )
    return CheckResult("pass", f"{said}; {format_share(OFTEN_NEAR)} is allowed.")


def check_drift(seen: CheckInput) -> CheckResult:
    """At the fit: the last windows against those before them."""
    sides = split_profiles(seen.windows, LATER, seen.operator.reference)
    return judge_changes(*sides, f"in the last {format_share(LATER)} of the windows")


def check_backlog(seen: CheckInput) -> CheckResult:
    share = float(np.mean(seen.backlog)) if seen.backlog.size else 0.0
    said = f"{format_share(share)} of the windows had a backlog and were left out"
    if share <= BEHIND:
        return CheckResult("pass", f"{said}; {format_share(BEHIND)} is allowed.")
    do = "fit on a time without an outage, or on more replicas"
    return CheckResult(
        "warn" if share <= OFTEN_BEHIND else "fail", f"{said}, and {format_share(BEHIND)} is allowed: {do}."
    )


def check_residuals(seen: CheckInput) -> CheckResult:
    held = [point for point in seen.points if point.held_out and math.isfinite(point.predicted)]
    if len(held) < FEWEST // 2:
        return CheckResult(
            "warn", f"{len(held)} held-out windows show no pattern, and {FEWEST // 2} would: ingest a longer time."
        )
    errors = np.log([point.observed / point.predicted for point in held])
    bend, certain = find_bend(np.array([point.utilisation for point in held]), errors)
    stays = correlate(errors)
    said = f"from low load to high the observed changes by {100.0 * bend:+.0f} % against the predicted, and "
    said += f"{format_share(stays)} of a residual is carried on to the next window"
    if certain and abs(bend) > BENT:
        do = f"{format_share(BENT)} is allowed: this model has another shape than reality; "
        do += "do not rely on it beyond the load seen"
        return CheckResult("fail" if abs(bend) > VERY_BENT else "warn", f"{said}; {do}.")
    if stays > CARRIED_OVER and stays > CERTAIN / math.sqrt(len(held)):
        return CheckResult(
            "warn",
            f"{said}; {format_share(CARRIED_OVER)} is allowed: something slow is at work that the model does not know, "
            "such as warm-up, a neighbour or state that grows; look for it.",
        )
    allowed = f"{format_share(BENT)}, {format_share(CARRIED_OVER)}"
    return CheckResult("pass", f"{said}; neither is beyond what is allowed ({allowed}) by more than chance.")


def find_bend(load: Floats, errors: Floats) -> tuple[float, bool]:
    """The trend of residuals over the load seen, and whether it is beyond chance (neighbours being alike)."""
    low, high = np.quantile(load, [0.05, 0.95])
    around = load - load.mean()
    total = float(around @ around)
    if total <= 0.0 or high - low < 1e-6:
        return 0.0, False
    slope = float(around @ errors) / total
    rest = errors - errors.mean() - slope * around
    near = min(0.9, max(0.0, correlate(rest)))
    error = math.sqrt(float(np.sum((around * rest) ** 2)) * (1.0 + near) / (1.0 - near)) / total
    return math.expm1(slope * float(high - low)), abs(slope) > CERTAIN * error


def check_variance(seen: CheckInput) -> CheckResult:
    if seen.service.variance is not None and seen.service.variance_trusted:
        return CheckResult("pass", f"the variance of the service time comes from single records: {seen.service.says}")
    rests = seen.operator.response is not None and seen.operator.response.model == "queue"
    if seen.service.variance is None:
        said = "no evidence tells the variance of the service time, which was taken as that of exponential times"
    else:
        said = f"the variance of the service time is not to be trusted: {seen.service.says[:-1]}"
    told = "and predictions rest on it" if rests else "but predictions do not rest on it"
    return CheckResult(
        "fail" if rests and seen.service.variance is None else "warn", f"{said}, {told}: time records in the operator."
    )


def check_mean(seen: CheckInput) -> CheckResult:
    mean = seen.operator.mean
    said = f"the mean service time is {1000 * mean.value:.4g} ms [{1000 * mean.low:.4g}, {1000 * mean.high:.4g}]"
    if seen.service.mean_trusted:
        return CheckResult("pass", f"{said}.")
    return CheckResult("warn", f"{said}, and not to be trusted: {seen.service.says}")


def check_gaps(seen: CheckInput) -> CheckResult:
    w = seen.windows
    share = min(1.0, float(np.sum(w.length * w.completeness) / (w.end.max() - w.start.min())))
    said = f"{format_share(share)} of the time from the first window to the last is covered"
    if share >= COVERED:
        return CheckResult("pass", f"{said}; {format_share(COVERED)} is wanted.")
    return CheckResult(
        "warn" if share >= HARDLY_COVERED else "fail",
        f"{said}, and {format_share(COVERED)} is wanted: find what is missing and ingest it.",
    )


def check_replicas(seen: CheckInput) -> CheckResult:
    assumed = [s.node_type for s in seen.operator.speedups if s.assumed]
    unknown = float(np.mean(seen.windows.replicas_unknown))
    if unknown > OFTEN_UNKNOWN:
        return CheckResult(
            "warn",
            f"replicas are unknown in {format_share(unknown)} of the windows, and taken as before or as one: ingest an "
            "event log, or a table with replicas.",
        )
    if assumed:
        return CheckResult(
            "warn",
            f"the speed of {', '.join(assumed)} is as declared, and was not seen: run a replica on each for a while.",
        )
    return CheckResult(
        "pass",
        f"replicas are known in {format_share(1.0 - unknown)} of the windows, and every node type was seen at work.",
    )


CHECKS: dict[str, Callable[[CheckInput], CheckResult]] = {
    "windows": check_windows,
    "gaps": check_gaps,
    "backlog": check_backlog,
    "load": check_load,
    "saturation": check_saturation,
    "mean": check_mean,
    "variance": check_variance,
    "replicas": check_replicas,
    "prediction": check_prediction,
    "replay": check_replay,
    "quantiles": check_quantiles,
    "residuals": check_residuals,
    "drift": check_drift,
}
