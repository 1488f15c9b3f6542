"""Chart a tuning run's trials: the best so far, the front of cost against violations, cost against every parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from scaler.model.units import format_count, format_money, format_share
from tuner.views.chart import SMALL, TALL, Axis, Chart, Series
from tuner.views.scale import Scale
from tuner.views.trial_dots import (
    Pick,
    hide_legend,
    make_axis,
    mark_trials,
    pick_values,
    price_of,
    scale_costs,
    thin,
    violations_of,
)
from tuner.views.tuning import WEIGHTS, Point, Tuning, is_searched

MAX_DOTS = 1500  # that a chart shows
MIN_SLICE_DOTS = 150
MAX_OUTLIER = 3.0  # times the limit, beyond which violations are drawn at the edge


def draw_search(tuning: Tuning) -> str:
    """Every trial's cost in the order of their numbers, and the cheapest feasible one so far with its uncertainty."""
    costs, shown = scale_costs(tuning), thin(tuning.points, MAX_DOTS)
    placed, marks = mark_trials(tuning, shown, number_of, costs)
    numbers, last = pick_values(placed, number_of), number_of(tuning.points[-1])
    chart = Chart(
        "Cost of every trial and the best so far", numbers, Axis("trial", low=-0.5, high=last + 0.5),
        make_axis("cost per hour; trials by number across", costs), [*follow_best(tuning, placed, costs), *marks],
        height=TALL, note=explain_thinning(tuning, shown, costs),
    )  # fmt: skip
    return chart.render()


def number_of(point: Point) -> float:
    return float(point.trial.number)


def follow_best(tuning: Tuning, placed: Sequence[Point], costs: Scale) -> list[Series]:
    """The cost of the cheapest feasible trial up to each of these, with two standard errors."""
    candidates = [p for p in tuning.points if p.kind == "feasible" and is_searched(p)]
    if not candidates:
        return []
    best, low, high, i = [], [], [], 0
    found: Point | None = None
    for point in placed:
        while i < len(candidates) and candidates[i].trial.number <= point.trial.number:
            if found is None or price_of(candidates[i]) < price_of(found):
                found = candidates[i]
            i += 1
        price = math.nan if found is None else price_of(found)
        error = 0.0 if found is None else 2.0 * (found.trial.price_error or 0.0)
        best.append(price)
        low.append(max(costs.low, price - error))
        high.append(price + error)
    return [
        Series("± 2 standard errors", np.array(high), "c0", "band", np.array(low)),
        Series("best so far", np.array(best), "c0", "steps", width=2.0),
    ]


def draw_front(tuning: Tuning) -> str:
    """Cost against violations of whole trials, the limit, and the front: the trials that none beats in both."""
    whole = [p for p in thin(tuning.points, MAX_DOTS) if p.trial.violations is not None and p.kind != "failed"]
    if not whole:
        return ""
    limit, costs = tuning.limits.eta_v, scale_costs(tuning)
    greatest = max(violations_of(p) for p in whole)
    edge = 1.05 * (greatest if limit is None else max(1.25 * limit, min(greatest, MAX_OUTLIER * limit))) or 1.0

    def place(point: Point) -> float:
        return 100.0 * min(violations_of(point), edge)

    placed, marks = mark_trials(tuning, [p for p in whole if is_searched(p)], place, costs)
    front = find_front([p for p in tuning.points if p.kind in ("feasible", "infeasible") and is_searched(p)])
    series = [Series("front: no trial is better in both", trace_front(placed, front, costs), "ink", "steps", width=2.0)]
    beyond = sum(violations_of(p) > edge for p in tuning.points if p.kind != "failed")
    label = "" if limit is None else f"; the dashed line is the limit, {format_share(limit)}"
    chart = Chart(
        "Cost against violations", pick_values(placed, place), Axis("violations, %", low=0.0, high=100.0 * edge),
        make_axis(f"cost per hour; violations, % of slots, across{label}", costs), [*(series if front else []), *marks],
        height=TALL, uprights=[] if limit is None else [(100.0 * limit, "limit")],
        note=f"At the right edge: {format_count(beyond, 'trial', 'trials')} with more violations." if beyond else "",
    )  # fmt: skip
    return chart.render()


def trace_front(placed: Sequence[Point], front: Sequence[Point], costs: Scale) -> np.ndarray:
    """The front's cost at each of these points: the least that any trial with no more violations costs."""
    heights = []
    for point in placed:
        reached = [price_of(p) for p in front if violations_of(p) <= violations_of(point)]
        heights.append(min(max(reached[-1], costs.low), costs.high) if reached else math.nan)
    return np.array(heights)


def find_front(points: Sequence[Point]) -> list[Point]:
    """Fewest violations first; each costs less than all before it."""
    known = [p for p in points if p.trial.violations is not None]
    front: list[Point] = []
    for point in sorted(known, key=lambda p: (violations_of(p), price_of(p))):
        if not front or price_of(point) < price_of(front[-1]):
            front.append(point)
    return front


def draw_slices(tuning: Tuning) -> str:
    """Cost against every share and weight, one small chart each; marks as in the chart of all trials."""
    sides: list[tuple[str, Callable[[Point], float]]] = [
        (f"share %, {name}", lambda p, name=name: 100.0 * p.shares.get(name, math.nan))  # type: ignore[misc]
        for name in tuning.operators
    ]
    sides += [(label, lambda p, key=key: p.weights.get(key, math.nan)) for key, label in WEIGHTS.items()]  # type: ignore[misc]
    shown = [
        p
        for p in thin(tuning.points, max(MIN_SLICE_DOTS, 6 * MAX_DOTS // len(sides)))
        if is_searched(p) and p.kind != "failed"
    ]
    panels = "".join(draw_slice(tuning, shown, title, pick) for title, pick in sides)
    return f'<div class="small">{panels}</div>' if panels else ""


def draw_slice(tuning: Tuning, shown: Sequence[Point], title: str, pick: Pick) -> str:
    known = [p for p in shown if math.isfinite(pick(p))]
    if not known:
        return ""
    costs, values = scale_costs(tuning), pick_values(known, pick)
    low, high = float(values.min()), float(values.max())
    room = 0.06 * (high - low) or 0.1 * high or 0.1
    placed, marks = mark_trials(tuning, known, pick, costs)
    chart = Chart(
        f"Cost against the {title}", pick_values(placed, pick), Axis(title, low=max(0.0, low - room), high=high + room),
        make_axis(title, costs), hide_legend(marks), height=SMALL, legend=False,
    )  # fmt: skip
    return f'<div title="{escape(title)}">{chart.render()}</div>'


def explain_thinning(tuning: Tuning, shown: Sequence[Point], costs: Scale) -> str:
    notes = []
    if len(shown) < len(tuning.points):
        notes.append(f"{len(shown):,} of {len(tuning.points):,} trials are drawn, evenly chosen.")
    over = sum(p.kind != "failed" and price_of(p) > costs.high for p in tuning.points)
    if over:
        trials = format_count(over, "trial", "trials")
        notes.append(f"At the upper edge: {trials} that cost more than {format_money(costs.high)}.")
    return " ".join(notes)
