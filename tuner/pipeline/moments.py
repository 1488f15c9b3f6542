"""Estimate an operator's service-time moments on a node type, with their errors, from sums over windows.

Where records were timed one by one, n of them with sum S and sum of squares Q, mean and variance are theirs.

Where only tasks were timed, task i took t_i = a + n_i s + noise of variance n_i v for its n_i records. Weighted least
squares with weights 1 / n_i minimise sum (t_i - a - n_i s)^2 / n_i; with N tasks, R = sum n_i, T = sum t_i,
I = sum 1 / n_i, P = sum t_i / n_i, Q = sum t_i^2 / n_i the normal equations are

    P = a I + s N,    T = a N + s R,    D = I R - N^2
    a = (P R - T N) / D,    s = (I T - N P) / D,    v = (Q - a P - s T) / (N - 2)
    var a = v R / D,    var s = v I / D

D is 0 when all n_i are alike (Cauchy-Schwarz): then overhead and mean cannot be told apart, and T / R holds both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

LEAST_RECORDS = 100
LEAST_TASKS = 30
LEAST_SPREAD = 0.01  # of D / (I R), which is 0 when all tasks have as many records
GREATEST_ERROR = 0.05  # of the mean, relative, two standard errors
FEW_WINDOWS = 8  # below which their spread says little
KURTOSIS = 9.0  # of exponential times, where windows are too few to tell
TIMED = ("service_n", "service_sum", "service_squares")
TASKS = ("task_n", "task_records", "task_time", "task_inverse", "task_rates", "task_squares")
PRODUCTS = tuple((a, b) for i, a in enumerate(TIMED) for b in TIMED[i:])


@dataclass(frozen=True, slots=True)
class MomentEstimate:
    """Mean and variance of the service time of one tuple, on the node type's own speed; None where unknown."""

    application: str
    operator: str
    node_type: str | None
    evidence: str  # records or tasks
    n: float  # tuples that it was seen on
    windows: int
    mean: float
    mean_error: float | None  # standard errors
    variance: float | None
    variance_error: float | None
    overhead: float | None  # of a task or batch; None where records were timed, or where it cannot be told
    overhead_error: float | None
    mean_trusted: bool
    variance_trusted: bool
    sentence: str


class MomentSums(NamedTuple):
    """Sums that an estimate needs, of one operator on one node type."""

    windows: int  # with timed records
    timed: Sequence[float]  # as TIMED
    products: Sequence[float]  # as PRODUCTS: of two of them, summed over windows
    tasks: Sequence[float]  # as TASKS


Place = tuple[str, str, str | None]


def estimate_moments_from_sums(place: Place, sums: MomentSums) -> MomentEstimate | None:
    """Estimate from timed records where there are any, else from tasks; None where there is neither."""
    if sums.timed[0] > 0.0:
        return estimate_from_records(place, sums)
    return estimate_from_tasks(place, sums) if sums.tasks[1] > 0.0 else None


def estimate_from_records(place: Place, sums: MomentSums) -> MomentEstimate:
    """Mean and variance of timed records; errors by the spread of windows, at least those of independent records."""
    n, total, squares = sums.timed
    mean = total / n
    variance = max(0.0, squares - total * mean) / (n - 1.0) if n > 1.0 else None
    mean_error = math.sqrt(variance / n) if variance is not None else None
    variance_error = None
    if variance is not None:
        variance_error = variance * math.sqrt((KURTOSIS - 1.0) / n)
        if sums.windows >= FEW_WINDOWS:
            mean_error = max(mean_error or 0.0, spread_over_windows(sums, (-mean, 1.0, 0.0)))
            variance_error = spread_over_windows(sums, (mean**2 - variance, -2.0 * mean, 1.0))
    enough = n >= LEAST_RECORDS
    mean_trusted = enough and mean > 0.0 and mean_error is not None and 2.0 * mean_error <= GREATEST_ERROR * mean
    said = f"{n:,.0f} records were timed one by one"
    if not enough:
        said += f", fewer than {LEAST_RECORDS}: let more run through"
    elif not mean > 0.0:
        said += ", and took no time that could be measured: check the unit of the times"
    elif not mean_trusted:
        said += f", and their mean is known to within {2.0 * (mean_error or 0.0) / mean:.0%} only: let more run through"
    return MomentEstimate(
        *place, "records", n, sums.windows, mean, mean_error, variance, variance_error, None, None,
        mean_trusted, enough, f"{said}.",
    )  # fmt: skip


def spread_over_windows(sums: MomentSums, factors: Sequence[float]) -> float:
    """The standard error of an average whose deviation in window w is f . (n_w, S_w, Q_w)."""
    product = dict(zip(PRODUCTS, sums.products, strict=True))
    total = math.fsum(
        factors[i] * factors[j] * product[TIMED[min(i, j)], TIMED[max(i, j)]] for i in range(3) for j in range(3)
    )
    return math.sqrt(max(0.0, total) * sums.windows / (sums.windows - 1.0)) / sums.timed[0]


class TaskFit(NamedTuple):
    """Result of the least squares over tasks."""

    mean: float
    mean_error: float | None
    variance: float | None
    overhead: float | None
    overhead_error: float | None
    doubt: str  # empty where there is none


def estimate_from_tasks(place: Place, sums: MomentSums) -> MomentEstimate:
    fitted = fit_tasks(sums.tasks)
    said = f"From the times of {sums.tasks[0]:,.0f} whole tasks; their spread understates that of single records"
    return MomentEstimate(
        *place, "tasks", sums.tasks[1], sums.windows, fitted.mean, fitted.mean_error, fitted.variance, None,
        fitted.overhead, fitted.overhead_error, not fitted.doubt, False,
        f"{said}{fitted.doubt and '; '}{fitted.doubt}.",
    )  # fmt: skip


def fit_tasks(tasks: Sequence[float]) -> TaskFit:
    """Fit by the notation above; without overhead where it would be negative or is not identifiable."""
    n, records, time, inverse, rates, squares = tasks
    determinant = inverse * records - n * n
    plain = fit_without_overhead(tasks)
    if n < 3.0 or determinant <= LEAST_SPREAD * inverse * records:
        alike = "all tasks have about as many records, so the mean holds their overhead too"
        return plain._replace(doubt=alike if n >= LEAST_TASKS else say_few(n))
    overhead = (rates * records - time * n) / determinant
    mean = (inverse * time - n * rates) / determinant
    variance = max(0.0, squares - overhead * rates - mean * time) / (n - 2.0)
    overhead_error = math.sqrt(variance * records / determinant)
    if overhead < 0.0:
        bent = "larger tasks take more time a record than small ones, which a constant overhead cannot explain"
        return plain._replace(doubt=bent if overhead < -3.0 * overhead_error else say_few(n) if n < LEAST_TASKS else "")
    if mean <= 0.0:
        return plain._replace(doubt="their time does not grow with their records, so the mean holds their overhead too")
    error = math.sqrt(variance * inverse / determinant)
    wide = f"the mean is known to within {2.0 * error / mean:.0%} only" if 2.0 * error > GREATEST_ERROR * mean else ""
    return TaskFit(mean, error, variance, overhead, overhead_error, say_few(n) if n < LEAST_TASKS else wide)


def fit_without_overhead(tasks: Sequence[float]) -> TaskFit:
    n, records, time, _, _, squares = tasks
    mean = time / records
    variance = max(0.0, squares - mean * time) / (n - 1.0) if n > 1.0 else None
    return TaskFit(mean, None if variance is None else math.sqrt(variance / records), variance, None, None, "")


def say_few(tasks: float) -> str:
    return f"there are fewer than {LEAST_TASKS} of them: let more run"
