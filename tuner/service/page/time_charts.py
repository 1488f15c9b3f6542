"""A course in; its charts as HTML out: response times against the bound, replicas wanted over those there were.

A column of pixels stands for several slots. It shows the least and the greatest response time, and the deployments of
its busiest slot, so that no peak is lost however long the stretch is.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from html import escape

import numpy as np

from scaler.model.kernel import Floats
from tuner.service.page.slot_series import Course
from tuner.simulation.columns import Columns, centres, cut, gather
from tuner.views.charts import COLOURS, HIGH, Frame, draw_response, wrap
from tuner.views.html_page import BYTES_PER_POINT, MOST_CHART_BYTES, NARROW, WIDE
from tuner.views.scale import fit, time_ticks
from tuner.views.svg import draw_band, draw_bottom_axis, draw_left_axis, draw_line, draw_plot, draw_right_axis


def draw_course(course: Course, r_max: float) -> str:
    """The whole application, then each operator, folded away."""
    frame, columns = make_frame(course), choose_columns(course)
    parts = [draw_times(frame, course.slowest, r_max, "the slowest path", columns)]
    parts.append(draw_wanted(course, None, columns))
    half = max(NARROW, columns // 2)
    if len(course.operators) > 1:
        parts += [
            f"<details><summary>Operator {escape(name)}</summary>{draw_operator(course, i, frame, half)}</details>"
            for i, name in enumerate(course.operators)
        ]
    return "".join(parts)


def draw_operator(course: Course, i: int, frame: Frame, columns: int) -> str:
    bounds = course.bound[:, i][np.isfinite(course.bound[:, i])]
    if not bounds.size:
        return draw_wanted(course, i, columns)
    times = draw_times(frame, course.response[:, i], float(bounds[-1]), course.operators[i], columns)
    return times + draw_wanted(course, i, columns)


def make_frame(course: Course) -> Frame:
    start = datetime.fromtimestamp(course.start, UTC)
    return Frame(time_ticks(start, len(course.slowest) * course.slot_s), course.node_types)


def choose_columns(course: Course) -> int:
    """As many as a page has pixels, fewer where many operators would make it too long."""
    charts = len(course.operators) + 1 if len(course.operators) > 1 else 1
    lines = charts * (3 + 3 + 3 * len(course.node_types))
    return max(NARROW, min(WIDE, MOST_CHART_BYTES // (BYTES_PER_POINT * lines)))


def draw_times(frame: Frame, response: Floats, bound: float, name: str, columns: int) -> str:
    at = centres(len(response), cut(len(response), columns))
    return draw_response(frame, at, thin(response, columns), bound, name)


def thin(values: Floats, columns: int) -> Columns:
    """Columns in which what is not known is not taken for infinite."""
    found = gather(values, columns)
    return replace(found, infinite=np.add.reduceat(np.isinf(values), cut(len(values), columns), dtype=np.int64))


def draw_wanted(course: Course, operator: int | None, columns: int) -> str:
    """Replicas by node type upon each other, lines where the recommended ones lie, and the rate to its own scale."""
    name = "the application" if operator is None else course.operators[operator]
    actual, wanted, rate = choose(course, operator)
    starts = cut(len(rate), columns)
    at, arrivals = centres(len(rate), starts), thin(rate, columns)
    there, asked = (np.cumsum(keep_peaks(grid, starts), axis=1) for grid in (actual, wanted))
    if not np.isfinite(there).any():
        return ""
    scale = fit(float(np.nanmax(np.maximum(np.nan_to_num(there), np.nan_to_num(asked)))), 1.15)
    rates = fit(float(np.nanmax(np.append(arrivals.high, 0.0))), 1.15)
    below = np.column_stack([np.zeros(len(at)), there[:, :-1]])
    below[np.isnan(there)] = np.nan
    used = [i for i in range(there.shape[1]) if np.nansum(actual[:, i]) + np.nansum(wanted[:, i]) > 0.0]
    marks = [
        draw_band(at, scale.share(below[:, i]), scale.share(there[:, i]), HIGH, f"had c{i % COLOURS}") for i in used
    ]
    marks += [draw_line(at, scale.share(asked[:, i]), HIGH, f"wanted c{i % COLOURS}") for i in used]
    marks.append(draw_band(at, rates.share(arrivals.low), rates.share(arrivals.high), HIGH, "soft ink"))
    marks.append(draw_line(at, rates.share(arrivals.mean), HIGH, "thin ink"))
    around = [
        draw_left_axis(scale.ticks(), "replicas"),
        draw_right_axis(rates.ticks(), "tuples per second"),
        draw_bottom_axis(make_frame(course).times),
    ]
    legend = [(f"area had c{i % COLOURS}", f"{course.node_types[i]}, there") for i in used]
    legend += [(f"wanted c{i % COLOURS}", f"{course.node_types[i]}, recommended") for i in used]
    said = f"Replicas of {name} by node type, recommended and there, on the arrival rate"
    return wrap(draw_plot(HIGH, marks, around, said), [*legend, ("ink", "arrivals")])


def choose(course: Course, operator: int | None) -> tuple[Floats, Floats, Floats]:
    """Replicas [T, N] there and wanted, and the rate [T], of one operator, or of all with what comes to the sources."""
    if operator is not None:
        return course.actual[:, operator], course.wanted[:, operator], course.rate[:, operator]
    return course.actual.sum(axis=1), course.wanted.sum(axis=1), course.rate[:, course.entries].sum(axis=1)


def keep_peaks(replicas: Floats, starts: np.ndarray) -> Floats:
    """Of each column [C, N] the slot with the most replicas; NaN where none is known."""
    totals = np.where(np.isnan(replicas).any(axis=1), -1.0, replicas.sum(axis=1))
    ends = np.append(starts[1:], len(totals))
    return replicas[[first + int(totals[first:last].argmax()) for first, last in zip(starts, ends, strict=True)]]
