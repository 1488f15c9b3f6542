"""Draw the application's graph with what its agents see now: response time, bound and utilisation of each operator."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup

from scaler.model.kernel import Floats
from scaler.model.task import name_quantile
from scaler.model.units import format_duration, format_response, format_share
from sim.application import Application
from tuner.service.page.slot_grid import RECENT_SLOTS, SlotGrid
from tuner.views.graph import Bar, Box, draw_graph


def draw_live(shape: Application, course: SlotGrid, r_max: float, quantile: float | None = None) -> Markup:
    """The application's graph with each operator's share of R_max and its utilisation."""
    boxes = {name: draw_operator_box(course, i, r_max) for i, name in enumerate(course.operators)}
    described = "; ".join(describe_operator(course, i) for i in range(len(boxes)))
    legend = [
        ("area c2", "response time, as part of R_max"), ("area c1", "the same, over its bound"),
        ("area c3", "utilisation"),
    ]  # fmt: skip
    which = "" if quantile is None else f"; response times are each slot's {name_quantile(quantile)}"
    full = f"{format_duration(r_max)} ({name_quantile(quantile)})"
    note = f"Means of the last {RECENT_SLOTS} slots{which}. A full bar is R_max, {full}; a full utilisation "
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
