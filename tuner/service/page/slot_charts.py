"""Chart an application's slots: response times, replicas running and recommended, the graph with utilisations.

A column stands for several slots. It shows the least and the greatest response time, and the deployments of its busiest
slot, so that no peak is lost however long the time range is.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from markupsafe import Markup

from scaler.model.kernel import Floats, Integers
from scaler.model.units import format_duration, format_response, format_share
from sim.application import Application
from tuner.service.page.slot_series import RECENT_SLOTS, SlotGrid
from tuner.simulation.course import Columns, column_centres, column_starts, reduce_columns
from tuner.views.course_charts import (
    MIN_COLUMNS,
    Frame,
    chart_replicas,
    chart_response,
    fold_operator,
    limit_columns,
)
from tuner.views.graph import Bar, Box, draw_graph


def draw_course(course: SlotGrid, r_max: float) -> Markup:
    """The whole application, then each operator, folded away."""
    operators = len(course.operators)
    charts = operators + 1 if operators > 1 else 1
    columns = limit_columns(charts * (4 + 3 + 2 * len(course.node_types)))
    frame = Frame(course.start, len(course.slowest) * course.slot_s, course.node_types)
    figures = draw_response(frame, course.slowest, r_max, "the slowest path", columns)
    figures += draw_replicas(frame, course, None, columns)
    if operators > 1:
        half = max(MIN_COLUMNS, columns // 2)
        figures += Markup("").join(
            fold_operator(name, chart_operator(frame, course, i, half)) for i, name in enumerate(course.operators)
        )
    return figures


def chart_operator(frame: Frame, course: SlotGrid, i: int, columns: int) -> Markup:
    bounds = course.bound[:, i][np.isfinite(course.bound[:, i])]
    replicas = draw_replicas(frame, course, i, columns)
    if not bounds.size:
        return replicas
    return draw_response(frame, course.response[:, i], float(bounds[-1]), course.operators[i], columns) + replicas


def draw_response(frame: Frame, response: Floats, bound: float, name: str, columns: int) -> Markup:
    at = column_centres(len(response), column_starts(len(response), columns))
    return chart_response(frame, at, thin(response, columns), bound, name).render()


def thin(values: Floats, columns: int) -> Columns:
    """Columns in which unknown values do not count as infinite."""
    found = reduce_columns(values, columns)
    starts = column_starts(len(values), columns)
    return replace(found, infinite=np.add.reduceat(np.isinf(values), starts, dtype=np.int64))


def draw_replicas(frame: Frame, course: SlotGrid, operator: int | None, columns: int) -> Markup:
    """Replicas by node type and the arrival rate, of one operator or of the whole application."""
    name = "the application" if operator is None else course.operators[operator]
    actual, wanted, rate = choose(course, operator)
    starts = column_starts(len(rate), columns)
    running, recommended = keep_peaks(actual, starts), keep_peaks(wanted, starts)
    if not np.isfinite(running).any():
        return Markup("")
    at = column_centres(len(rate), starts)
    return chart_replicas(frame, at, running, thin(rate, columns), name, recommended).render()


def choose(course: SlotGrid, operator: int | None) -> tuple[Floats, Floats, Floats]:
    """Replicas [T, N] running and recommended, and the rate [T]; of the application, the rate of its sources."""
    if operator is not None:
        return course.actual[:, operator], course.wanted[:, operator], course.rate[:, operator]
    return course.actual.sum(axis=1), course.wanted.sum(axis=1), course.rate[:, course.entries].sum(axis=1)


def keep_peaks(replicas: Floats, starts: Integers) -> Floats:
    """Of each column [C, N] the slot with the most replicas; NaN where none is known."""
    totals = np.where(np.isnan(replicas).any(axis=1), -1.0, replicas.sum(axis=1))
    ends = np.append(starts[1:], len(totals))
    return replicas[[first + int(totals[first:last].argmax()) for first, last in zip(starts, ends, strict=True)]]


def draw_live(shape: Application, course: SlotGrid, r_max: float) -> Markup:
    """The application's graph with each operator's share of R_max and its utilisation."""
    boxes = {name: draw_operator_box(course, i, r_max) for i, name in enumerate(course.operators)}
    described = "; ".join(describe_operator(course, i, r_max) for i in range(len(boxes)))
    legend = [("area c2", "response time, as part of R_max"), ("area c1", "the same, over its bound")]
    edges = [(e.upstream, e.downstream) for e in shape.edges]
    drawing = draw_graph(boxes, edges, f"The application graph. {described}", [*legend, ("area c3", "utilisation")])
    return Markup(
        '<p class="faint">Means of the last {} slots. A full bar is R_max, {}; a full utilisation bar is 100 %.</p>'
        '<div class="wide drawn" tabindex="0">{}</div>'
    ).format(RECENT_SLOTS, format_duration(r_max), drawing)


def find_recent_mean(values: Floats) -> float | None:
    """The mean of what is known of the last slots; infinite where most of them were."""
    last = values[-RECENT_SLOTS:]
    last = last[~np.isnan(last)]
    if not last.size:
        return None
    finite = last[np.isfinite(last)]
    return math.inf if 2 * finite.size < last.size else float(finite.mean())


def describe_operator(course: SlotGrid, i: int, r_max: float) -> str:
    response, busy = find_recent_mean(course.response[:, i]), course.busy[i]
    took = "response time not known" if response is None else f"response time {format_response(response)}"
    return f"{course.operators[i]}: {took}, utilisation {'not known' if busy is None else format_share(busy)}"


def draw_operator_box(course: SlotGrid, i: int, r_max: float) -> Box:
    response, bound, busy = (
        find_recent_mean(course.response[:, i]),
        find_recent_mean(course.bound[:, i]),
        course.busy[i],
    )
    late = response is not None and bound is not None and response > bound
    took = None if response is None else response / r_max
    held = "" if bound is None else f"; bound {format_duration(bound)}"
    bars = [
        Bar(clip_share(took), "c1" if late else "c2", format_response(response), format_share(took)),
        Bar(clip_share(busy), "c3", "busy", format_share(busy)),
    ]
    return Box(f"{describe_operator(course, i, r_max)}{held}", bars)


def clip_share(share: float | None) -> float:
    return 0.0 if share is None else min(1.0, max(0.0, share))
