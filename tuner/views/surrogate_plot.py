"""The points of an operator in; predicted against observed as characters or as SVG, and both over the load, out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scaler.model.kernel import Floats
from tuner.surrogate.surrogate import PredictedWindow
from tuner.views.charts import wrap
from tuner.views.scale import Scale, Ticks
from tuner.views.svg import WIDE, draw_bottom_axis, draw_left_axis, draw_plot, place

HIGH = 260  # pixels
ACROSS, DOWN = 56, 14  # characters
BEYOND = 4.0  # times the 99 % quantile, above which a point is drawn at the edge
STYLE = """
.dot { fill: none; stroke-width: 6; stroke-linecap: round; vector-effect: non-scaling-stroke; opacity: .6; }
.dot.c0 { stroke: var(--c0); } .dot.c1 { stroke: var(--c1); opacity: .9; } .dot.ink { stroke: var(--ink); opacity: .9; }
.marks { overflow: visible; }
"""


def shown(points: Sequence[PredictedWindow]) -> list[PredictedWindow]:
    """Those with a finite prediction, those fitted on first so that held-out ones lie on top."""
    finite = [point for point in points if math.isfinite(point.predicted) and point.observed > 0.0]
    return sorted(finite, key=lambda point: point.held_out)


def choose_scale(values: Floats) -> Scale:
    """From a little below the least to a little above the greatest that is no outlier; by factors where far apart."""
    low, high = float(values.min()), min(float(values.max()), BEYOND * float(np.quantile(values, 0.99)))
    if high > 8.0 * low:
        return Scale(low / 1.1, high * 1.1, True)
    room = 0.06 * (high - low) or 0.05 * high or 1.0
    return Scale(max(0.0, low - room), high + room)


def ticks(scale: Scale, factor: float = 1.0) -> Ticks:
    """Round values within the scale; 1, 2 and 5 times powers of ten where it goes by factors."""
    if not scale.by_factors:
        return scale.ticks(factor)
    first, last = math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high))
    values = [step * 10.0**n for n in range(first, last + 1) for step in (1.0, 2.0, 5.0)]
    kept = [value for value in values if scale.low <= value <= scale.high]
    shares = scale.share(np.array(kept)) if kept else np.empty(0)
    return [(float(share), f"{value * factor:.6g}") for share, value in zip(shares, kept, strict=True)]


def draw_text(points: Sequence[PredictedWindow], ascii_only: bool = False) -> str:
    """A scatter for a terminal: predicted upwards, observed to the right, the diagonal where both are equal."""
    some = shown(points)
    if not some:
        return "  (no window with a response time was predicted)"
    fitted, held, even = (".", "o", "/") if ascii_only else ("·", "●", "-")
    scale = choose_scale(np.array([[p.observed, p.predicted] for p in some]))
    grid = [[" "] * ACROSS for _ in range(DOWN)]
    for i in range(ACROSS):
        grid[DOWN - 1 - min(DOWN - 1, i * DOWN // ACROSS)][i] = even
    for point in some:
        x, y = (min(1.0, max(0.0, float(scale.share(np.array(v))))) for v in (point.observed, point.predicted))
        grid[DOWN - 1 - min(DOWN - 1, int(y * DOWN))][min(ACROSS - 1, int(x * ACROSS))] = (
            held if point.held_out else fitted
        )
    low, high = f"{1000 * scale.low:.4g}", f"{1000 * scale.high:.4g} ms"
    margin = max(len(low), len(high))
    bar = "|" if ascii_only else "│"
    rows = [
        f"  {label:>{margin}} {bar}{''.join(row)}"
        for label, row in zip([high, *[""] * (DOWN - 2), low], grid, strict=True)
    ]
    foot = f"  {'':{margin}}  {low}{high:>{ACROSS - len(low)}}"
    legend = f"  predicted (up) against observed (right); {held} held out, {fitted} fitted on, {even} equal"
    return "\n".join([*rows, foot, legend])


def draw_agreement(points: Sequence[PredictedWindow]) -> str:
    """Predicted against observed, as a figure with its legend."""
    some = shown(points)
    if not some:
        return ""
    scale = choose_scale(np.array([[p.observed, p.predicted] for p in some]))
    xs, ys = (scale.share(np.array([getattr(p, name) for p in some])) for name in ("observed", "predicted"))
    marks = [
        f'<path class="line floor" d="M0 {HIGH}L{WIDE} 0"/>',
        *(draw_dot(*at) for at in zip(xs, ys, some, strict=True)),
    ]
    around = [
        draw_left_axis(ticks(scale, 1000.0), "predicted response time, ms; observed below"),
        draw_bottom_axis(ticks(scale, 1000.0)),
    ]
    legend = [("c1", "held-out windows"), ("c0", "windows fitted on"), ("floor", "predicted as observed")]
    return wrap(draw_plot(HIGH, marks, around, "Predicted against observed response times"), legend)


def draw_course(points: Sequence[PredictedWindow]) -> str:
    """Response times over utilisation: what was observed in each window and what was predicted for it."""
    some = shown(points)
    if not some:
        return ""
    values = choose_scale(np.array([[p.observed, p.predicted] for p in some]))
    loads = Scale(0.0, max(1.0, 1.05 * max(p.utilisation for p in some)))
    xs = loads.share(np.array([p.utilisation for p in some]))
    seen, said = (values.share(np.array([getattr(p, name) for p in some])) for name in ("observed", "predicted"))
    marks = [draw_dot(*at) for at in zip(xs, seen, some, strict=True)]
    marks += [f'<path class="dot ink" style="stroke-width:3" d="{spot(x, y)}"/>' for x, y in zip(xs, said, strict=True)]
    around = [
        draw_left_axis(ticks(values, 1000.0), "response time, ms; utilisation below"),
        draw_bottom_axis(loads.ticks()),
    ]
    legend = [("c1", "observed, held out"), ("c0", "observed, fitted on"), ("ink", "predicted")]
    return wrap(draw_plot(HIGH, marks, around, "Response times over utilisation"), legend)


def draw_dot(x: float, y: float, point: PredictedWindow) -> str:
    said = (
        f"observed {1000 * point.observed:.4g} ms, predicted {1000 * point.predicted:.4g} ms at utilisation "
        f"{point.utilisation:.2f}{', held out' if point.held_out else ''}"
    )
    style = "c1" if point.held_out else "c0"
    return f'<g><title>{said}</title><path class="dot {style}" d="{spot(x, y)}"/></g>'


def spot(x: float, y: float) -> str:
    return f"M{WIDE * min(1.0, max(0.0, x)):.1f} {place(y, HIGH)}h.01"
