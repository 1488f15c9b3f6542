"""Plot an operator's predicted against its observed response times, as characters or as charts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scaler.model.kernel import Floats
from tuner.surrogate.surrogate import PredictedWindow
from tuner.views.chart import TALL, Axis, Chart, Series
from tuner.views.scale import Scale

ACROSS, DOWN = 56, 14  # characters
MAX_OUTLIER = 4.0  # times the 99 % quantile, above which a point is drawn at the edge


def list_shown(points: Sequence[PredictedWindow]) -> list[PredictedWindow]:
    """Those with a finite prediction, those fitted on first so that held-out ones lie on top."""
    finite = [point for point in points if math.isfinite(point.predicted) and point.observed > 0.0]
    return sorted(finite, key=lambda point: point.held_out)


def choose_scale(values: Floats) -> Scale:
    """From a little below the least to a little above the greatest that is no outlier; logarithmic where far apart."""
    low, high = float(values.min()), min(float(values.max()), MAX_OUTLIER * float(np.quantile(values, 0.99)))
    if low > 0.0 and high > 8.0 * low:
        return Scale(low / 1.1, high * 1.1, True)
    room = 0.06 * (high - low) or 0.05 * high or 1.0
    return Scale(max(0.0, low - room), high + room)


def draw_text(points: Sequence[PredictedWindow], ascii_only: bool = False) -> str:
    """A scatter for a terminal: predicted upwards, observed to the right, the diagonal where both are equal."""
    some = list_shown(points)
    if not some:
        return "  (no window with a response time was predicted)"
    fitted, held, even = (".", "o", "/") if ascii_only else ("·", "●", "-")
    scale = choose_scale(np.array([[p.observed, p.predicted] for p in some]))
    grid = [[" "] * ACROSS for _ in range(DOWN)]
    for i in range(ACROSS):
        grid[DOWN - 1 - min(DOWN - 1, i * DOWN // ACROSS)][i] = even
    for point in some:
        x, y = scale.within(point.observed), scale.within(point.predicted)
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
    """Predicted against observed, as a figure."""
    some = sorted(list_shown(points), key=lambda point: point.observed)
    if not some:
        return ""
    scale = choose_scale(np.array([[p.observed, p.predicted] for p in some]))
    milliseconds = make_axis("predicted response time, ms; observed across", scale)
    observed = place(scale, [p.observed for p in some])
    predicted = place(scale, [p.predicted for p in some])
    ends = 1000.0 * np.array([scale.low, scale.high])
    x, between = np.concatenate([ends[:1], observed, ends[1:]]), np.array([np.nan])
    held = np.array([p.held_out for p in some])
    series = [
        Series("predicted as observed", x, "faint", dashed=True),
        *(
            Series(
                label, np.concatenate([between, np.where(side, predicted, np.nan), between]), colour, "dot", width=6.0
            )
            for label, side, colour in (("windows fitted on", ~held, "c0"), ("held-out windows", held, "c1"))
        ),
    ]
    across = make_axis("observed", scale)
    return Chart("Predicted against observed response times", x, across, milliseconds, series, height=TALL).render()


def draw_course(points: Sequence[PredictedWindow]) -> str:
    """Response times over utilisation: observed in each window, and predicted for it."""
    some = sorted(list_shown(points), key=lambda point: point.utilisation)
    if not some:
        return ""
    scale = choose_scale(np.array([[p.observed, p.predicted] for p in some]))
    observed = place(scale, [p.observed for p in some])
    held = np.array([p.held_out for p in some])
    series = [
        Series("observed, fitted on", np.where(held, np.nan, observed), "c0", "dot", width=6.0),
        Series("observed, held out", np.where(held, observed, np.nan), "c1", "dot", width=6.0),
        Series("predicted", place(scale, [p.predicted for p in some]), "ink", "dot", width=3.0),
    ]
    x = np.array([p.utilisation for p in some])
    across = Axis("utilisation", low=0.0, high=max(1.0, 1.05 * float(x.max())))
    left = make_axis("response time, ms; utilisation across", scale)
    return Chart("Response times over utilisation", x, across, left, series, height=TALL).render()


def make_axis(label: str, scale: Scale) -> Axis:
    """The scale in milliseconds."""
    return Axis(label, logarithmic=scale.by_factors, low=1000.0 * scale.low, high=1000.0 * scale.high)


def place(scale: Scale, seconds: Sequence[float]) -> Floats:
    """In milliseconds, outliers at the edge."""
    return 1000.0 * np.clip(np.array(seconds), scale.low, scale.high)
