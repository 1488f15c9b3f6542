"""Courses in, charts as HTML out: costs, response times against their bound, replicas under the arrivals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from scaler.model.kernel import Floats
from tuner.simulation.columns import Columns
from tuner.simulation.course import Course, OperatorCourse
from tuner.views.scale import Scale, Ticks, fit, fit_factors
from tuner.views.svg import (
    draw_band,
    draw_bottom_axis,
    draw_left_axis,
    draw_level,
    draw_line,
    draw_plot,
    draw_right_axis,
    draw_rug,
)

LOW, HIGH = 150, 210  # pixels
FAR_APART = 30.0  # from the least to the greatest value; beyond it, a scale by factors
COLOURS = 10
Legend = Sequence[tuple[str, str]]  # style, label


class Frame(NamedTuple):
    """What the charts of one trace share."""

    times: Ticks
    node_types: tuple[str, ...]


def draw_costs(frame: Frame, courses: Sequence[tuple[str, Course]], floor: float | None) -> str:
    """The cost of every policy, period by period."""
    period = courses[0][1].period
    highest = max(float(course.cost.max()) for _, course in courses)
    scale = fit(highest)
    marks = [
        draw_line(*stairs(course.cost_at, scale.share(course.cost)), HIGH, f"c{i % COLOURS}")
        for i, (_, course) in enumerate(courses)
    ]
    legend = [(f"c{i % COLOURS}", name) for i, (name, _) in enumerate(courses)]
    if floor is not None:
        marks.append(draw_level(float(scale.share(np.array(floor))), HIGH, "floor"))
        legend.append(("floor", "the floor: the least mean cost over the whole trace"))
    around = [draw_left_axis(scale.ticks(), f"cost per slot, mean of each {period}"), draw_bottom_axis(frame.times)]
    return wrap(draw_plot(HIGH, marks, around, "Cost of every policy over time"), legend)


def draw_cost(frame: Frame, course: Course) -> str:
    """One policy's cost: period by period, and the mean of all slots so far, which may begin beyond the plot."""
    scale = fit(max(float(course.cost.max()), float(course.running_cost[-1])))
    running = scale.share(course.running_cost)
    edges, steps = stairs(course.cost_at, scale.share(course.cost))
    marks = [
        draw_band(edges, np.zeros(len(edges)), steps, LOW, "soft c0"),
        draw_line(edges, steps, LOW, "thin c0"),
        draw_line(course.at, np.where(running > 1.0, np.nan, running), LOW, "strong ink"),
    ]
    around = [draw_left_axis(scale.ticks(), "cost per slot"), draw_bottom_axis(frame.times)]
    legend = [("area soft c0", f"mean of each {course.period}"), ("ink", "mean so far")]
    return wrap(draw_plot(LOW, marks, around, "Cost over time"), legend)


def stairs(edges: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Each value [D] held from its edge to the next [D + 1], as a line to draw."""
    return np.repeat(edges, 2)[1:-1], np.repeat(values, 2)


def draw_response(frame: Frame, at: Floats, response: Columns, bound: float, name: str) -> str:
    """Response times against the bound; infinite ones as strokes along the top, and counted."""
    scale = scale_responses(response, bound)
    low, mean, high = (scale.share(line) for line in (response.low, response.mean, response.high))
    marks = [
        draw_band(at, low, high, LOW, "soft c1"),
        draw_line(at, mean, LOW, "c1"),
        draw_level(float(scale.share(np.array(bound))), LOW, "bound"),
    ]
    legend = [("area soft c1", "least to greatest"), ("c1", "mean"), ("bound", f"bound, {1000.0 * bound:.4g} ms")]
    infinite = int(response.infinite.sum())
    if infinite > 0:
        marks.append(draw_rug(np.where(response.infinite > 0, at, np.nan), "alarm"))
        legend.append(("area alarm", f"infinite (overload) in {infinite:,} slot{'s' if infinite > 1 else ''}"))
    around = [draw_left_axis(scale.ticks(1000.0), "response time, ms"), draw_bottom_axis(frame.times)]
    return wrap(draw_plot(LOW, marks, around, f"Response time of {name}"), legend)


def scale_responses(response: Columns, bound: float) -> Scale:
    """A scale that shows the bound too, by factors where values lie far apart."""
    least = np.nanmin(np.append(response.low[response.low > 0.0], bound))
    greatest = np.nanmax(np.append(response.high, bound))
    return fit_factors(float(least), float(greatest)) if greatest > FAR_APART * least else fit(float(greatest))


def draw_replicas(frame: Frame, at: Floats, replicas: Floats, arrivals: Columns, name: str) -> str:
    """Replicas by node type upon each other, and the arrivals to a scale of their own."""
    stacked = np.cumsum(replicas, axis=1)
    scale = fit(float(stacked[:, -1].max()), 1.15)
    rates = fit(float(arrivals.high.max()), 1.15)
    below = np.column_stack([np.zeros(len(at)), stacked[:, :-1]])
    used = [i for i in range(replicas.shape[1]) if replicas[:, i].any()]
    marks = [draw_band(at, scale.share(below[:, i]), scale.share(stacked[:, i]), HIGH, f"c{i % COLOURS}") for i in used]
    marks.append(draw_band(at, rates.share(arrivals.low), rates.share(arrivals.high), HIGH, "soft ink"))
    marks.append(draw_line(at, rates.share(arrivals.mean), HIGH, "ink"))
    around = [
        draw_left_axis(scale.ticks(), "replicas"),
        draw_right_axis(rates.ticks(), "tuples per second"),
        draw_bottom_axis(frame.times),
    ]
    legend = [(f"area c{i % COLOURS}", frame.node_types[i]) for i in used]
    return wrap(draw_plot(HIGH, marks, around, f"Replicas of {name}"), [*legend, ("ink", "arrivals")])


def draw_operator(frame: Frame, at: Floats, operator: OperatorCourse) -> str:
    response = draw_response(frame, at, operator.response, operator.bound, operator.name)
    return response + draw_replicas(frame, at, operator.replicas, operator.arrivals, operator.name)


def draw_policy(frame: Frame, course: Course, r_max: float) -> str:
    """All charts of one policy; those of single operators folded away where there are several."""
    parts = [draw_cost(frame, course), draw_response(frame, course.at, course.response, r_max, "the slowest path")]
    total = np.sum([operator.replicas for operator in course.operators], axis=0)
    parts.append(draw_replicas(frame, course.at, total, course.arrivals, "the application"))
    if len(course.operators) > 1:
        parts += [
            f"<details><summary>Operator {escape(operator.name)}</summary>"
            f"{draw_operator(frame, course.at, operator)}</details>"
            for operator in course.operators
        ]
    return "".join(parts)


def wrap(plot: str, legend: Iterable[tuple[str, str]]) -> str:
    """A plot with its legend."""
    keys = "".join(f'<span><i class="{style}"></i>{escape(label)}</span>' for style, label in legend)
    return f'<figure>{plot}<figcaption class="legend">{keys}</figcaption></figure>'
