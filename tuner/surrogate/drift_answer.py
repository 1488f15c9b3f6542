"""The drift check: whether an operator is still the one that was fitted."""

from __future__ import annotations

from tuner.surrogate.answer import CheckResult
from tuner.surrogate.drift import WindowProfile, compare_figures, compare_rates, profile, recall
from tuner.surrogate.observed_windows import Windows
from tuner.surrogate.surrogate import Check, OperatorSurrogate

CHANGED = 0.1  # of the mean service time, from which on a surrogate must not be used


def check_since(operator: OperatorSurrogate, since: Windows) -> Check:
    """After the fit: all windows since against those that it was fitted on."""
    when = f"in {since.start.size} windows since the fit"
    return Check("drift", operator.operator, *weigh_changes(recall(operator), profile(since, operator.reference), when))


def weigh_changes(before: WindowProfile | None, after: WindowProfile | None, when: str) -> CheckResult:
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
    parts += [f"the rates' distribution moved by {distance:.0%}"] if certain else []
    return parts, mean.certain and abs(mean.factor - 1.0) >= CHANGED
