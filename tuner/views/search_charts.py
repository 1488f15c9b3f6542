"""Chart a tuning run's trials: the best so far, the front of price and violations, price by every parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from scaler.model.kernel import Floats
from scaler.model.units import format_count, format_money, format_share
from tuner.views.chart import SMALL, TALL, Axis, Chart, Scale, Series
from tuner.views.tuning import WEIGHTS, Point, Tuning, is_searched, rank

COMMON_QUANTILE, MAX_OUTLIER = 0.8, 1.6  # of the costs, and how far beyond it from the least a cost is drawn in place
MARKS = {  # by kind of trial, the last ones above the others
    "failed": ("failed", "alarm", "tick", 7.0),
    "pruned": ("pruned", "c8", "tick", 5.0),
    "infeasible": ("breaks a limit", "c1", "square", 5.0),
    "feasible": ("feasible", "c0", "dot", 7.0),
}
COLOURS = {"chosen": "c2", "nearest": "c1", "naive": "c3"}
NAMED_SIZE, VERIFIED_SIZE = 12.0, 8.0  # pixels
MAX_DOTS = 1500  # that a chart shows
MIN_SLICE_DOTS = 150
MAX_LIMIT_RATIO = 3.0  # times the limit, beyond which violations are drawn at the edge
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
    """The points in the order of `across`, and a series of marks for each kind and for those that are named.

    Costs beyond an edge lie at it, and those of failed trials at the lower one.
    """
    named = list_named(tuning)
    verified = [p for p in tuning.points if p.verifies is not None and p.kind != "failed"]
    extra = [p for p in (*verified, *(each.point for each in named)) if p not in points]
    placed = sorted((p for p in (*points, *extra) if math.isfinite(across(p))), key=across)
    heights = [costs.low if p.kind == "failed" else min(max(p.price, costs.low), costs.high) for p in placed]

    def mark(shown: Sequence[bool], label: str, colour: str, look: str, size: float) -> Series:
        return Series(label, np.where(np.array(shown, dtype=bool), heights, np.nan), colour, look, width=size)

    series = [mark([p.kind == kind for p in placed], *how) for kind, how in MARKS.items()]
    repeated = [p.verifies is not None for p in placed]
    series.append(mark(repeated, "repeated on fresh seeds", "c2", "dot", VERIFIED_SIZE))
    for point, style, label in named:
        series.append(mark([p is point for p in placed], label, COLOURS[style], "dot", NAMED_SIZE))
    return placed, [each for each in series if np.isfinite(each.values).any()]


def thin(points: Sequence[Point], most: int) -> list[Point]:
    """All points, or so many of them evenly."""
    return list(points) if len(points) <= most else [points[i * len(points) // most] for i in range(most)]


def scale_costs(tuning: Tuning) -> Scale:
    """From a little below the least cost to a little above the greatest, outliers on either side left out.

    What matters lies where the good ones are, so trials that were pruned for their cost do not count, and trials that
    break a limit reach no further below the cheapest feasible one than the others reach above it.
    """
    there = [p for p in tuning.points if p.kind != "failed"]
    whole = np.array([p.price for p in there if p.kind != "pruned"] or [p.price for p in there] or [0.0])
    named = [p.price for p in (tuning.chosen, tuning.naive) if p is not None and p.kind != "failed"]
    least = min((p.price for p in there if p.kind == "feasible"), default=float(whole.min()))
    usual = MAX_OUTLIER * max(0.0, float(np.quantile(whole, COMMON_QUANTILE)) - least)
    low = min([max(float(whole.min()), least - usual), *named])
    high = max([min(float(whole.max()), least + usual), *named])
    room = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    return Scale(max(0.0, low - room), high + room)


def pick_share(operator: str, factor: float = 1.0) -> Pick:
    return lambda point: factor * point.shares.get(operator, math.nan)


def pick_weight(key: str) -> Pick:
    return lambda point: point.weights.get(key, math.nan)


def pick_values(points: Sequence[Point], pick: Pick) -> Floats:
    return np.array([pick(point) for point in points], dtype=float)


def pick_ordinal(point: Point) -> float:
    """The trial's number that people see; its place in the run where none was given."""
    return float(point.trial.number if point.trial.ordinal is None else point.trial.ordinal)


def draw_search(tuning: Tuning) -> Markup:
    """Every trial's cost in the order of their numbers, and the cheapest feasible one so far with its uncertainty."""
    costs, shown = scale_costs(tuning), thin(tuning.points, MAX_DOTS)
    placed, marks = mark_trials(tuning, shown, pick_ordinal, costs)
    numbers = pick_values(placed, pick_ordinal)
    first, last = pick_ordinal(tuning.points[0]), pick_ordinal(tuning.points[-1])
    chart = Chart(
        "Price of every trial and the best so far", numbers,
        Axis("trial", low=first - 0.5, high=last + 0.5, whole=True),
        costs.axis("price per hour; trials by their numbers across"), [*follow_best(tuning, placed, costs), *marks],
        height=TALL, note=explain_thinning(tuning, shown, costs),
    )  # fmt: skip
    return chart.render()


def follow_best(tuning: Tuning, placed: Sequence[Point], costs: Scale) -> list[Series]:
    """The cost of the cheapest feasible trial up to each of these, with two standard errors."""
    candidates = [p for p in tuning.points if p.kind == "feasible" and is_searched(p)]
    if not candidates:
        return []
    best, low, high, i = [], [], [], 0
    found: Point | None = None
    for point in placed:
        while i < len(candidates) and candidates[i].trial.number <= point.trial.number:
            if found is None or candidates[i].price < found.price:
                found = candidates[i]
            i += 1
        price = math.nan if found is None else found.price
        error = 0.0 if found is None else 2.0 * (found.trial.price_error or 0.0)
        best.append(price)
        low.append(max(costs.low, price - error))
        high.append(price + error)
    return [
        Series("± 2 standard errors", np.array(high), "c0", "band", np.array(low)),
        Series("best so far", np.array(best), "c0", "steps", width=2.0),
    ]


def draw_front(tuning: Tuning) -> Markup | str:
    """Cost against violations of whole trials, the limit, and the front: the trials that none beats in both."""
    whole = [p for p in thin(tuning.points, MAX_DOTS) if p.trial.violations is not None and p.kind != "failed"]
    if not whole:
        return ""
    limit, costs = tuning.limits.eta_v, scale_costs(tuning)
    greatest = max(p.violations for p in whole)
    edge = 1.05 * (greatest if limit is None else max(1.25 * limit, min(greatest, MAX_LIMIT_RATIO * limit))) or 1.0

    def place(point: Point) -> float:
        return 100.0 * min(point.violations, edge)

    placed, marks = mark_trials(tuning, [p for p in whole if is_searched(p)], place, costs)
    front = find_front([p for p in tuning.points if p.kind in ("feasible", "infeasible") and is_searched(p)])
    series = [Series("front: no trial is better in both", trace_front(placed, front, costs), "ink", "steps", width=2.0)]
    beyond = sum(p.violations > edge for p in tuning.points if p.kind != "failed")
    label = "" if limit is None else f"; the dashed line is the limit, {format_share(limit)}"
    chart = Chart(
        "Price against violations", pick_values(placed, place), Axis("violations, %", low=0.0, high=100.0 * edge),
        costs.axis(f"price per hour; violations, % of slots, across{label}"), [*(series if front else []), *marks],
        height=TALL, uprights=[] if limit is None else [(100.0 * limit, "limit")],
        note=f"At the right edge: {format_count(beyond, 'trial', 'trials')} with more violations." if beyond else "",
    )  # fmt: skip
    return chart.render()


def trace_front(placed: Sequence[Point], front: Sequence[Point], costs: Scale) -> np.ndarray:
    """The front's cost at each of these points: the least that any trial with no more violations costs."""
    heights = []
    for point in placed:
        reached = [p.price for p in front if p.violations <= point.violations]
        heights.append(min(max(reached[-1], costs.low), costs.high) if reached else math.nan)
    return np.array(heights)


def find_front(points: Sequence[Point]) -> list[Point]:
    """Fewest violations first; each costs less than all before it."""
    known = [p for p in points if p.trial.violations is not None]
    front: list[Point] = []
    for point in sorted(known, key=lambda p: (p.violations, p.price)):
        if not front or point.price < front[-1].price:
            front.append(point)
    return front


def draw_slices(tuning: Tuning) -> Markup | str:
    """Cost against every share and weight, one small chart each; marks as in the chart of all trials."""
    sides = [(f"share %, {name}", pick_share(name, 100.0)) for name in tuning.operators]
    sides += [(label, pick_weight(key)) for key, label in WEIGHTS.items()]
    some = thin(tuning.points, max(MIN_SLICE_DOTS, 6 * MAX_DOTS // len(sides)))
    shown = [p for p in some if is_searched(p) and p.kind != "failed"]
    panels = Markup("").join(draw_slice(tuning, shown, title, pick) for title, pick in sides)
    return Markup('<div class="small">{}</div>').format(panels) if panels else ""


def draw_slice(tuning: Tuning, shown: Sequence[Point], title: str, pick: Pick) -> Markup | str:
    known = [p for p in shown if math.isfinite(pick(p))]
    if not known:
        return ""
    costs, values = scale_costs(tuning), pick_values(known, pick)
    low, high = float(values.min()), float(values.max())
    room = 0.06 * (high - low) or 0.1 * high or 0.1
    placed, marks = mark_trials(tuning, known, pick, costs)
    smaller = [replace(each, width=max(4.0, 0.75 * each.width)) for each in marks]
    chart = Chart(
        f"Price against the {title}", pick_values(placed, pick),
        Axis(title, low=max(0.0, low - room), high=high + room), costs.axis(title), smaller, height=SMALL, legend=False,
    )  # fmt: skip
    return Markup('<div title="{}">{}</div>').format(title, chart.render())


def explain_thinning(tuning: Tuning, shown: Sequence[Point], costs: Scale) -> str:
    notes = []
    if len(shown) < len(tuning.points):
        notes.append(f"{len(shown):,} of {len(tuning.points):,} trials are drawn, evenly chosen.")
    there = [p.price for p in tuning.points if p.kind != "failed"]
    for edge, word, limit, beyond in (
        ("upper", "more", costs.high, sum(price > costs.high for price in there)),
        ("lower", "less", costs.low, sum(price < costs.low for price in there)),
    ):
        if beyond:
            trials = format_count(beyond, "trial", "trials")
            notes.append(f"At the {edge} edge: {trials} that cost {word} than {format_money(limit)}.")
    return " ".join(notes)
