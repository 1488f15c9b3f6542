"""Estimate the moments of a tuple's service time on each node type, with intervals, and each node type's speed.

The moments are those of `tuner.pipeline.moments` (its notation: n, S, Q of timed records; N, R, T, I, P, Q, D of whole
tasks). Every window's part in their equations is a sum that it has, so its influence on the answer is known exactly.

Speeds are relative: the type declared to have speed 1, or else the one on which most tuples were seen, keeps its
declared speed (1 where none is declared); the others stand to it as their mean service times do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.nodes import NodeType
from tuner.pipeline.moments import PRODUCTS, TASKS, TIMED, MomentEstimate, MomentSums
from tuner.pipeline.moments import estimate_moments_from_sums as estimate_moments
from tuner.surrogate.estimate import Estimate, estimate, estimate_positive
from tuner.surrogate.observed_windows import UNNAMED, Windows
from tuner.surrogate.surrogate import Speedup

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
    """Every node type's service moments, and the type that the others are compared with."""
    found = {name: service for name in windows.node_types if (service := measure(windows, name)) is not None}
    named = [name for name in found if name != UNNAMED]
    if UNNAMED in found and named:
        del found[UNNAMED]  # tells of all types together
    elif UNNAMED in found:
        used = [name for name in windows.node_types if name != UNNAMED]
        if used:  # what ran where is known, what it took is not: the type with most replicas stands for all
            counts = np.nansum(windows.by_type["replicas"], axis=0)
            most = max(used, key=lambda name: counts[windows.node_types.index(name)])
            found = {most: found[UNNAMED]}
    return found, choose_reference(found) if found else UNNAMED


def choose_reference(services: Mapping[str, ServiceMoments]) -> str:
    """Of the best evidence, the type with most tuples."""
    return min(services, key=lambda name: (RANK.index(services[name].evidence), -services[name].tuples, name))


def measure(windows: Windows, node_type: str) -> ServiceMoments | None:
    """The moments from the best evidence that there is; None where there is none."""
    j = windows.node_types.index(node_type)
    column = {name: table[:, j] for name, table in windows.by_type.items()}
    timed = pick([column[name] for name in TIMED])
    tasks = pick([column[name] for name in TASKS])
    products = [float(timed[TIMED.index(a)] @ timed[TIMED.index(b)]) for a, b in PRODUCTS]
    sums = MomentSums((timed if timed.sum() else tasks).shape[1], add_up(timed), products, add_up(tasks))
    found = estimate_moments(("", windows.operator, node_type or None), sums)
    if found is None or not found.mean > 0.0:
        return time_busy(*pick([column["tuples_in"], column["busy"]]))
    return weigh_records(found, timed) if found.evidence == "records" else weigh_tasks(found, tasks)


def pick(columns: Sequence[Floats]) -> Floats:
    """The windows in which all columns are known and the first is not zero, a row per column."""
    table = np.array(columns)
    return table[:, (table[0] > 0.0) & ~np.isnan(table).any(axis=0)]


def add_up(table: Floats) -> list[float]:
    return [float(total) for total in table.sum(axis=1)]


def weigh_records(found: MomentEstimate, timed: Floats) -> ServiceMoments:
    n, total, squares = timed
    mean, variance = found.mean, found.variance
    slips = (total - mean * n) / found.n
    around = None
    if variance is not None:
        around = estimate_positive(variance, (squares - 2.0 * mean * total + (mean**2 - variance) * n) / found.n)
    return describe(found, estimate_positive(mean, slips), around, None)


def weigh_tasks(found: MomentEstimate, tasks: Floats) -> ServiceMoments:
    """Scores of the normal equations, through the inverse of their matrix; of T / R where overhead cannot be told."""
    n, records, time, inverse, rates, squares = tasks
    mean, overhead, variance = found.mean, found.overhead or 0.0, found.variance
    scores = rates - overhead * inverse - mean * n, time - overhead * n - mean * records
    many, size, weight = float(n.sum()), float(records.sum()), float(inverse.sum())
    spread = weight * size - many * many
    beyond = None
    slips = scores[1] / size
    if found.overhead is not None:
        slips = (weight * scores[1] - many * scores[0]) / spread
        beyond = estimate(overhead, (size * scores[0] - many * scores[1]) / spread)
    around = None
    if variance is not None:
        errors = squares - 2.0 * (overhead * rates + mean * time) + overhead**2 * inverse
        errors = errors + 2.0 * overhead * mean * n + mean**2 * records
        around = estimate_positive(variance, (errors - variance * n) / many)
    return describe(found, estimate_positive(mean, slips), around, beyond)


def describe(
    found: MomentEstimate, mean: Estimate, variance: Estimate | None, overhead: Estimate | None
) -> ServiceMoments:
    trusted = found.mean_trusted, found.variance_trusted
    return ServiceMoments(
        found.evidence, found.windows, found.n, mean, trusted[0], variance, trusted[1], overhead, found.sentence
    )


def time_busy(tuples: Floats, busy: Floats) -> ServiceMoments | None:
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
            speed = compare(service, services[reference])
            own = Estimate(base, base, base, 0.0)
            scaled = Estimate(*(base * x for x in (speed.value, speed.low, speed.high, speed.error)))
            found.append(Speedup(name, own if name == reference else scaled, service.tuples, False))
        else:
            speed_now = stated.get(name, base)
            found.append(Speedup(name, Estimate(speed_now, speed_now, speed_now, 0.0), 0.0, True))
    return tuple(found)
