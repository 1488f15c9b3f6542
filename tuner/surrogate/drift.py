"""The drift check: compare the windows since a fit with those it was fitted on, by mean, variance and arrival rates.

One check asks three questions of every operator (mean and variance of the service time, distribution of rates), each on
all windows since the fit together and never window by window, and raises a false alarm on any of them with probability
ALARM at most (Bonferroni). Checks that overlap share their windows, so a daily one errs less often than once in 100.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.units import format_share
from tuner.surrogate.estimate import Estimate, scale, student
from tuner.surrogate.observed_windows import Windows, filter_windows
from tuner.surrogate.service_moments import list_services
from tuner.surrogate.surrogate import CheckResult, OperatorSurrogate, RateDistribution

ALARM = 0.01
QUESTIONS = 3
FEWEST = 8  # windows on either side
STEPS = 100
CHANGED = 0.1  # of the mean service time, from which on a surrogate must not be used


class RatioChange(NamedTuple):
    """How many times as large something has become, and whether that is beyond chance."""

    factor: float
    certain: bool


class WindowProfile(NamedTuple):
    """What is compared; moments on the node type's own speed."""

    evidence: str
    windows: int
    mean: Estimate
    variance: Estimate | None
    rates: RateDistribution


def measure_profile(windows: Windows, node_type: str) -> WindowProfile | None:
    """Profile of a node type in these windows; None where they do not show it."""
    services, _ = list_services(windows) if windows.start.size else ({}, "")
    service = services.get(node_type)
    if service is None:
        return None
    return WindowProfile(service.evidence, service.windows, service.mean, service.variance, describe_rates(windows))


def split_profiles(windows: Windows, share: float, node_type: str) -> tuple[WindowProfile | None, WindowProfile | None]:
    """Profiles of the windows before the last share, and of the last share."""
    index = np.arange(windows.start.size)
    late = index >= math.ceil(index.size * (1.0 - share))
    before, after = (filter_windows(windows, side) for side in (~late, late))
    return measure_profile(before, node_type), measure_profile(after, node_type)


def profile_of_fit(fitted: OperatorSurrogate) -> WindowProfile:
    """What was seen at the fit."""
    mean = scale(fitted.mean, 1.0 / fitted.reference_speed)
    variance = None if fitted.variance is None else scale(fitted.variance, fitted.reference_speed**-2)
    return WindowProfile(fitted.evidence, fitted.windows, mean, variance, fitted.rates)


def compare_figures(before: Estimate, after: Estimate, fewest: int) -> RatioChange:
    """Of two positive figures seen in at least `fewest` windows each; by the difference of their logarithms."""
    if not (before.value > 0.0 and after.value > 0.0):
        return RatioChange(1.0 if before.value == after.value else math.inf, False)
    error = math.hypot(before.error / before.value, after.error / after.value)
    far = abs(math.log(after.value / before.value))
    certain = fewest >= FEWEST and far > student(1.0 - ALARM / QUESTIONS / 2.0, fewest - 1) * error
    return RatioChange(after.value / before.value, certain)


def compare_rates(before: RateDistribution, after: RateDistribution) -> tuple[float, bool]:
    """The greatest distance between the two distributions (Kolmogorov and Smirnov), and whether it is beyond chance.

    Neighbouring windows resemble each other, so each side counts as the fewer independent windows that tell as much.
    """
    from scipy.special import kolmogorov  # late, for it takes a quarter of a second to load

    if not before.quantiles or not after.quantiles:
        return 0.0, False
    sides = np.array(before.quantiles), np.array(after.quantiles)
    places = np.concatenate(sides)
    low, high = (np.searchsorted(side, places, side="right") / side.size for side in sides)
    distance = float(np.max(np.abs(low - high)))
    root = math.sqrt(before.effective * after.effective / (before.effective + after.effective))
    chance = kolmogorov((root + 0.12 + 0.11 / root) * max(0.0, distance - 1.0 / STEPS))
    return distance, bool(chance < ALARM / QUESTIONS)


def describe_rates(windows: Windows) -> RateDistribution:
    rates = windows.rate[windows.rate >= 0.0]
    if rates.size == 0:
        return RateDistribution((), 0.0)
    near = min(0.99, max(0.0, correlate(rates)))
    effective = max(1.0, rates.size * (1.0 - near) / (1.0 + near))
    return RateDistribution(tuple(map(float, np.quantile(rates, np.linspace(0.0, 1.0, STEPS + 1)))), effective)


def correlate(values: Floats) -> float:
    """With the value before, from -1 to 1."""
    around = values - values.mean()
    total = float(around @ around)
    return float(around[1:] @ around[:-1]) / total if total > 1e-12 * float(values @ values) else 0.0


def judge_changes(before: WindowProfile | None, after: WindowProfile | None, when: str) -> CheckResult:
    if before is None or after is None or after.evidence != before.evidence:
        return CheckResult(
            "warn", f"{when} nothing tells the service time as before: ingest the same kind of source again."
        )
    parts, grave = list_changes(before, after)
    if not parts:
        return CheckResult("pass", f"{when} neither service times nor rates changed beyond chance.")
    do = "fit again on what was seen since" if grave else "watch it, or fit again"
    return CheckResult("fail" if grave else "warn", f"{when} {' and '.join(parts)}, beyond chance: {do}.")


def list_changes(before: WindowProfile, after: WindowProfile) -> tuple[list[str], bool]:
    """The changes beyond chance in words, and whether the mean service time changed too much for the surrogate."""
    fewest = min(before.windows, after.windows)
    mean = compare_figures(before.mean, after.mean, fewest)
    parts = [f"the mean service time became {mean.factor:.2f} times as long"] if mean.certain else []
    if before.variance is not None and after.variance is not None:
        variance = compare_figures(before.variance, after.variance, fewest)
        parts += [f"its variance became {variance.factor:.2f} times as large"] if variance.certain else []
    distance, certain = compare_rates(before.rates, after.rates)
    parts += [f"the rates' distribution moved by {format_share(distance)}"] if certain else []
    return parts, mean.certain and abs(mean.factor - 1.0) >= CHANGED
