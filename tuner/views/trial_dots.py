"""Show trials as marks of a chart: by how they ended, and on top those that the report names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from scaler.model.kernel import Floats
from tuner.views.chart import Axis, Series
from tuner.views.scale import Scale
from tuner.views.tuning import KINDS, Point, Tuning, rank

COMMON_QUANTILE, MAX_OUTLIER = 0.8, 1.6  # of the costs, and how far beyond it from the least a cost is drawn in place
LABELS = {"feasible": "feasible", "infeasible": "breaks a limit", "pruned": "given up early", "failed": "failed"}
MARKS = {
    "feasible": ("c0", "dot", 7.0),
    "infeasible": ("c1", "square", 5.0),
    "pruned": ("c8", "tick", 5.0),
    "failed": ("alarm", "tick", 7.0),
}
COLOURS = {"chosen": "c2", "nearest": "c1", "naive": "c3"}
NAMED_SIZE, VERIFIED_SIZE = 12.0, 8.0  # pixels
Pick = Callable[[Point], float]


class Named(NamedTuple):
    """A trial that the report names, how it is drawn and called."""

    point: Point
    style: str
    label: str


def list_named(tuning: Tuning) -> list[Named]:
    """Equal shares, then the recommended trial, or the one that came nearest where nothing was recommended."""
    named = []
    if tuning.chosen is not None:
        label = "recommended" if tuning.objective is not None else "best so far"
        named.append(Named(tuning.chosen, "chosen", label))
    elif nearest := next(iter(rank(tuning.points)), None):
        named.append(Named(nearest, "nearest", "came nearest"))
    if tuning.naive is not None and all(tuning.naive is not each.point for each in named):
        named.insert(0, Named(tuning.naive, "naive", "equal shares and weights"))
    return [each for each in named if each.point.kind != "failed"]


def mark_trials(
    tuning: Tuning, points: Sequence[Point], across: Pick, costs: Scale
) -> tuple[list[Point], list[Series]]:
    """The points in the order of `across`, and a series of marks for each kind and for those that are named."""
    named = list_named(tuning)
    verified = [p for p in tuning.points if p.verifies is not None and p.kind != "failed"]
    extra = [p for p in (*verified, *(each.point for each in named)) if p not in points]
    placed = sorted((p for p in (*points, *extra) if math.isfinite(across(p))), key=across)
    heights = np.array([height_of(p, costs) for p in placed])

    def select(among: Callable[[Point], bool], label: str, colour: str, look: str, size: float) -> Series:
        there = np.array([among(p) for p in placed], dtype=bool)
        return Series(label, np.where(there, heights, np.nan), colour, look, width=size)

    series = [select(lambda p, kind=kind: p.kind == kind, LABELS[kind], *MARKS[kind]) for kind in reversed(KINDS)]  # type: ignore[misc]
    series.append(select(lambda p: p.verifies is not None, "repeated on fresh seeds", "c2", "dot", VERIFIED_SIZE))
    series += [
        select(lambda p, each=each: p is each.point, each.label, COLOURS[each.style], "dot", NAMED_SIZE)  # type: ignore[misc]
        for each in named
    ]
    return placed, [each for each in series if np.isfinite(each.values).any()]


def height_of(point: Point, costs: Scale) -> float:
    """Its cost, at the edge where it is beyond it; a failed trial lies at the lower edge."""
    return costs.low if point.kind == "failed" else min(max(price_of(point), costs.low), costs.high)


def make_axis(label: str, scale: Scale) -> Axis:
    return Axis(label, low=scale.low, high=scale.high)


def thin(points: Sequence[Point], most: int) -> list[Point]:
    """All points, or so many of them evenly."""
    return list(points) if len(points) <= most else [points[i * len(points) // most] for i in range(most)]


def scale_costs(tuning: Tuning) -> Scale:
    """From a little below the least cost to a little above the greatest that is no outlier.

    What matters lies where the good ones are, so trials that were given up for their cost do not count.
    """
    there = [p for p in tuning.points if p.kind != "failed"]
    whole = np.array([price_of(p) for p in there if p.kind != "pruned"] or [price_of(p) for p in there] or [0.0])
    named = [price_of(p) for p in (tuning.chosen, tuning.naive) if p is not None and p.kind != "failed"]
    low = float(whole.min())
    common = low + MAX_OUTLIER * (float(np.quantile(whole, COMMON_QUANTILE)) - low)
    high = max([min(float(whole.max()), common), *named])
    room = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    return Scale(max(0.0, low - room), high + room)


def price_of(point: Point) -> float:
    return math.nan if point.trial.price is None else point.trial.price


def violations_of(point: Point) -> float:
    return math.nan if point.trial.violations is None else point.trial.violations


def reconfigurations_of(point: Point) -> float:
    return math.nan if point.trial.reconfigurations is None else point.trial.reconfigurations


def pick_values(points: Sequence[Point], pick: Pick) -> Floats:
    return np.array([pick(point) for point in points], dtype=float)


def hide_legend(series: Sequence[Series]) -> list[Series]:
    """For small charts that share one legend: smaller marks."""
    return [replace(each, width=max(4.0, 0.75 * each.width)) for each in series]
