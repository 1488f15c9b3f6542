"""Selectivity of every edge between operators, with its error: arrivals at the next per tuple put out.

A ratio r = sum y / sum x over windows has the standard error sqrt(W / (W - 1) sum (y - r x)^2) / sum x, windows being
independent: only sums of x, y and their products are needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.sample import Sample
from tuner.pipeline.merge import merge_types

Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Selectivity:
    """Arrivals downstream per tuple that the operator puts out."""

    application: str
    operator: str
    downstream: str
    value: float
    error: float | None  # standard error; None where one window alone speaks
    windows: int


class RatioSums(NamedTuple):
    """Sums over windows in which x and y are both known."""

    windows: int
    x: float
    y: float
    xx: float
    xy: float
    yy: float


def divide(sums: RatioSums) -> tuple[float, float | None]:
    value = sums.y / sums.x
    if sums.windows < 2:
        return value, None
    rest = max(0.0, sums.yy - 2.0 * value * sums.xy + value * value * sums.xx)
    return value, math.sqrt(rest * sums.windows / (sums.windows - 1.0)) / sums.x


def add_pairs(pairs: Sequence[tuple[float, float]]) -> RatioSums:
    return RatioSums(
        len(pairs),
        math.fsum(x for x, _ in pairs),
        math.fsum(y for _, y in pairs),
        math.fsum(x * x for x, _ in pairs),
        math.fsum(x * y for x, y in pairs),
        math.fsum(y * y for _, y in pairs),
    )


def estimate_edges(samples: Iterable[Sample], edges: Sequence[Edge]) -> list[Selectivity]:
    """Selectivity of every edge of an application; where streams meet, least squares estimate each one's part."""
    by_operator: dict[str, dict[float, Sample]] = {}
    for sample in merge_types(samples):
        by_operator.setdefault(sample.operator, {})[sample.start] = sample
    found: dict[Edge, Selectivity] = {}
    for downstream in dict.fromkeys(down for _, down in edges):
        feeders = [up for up, down in edges if down == downstream]
        found |= {(one.operator, downstream): one for one in part_arrivals(by_operator, feeders, downstream)}
    return [found[edge] for edge in edges if edge in found]


def part_arrivals(
    by_operator: dict[str, dict[float, Sample]], feeders: Sequence[str], downstream: str
) -> list[Selectivity]:
    rows, arrivals = [], []
    for start, sample in by_operator.get(downstream, {}).items():
        arrived = sample.tuples_in if sample.arrived is None else sample.arrived
        put_out = [get_output(by_operator.get(name, {}).get(start)) for name in feeders]
        if arrived is not None and all(value is not None for value in put_out):
            rows.append(put_out)
            arrivals.append(arrived)
    if not rows:
        return []
    application = next(iter(by_operator[downstream].values())).application
    if len(feeders) == 1:
        sums = add_pairs([(row[0], y) for row, y in zip(rows, arrivals, strict=True)])  # type: ignore[misc]
        return [Selectivity(application, feeders[0], downstream, *divide(sums), sums.windows)] if sums.x > 0.0 else []
    return regress(application, feeders, downstream, np.array(rows, np.float64), np.array(arrivals))


def get_output(sample: Sample | None) -> float | None:
    """Tuples out, or in where that is unknown: then the edge's selectivity includes the operator's."""
    if sample is None:
        return None
    return sample.tuples_in if sample.tuples_out is None else sample.tuples_out


def regress(application: str, feeders: Sequence[str], downstream: str, x: Floats, y: Floats) -> list[Selectivity]:
    """Least squares weighted by one over the arrivals, as counts scatter; nothing where streams rise and fall alike."""
    weight = 1.0 / np.sqrt(np.maximum(y, 1.0))
    a, b = x * weight[:, None], y * weight
    scale = np.linalg.norm(a, axis=0)
    if len(y) <= len(feeders) or not scale.all() or np.linalg.cond(a / scale) > 1e3:
        return []
    values = np.linalg.lstsq(a, b, rcond=None)[0]
    rest = float(np.sum((b - a @ values) ** 2)) / (len(y) - len(feeders))
    errors = np.sqrt(rest * np.diag(np.linalg.inv(a.T @ a)))
    return [
        Selectivity(application, name, downstream, max(0.0, float(value)), float(error), len(y))
        for name, value, error in zip(feeders, values, errors, strict=True)
    ]
