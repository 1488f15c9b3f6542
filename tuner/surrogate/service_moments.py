"""Estimate the moments of a tuple's service time on each node type, with intervals, and each node type's speed.

Where records were timed one by one, n of them with sum S and sum of squares Q, mean and variance are theirs.

Where only tasks were timed, task i took t_i = a + n_i s + noise of variance n_i v for its n_i records. Weighted least
squares with weights 1 / n_i minimise sum (t_i - a - n_i s)^2 / n_i; with N tasks, R = sum n_i, T = sum t_i,
I = sum 1 / n_i, P = sum t_i / n_i, Q = sum t_i^2 / n_i the normal equations are

    P = a I + s N,    T = a N + s R,    D = I R - N^2
    a = (P R - T N) / D,    s = (I T - N P) / D,    v = (Q - a P - s T) / (N - 2)
    var a = v R / D,    var s = v I / D

D is 0 when all n_i are alike (Cauchy-Schwarz): then overhead and mean cannot be told apart, and T / R holds both.
Every window's part in these equations is a sum that it has, so its influence on the answer is known exactly.

Speeds are relative: the type declared to have speed 1, or else the one on which most tuples were seen, keeps its
declared speed (1 where none is declared); the others stand to it as their mean service times do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.nodes import NodeType
from scaler.model.units import format_share
from tuner.surrogate.estimate import Estimate, estimate, estimate_positive, exact, scale
from tuner.surrogate.observed_windows import RECORDS, TASKS, UNNAMED, Windows
from tuner.surrogate.surrogate import Speedup

LEAST_RECORDS = 100
LEAST_TASKS = 30
LEAST_SPREAD = 0.01  # of D / (I R), which is 0 when all tasks have as many records
GREATEST_ERROR = 0.05  # of the mean, relative, two standard errors
FEW_WINDOWS = 8  # below which their spread says little
RANK = ("records", "tasks", "busy")  # the more exact evidence before the less


@dataclass(frozen=True, slots=True)
class ServiceMoments:
    """Service moments on one node type, as fast as that type is."""

    evidence: str  # records, tasks, or busy: replicas' working time over tuples
    windows: int
    tuples: float
    mean: Estimate
    mean_trusted: bool
    variance: Estimate | None  # None: not to be had from this evidence
    variance_trusted: bool
    overhead: Estimate | None  # seconds a task or batch, beyond its tuples
    says: str


def list_services(windows: Windows) -> tuple[dict[str, ServiceMoments], str]:
    """Every node type's service moments, and the type to compare with: of the best evidence, that of most tuples."""
    found = {}
    for j, name in enumerate(windows.node_types):
        service = measure_columns({column: table[:, j] for column, table in windows.by_type.items()})
        if service is not None:
            found[name] = service
    used = [name for name in windows.node_types if name != UNNAMED]
    named = [name for name in found if name != UNNAMED]
    if UNNAMED in found and named:  # it tells of all types together
        together = found.pop(UNNAMED)
        if len(used) == 1 and RANK.index(together.evidence) < RANK.index(found[used[0]].evidence):
            found[used[0]] = together
    elif UNNAMED in found and used:  # what ran where is known, what it took is not: the type with most replicas
        counts = np.nansum(windows.by_type["replicas"], axis=0)
        most = max(used, key=lambda name: counts[windows.node_types.index(name)])
        found = {most: found[UNNAMED]}
    exactness = {name: (RANK.index(service.evidence), -service.tuples, name) for name, service in found.items()}
    return found, min(found, key=exactness.__getitem__, default=UNNAMED)


def measure_columns(column: Mapping[str, Floats]) -> ServiceMoments | None:
    """The moments from the best evidence in columns of samples, by their names; None where there is none."""
    timed, tasks = (pick([column[name] for name in names]) for names in (RECORDS, TASKS))
    found = measure_records(timed) if timed.size else measure_tasks(tasks) if tasks[1].sum() > 0.0 else None
    if found is None or not found.mean.value > 0.0:
        return measure_busy(*pick([column["tuples_in"], column["busy"]]))
    return found


def pick(columns: Sequence[Floats]) -> Floats:
    """The windows in which all columns are known and the first is not zero, a row per column."""
    table = np.array(columns)
    return table[:, (table[0] > 0.0) & ~np.isnan(table).any(axis=0)]


def measure_records(timed: Floats) -> ServiceMoments:
    """Of timed records; the mean is trusted by the spread of windows, at least that of independent records."""
    n, total, squares = timed
    count, seconds = float(n.sum()), float(total.sum())
    mean = seconds / count
    figure = estimate_positive(mean, (total - mean * n) / count)
    variance, error = None, math.inf
    if count > 1.0:
        around = max(0.0, float(squares.sum()) - seconds * mean) / (count - 1.0)
        variance = estimate_positive(around, (squares - 2.0 * mean * total + (mean**2 - around) * n) / count)
        error = max(math.sqrt(around / count), figure.error if n.size >= FEW_WINDOWS else 0.0)
    enough, sure = count >= LEAST_RECORDS, 2.0 * error <= GREATEST_ERROR * mean
    said = f"{count:,.0f} records were timed one by one"
    if not enough:
        said += f", fewer than {LEAST_RECORDS}: let more run through"
    elif not sure and mean > 0.0:
        said += f", and their mean is known to within {format_share(2.0 * error / mean)} only: let more run through"
    return ServiceMoments("records", n.size, count, figure, enough and sure, variance, enough, None, f"{said}.")


def measure_tasks(tasks: Floats) -> ServiceMoments:
    """Of whole tasks, by the scores of the normal equations; of T / R where the overhead cannot be identified."""
    fitted = fit_tasks([float(total) for total in tasks.sum(axis=1)])
    n, records, time, inverse, rates, squares = tasks
    mean, overhead, variance = fitted.mean, fitted.overhead or 0.0, fitted.variance
    scores = rates - overhead * inverse - mean * n, time - overhead * n - mean * records
    many, size, weight = float(n.sum()), float(records.sum()), float(inverse.sum())
    spread = weight * size - many * many
    beyond = None
    slips = scores[1] / size
    if fitted.overhead is not None:
        slips = (weight * scores[1] - many * scores[0]) / spread
        beyond = estimate(overhead, (size * scores[0] - many * scores[1]) / spread)
    around = None
    if variance is not None:
        errors = squares - 2.0 * (overhead * rates + mean * time) + overhead**2 * inverse
        errors = errors + 2.0 * overhead * mean * n + mean**2 * records
        around = estimate_positive(variance, (errors - variance * n) / many)
    said = f"From the times of {many:,.0f} whole tasks; their spread understates that of single records"
    return ServiceMoments(
        "tasks", n.size, size, estimate_positive(mean, slips), not fitted.doubt, around, False, beyond,
        f"{said}{fitted.doubt and '; '}{fitted.doubt}.",
    )  # fmt: skip


class TaskFit(NamedTuple):
    """Result of the least squares over tasks."""

    mean: float
    mean_error: float | None
    variance: float | None
    overhead: float | None
    overhead_error: float | None
    doubt: str  # empty where there is none


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
    wide = (
        f"the mean is known to within {format_share(2.0 * error / mean)} only"
        if 2.0 * error > GREATEST_ERROR * mean
        else ""
    )
    return TaskFit(mean, error, variance, overhead, overhead_error, say_few(n) if n < LEAST_TASKS else wide)


def fit_without_overhead(tasks: Sequence[float]) -> TaskFit:
    n, records, time, _, _, squares = tasks
    mean = time / records
    variance = max(0.0, squares - mean * time) / (n - 1.0) if n > 1.0 else None
    return TaskFit(mean, None if variance is None else math.sqrt(variance / records), variance, None, None, "")


def say_few(tasks: float) -> str:
    return f"there are fewer than {LEAST_TASKS} of them: let more run"


def measure_busy(tuples: Floats, busy: Floats) -> ServiceMoments | None:
    """The mean alone, from how long replicas were busy with how many tuples."""
    n = float(tuples.sum())
    if not n > 0.0 or not busy.sum() > 0.0:
        return None
    mean = float(busy.sum()) / n
    spread = estimate_positive(mean, (busy - mean * tuples) / n)
    said = f"From the working time of replicas over {n:,.0f} tuples, which holds overheads and tells no variance."
    return ServiceMoments("busy", tuples.size, n, spread, tuples.size > 1, None, False, None, said)


def compare(service: ServiceMoments, reference: ServiceMoments) -> Estimate:
    """How many times as fast as the reference: the quotient of two independent means, its interval in factors."""
    ratio = reference.mean.value / service.mean.value
    reaches = [math.log(e.high / e.value) if e.high > 0.0 else math.inf for e in (service.mean, reference.mean)]
    factor = math.exp(min(700.0, math.hypot(*reaches)))
    error = ratio * math.hypot(service.mean.error / service.mean.value, reference.mean.error / reference.mean.value)
    return Estimate(ratio, ratio / factor, ratio * factor, error)


def anchor(services: Mapping[str, ServiceMoments], reference: str, declared: Sequence[NodeType]) -> str:
    """The type declared to have speed 1 where it was seen as exactly as the reference, so that the unit stays put."""
    units = [node.name for node in declared if node.speedup == 1.0 and node.name in services]
    same = [name for name in units if services[name].evidence == services[reference].evidence]
    return same[0] if same else reference


def find_speedups(
    services: Mapping[str, ServiceMoments], used: Sequence[str], declared: Sequence[NodeType], reference: str
) -> tuple[Speedup, ...]:
    """One for every type used or declared; evidence of another kind than the reference's is not compared with it."""
    stated = {node.name: node.speedup for node in declared}
    base = stated.get(reference, 1.0)
    names = [*used, *(name for name in stated if name not in used)]
    found = []
    for name in names:
        service = services.get(name)
        if service is not None and service.evidence == services[reference].evidence:
            speed = exact(base) if name == reference else scale(compare(service, services[reference]), base)
            found.append(Speedup(name, speed, service.tuples, False))
        else:
            found.append(Speedup(name, exact(stated.get(name, base)), 0.0, True))
    return tuple(found)
