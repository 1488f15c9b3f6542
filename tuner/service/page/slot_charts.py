"""Chart an application's slots: response times, replicas running and recommended, the graph with utilisations.

A column stands for several slots. It shows the least and the greatest response time, and the deployments of its busiest
slot, so that no peak is lost however long the time range is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from markupsafe import Markup

from scaler.model.kernel import Floats, Integers
from scaler.model.units import format_duration, format_response, format_share
from sim.application import Application
from tuner.service.page.slot_series import RECENT_SLOTS, SlotGrid
from tuner.simulation.course import Columns, column_centres, column_starts, reduce_columns
from tuner.views.chart import Chart
from tuner.views.course_charts import MIN_COLUMNS, Frame, chart_replicas, chart_response, limit_columns
from tuner.views.graph import Bar, Box, draw_graph
from tuner.views.html_document import render


def draw_course(course: SlotGrid, r_max: float) -> Markup:
    """The whole application, then each operator, folded away."""
    operators = len(course.operators)
    charts = operators + 1 if operators > 1 else 1
    columns = limit_columns(charts * (4 + 3 + 2 * len(course.node_types)))
    frame = Frame(course.start, len(course.slowest) * course.slot_s, course.node_types)
    half, folded = max(MIN_COLUMNS, columns // 2), {}
    for i, name in enumerate(course.operators if operators > 1 else ()):
        bounds = course.bound[np.isfinite(course.bound[:, i]), i]
        folded[name] = list(list_charts(frame, course, half, float(bounds[-1]) if bounds.size else None, i))
    return render("course.html", charts=list(list_charts(frame, course, columns, r_max)), folded=folded)


def list_charts(
    frame: Frame, course: SlotGrid, columns: int, bound: float | None, operator: int | None = None
) -> Iterator[Chart]:
    """Response times, then replicas and arrival rate, of one operator or of the whole application; none unknown."""
    if operator is None:
        path, name, response = "the slowest path", "the application", course.slowest
        actual, wanted = course.actual.sum(axis=1), course.wanted.sum(axis=1)
        rate = course.rate[:, course.entries].sum(axis=1)
    else:
        path = name = course.operators[operator]
        response, rate = course.response[:, operator], course.rate[:, operator]
        actual, wanted = course.actual[:, operator], course.wanted[:, operator]
    starts = column_starts(len(rate), columns)
    at = column_centres(len(rate), starts)
    if bound is not None:
        yield chart_response(frame, at, thin(response, columns), bound, path)
    running, recommended = keep_peaks(actual, starts), keep_peaks(wanted, starts)
    if np.isfinite(running).any():
        yield chart_replicas(frame, at, running, thin(rate, columns), name, recommended)


def thin(values: Floats, columns: int) -> Columns:
    """Columns in which unknown values do not count as infinite."""
    found = reduce_columns(values, columns)
    starts = column_starts(len(values), columns)
    return replace(found, infinite=np.add.reduceat(np.isinf(values), starts, dtype=np.int64))


def keep_peaks(replicas: Floats, starts: Integers) -> Floats:
    """Of each column [C, N] the slot with the most replicas; NaN where none is known."""
    totals = np.where(np.isnan(replicas).any(axis=1), -1.0, replicas.sum(axis=1))
    ends = np.append(starts[1:], len(totals))
    return replicas[[first + int(totals[first:last].argmax()) for first, last in zip(starts, ends, strict=True)]]


def draw_live(shape: Application, course: SlotGrid, r_max: float) -> Markup:
    """The application's graph with each operator's share of R_max and its utilisation."""
    boxes = {name: draw_operator_box(course, i, r_max) for i, name in enumerate(course.operators)}
    described = "; ".join(describe_operator(course, i) for i in range(len(boxes)))
    legend = [
        ("area c2", "response time, as part of R_max"), ("area c1", "the same, over its bound"),
        ("area c3", "utilisation"),
    ]  # fmt: skip
    note = f"Means of the last {RECENT_SLOTS} slots. A full bar is R_max, {format_duration(r_max)}; a full utilisation "
    edges = [(e.upstream, e.downstream) for e in shape.edges]
    return draw_graph(boxes, edges, f"The application graph. {described}", legend, f"{note}bar is 100 %.")


def find_recent_mean(values: Floats) -> float | None:
    """The mean of what is known of the last slots; infinite where most of them were."""
    last = values[-RECENT_SLOTS:]
    last = last[~np.isnan(last)]
    if not last.size:
        return None
    finite = last[np.isfinite(last)]
    return math.inf if 2 * finite.size < last.size else float(finite.mean())


def describe_operator(course: SlotGrid, i: int) -> str:
    response, busy = find_recent_mean(course.response[:, i]), course.busy[i]
    took = "response time not known" if response is None else f"response time {format_response(response)}"
    return f"{course.operators[i]}: {took}, utilisation {'not known' if busy is None else format_share(busy)}"


def draw_operator_box(course: SlotGrid, i: int, r_max: float) -> Box:
    response, bound = find_recent_mean(course.response[:, i]), find_recent_mean(course.bound[:, i])
    busy = course.busy[i]
    late = response is not None and bound is not None and response > bound
    took = None if response is None else response / r_max
    held = "" if bound is None else f"; bound {format_duration(bound)}"
    bars = [
        Bar(clip_share(took), "c1" if late else "c2", format_response(response), format_share(took)),
        Bar(clip_share(busy), "c3", "busy", format_share(busy)),
    ]
    return Box(f"{describe_operator(course, i)}{held}", bars)


def clip_share(share: float | None) -> float:
    return 0.0 if share is None else min(1.0, max(0.0, share))
