"""Chart an application's decisions and batches: response times, replicas, input rate, batch duration, backlog.

A column stands for several slots. It shows the least and the greatest response time, and the deployments of its busiest
slot, so that no peak is lost however long the time range is. What is not known is a gap.

Notation: T slots, M operators, C columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scaler.model.kernel import Floats, Integers
from tuner.service.page.batch_grid import BatchGrid
from tuner.service.page.slot_grid import SlotGrid
from tuner.simulation.course import Columns, column_centres, column_starts, reduce_columns
from tuner.views.chart import COLOURS, Axis, Chart, Mark, Series
from tuner.views.course_charts import MIN_COLUMNS, Frame, chart_replicas, chart_response, limit_columns

SLOT_LINES, BATCH_LINES = 7, 6  # of the charts of one operator, besides two for each node type


@dataclass(frozen=True, slots=True)
class CourseCharts:
    """The whole application, its batches by operator, then each operator by itself."""

    whole: Sequence[Chart]
    batches: Sequence[Chart]
    folded: Mapping[str, Sequence[Chart]]


def chart_course(course: SlotGrid, batches: BatchGrid, r_max: float, marks: Sequence[Mark] = ()) -> CourseCharts:
    """All charts of one time range; they share their cursor, their zoom and their marks."""
    operators = len(course.operators)
    several = operators > 1
    lines = SLOT_LINES + 2 * len(course.node_types) + BATCH_LINES
    columns = limit_columns(lines * (operators + 1 if several else 1))
    frame = Frame(course.start, course.slots * course.slot_s, course.node_types)
    half = max(MIN_COLUMNS, columns // 2)
    folded = {}
    for i, name in enumerate(course.operators if several else ()):
        bounds = course.bound[np.isfinite(course.bound[:, i]), i]
        bound = float(bounds[-1]) if bounds.size else None
        own = [*list_charts(frame, course, half, bound, i), *chart_batches(frame, batches, half, [i])]
        if own:
            folded[name] = mark_charts(own, marks)
    return CourseCharts(
        mark_charts(list_charts(frame, course, columns, r_max), marks),
        mark_charts(chart_batches(frame, batches, columns, range(min(operators, COLOURS))), marks),
        folded,
    )


def mark_charts(charts: Iterator[Chart] | Sequence[Chart], marks: Sequence[Mark]) -> list[Chart]:
    return [replace(chart, marks=tuple(marks)) for chart in charts]


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
    if bound is not None and np.isfinite(response).any():
        yield chart_response(frame, at, thin(response, columns), bound, path)
    running, recommended = select_peaks(actual, starts), select_peaks(wanted, starts)
    if np.isfinite(running).any():
        yield chart_replicas(frame, at, running, thin(rate, columns), name, recommended)


def chart_batches(frame: Frame, batches: BatchGrid, columns: int, operators: Sequence[int]) -> Iterator[Chart]:
    """Input and processing rate, batch duration and backlog, as on Spark's own page; none where all is unknown."""
    slots = len(batches.arrival)
    starts = column_starts(slots, columns)
    at = column_centres(slots, starts)
    names = [batches.operators[i] for i in operators]
    of = names[0] if len(names) == 1 else "every operator"

    def draw(title: str, unit: str, kinds: Sequence[tuple[str, Floats, bool]]) -> Iterator[Chart]:
        series = [
            Series(f"{label}{name}", thin(grid[:, i], columns).mean, f"c{k % COLOURS}", dashed=dashed)
            for label, grid, dashed in kinds
            for k, (i, name) in enumerate(zip(operators, names, strict=True))
            if np.isfinite(grid[:, i]).any()
        ]
        if series:
            yield frame.chart(f"{title} of {of}", at, Axis(f"{title.lower()}, {unit}"), series)

    rates = [("input, ", batches.arrival, False), ("processing, ", batches.processing, True)]
    yield from draw("Input and processing rate", "tuples per second", rates)
    yield from draw("Batch duration", "s", [("", batches.duration, False)])
    yield from draw("Backlog", "tuples", [("", batches.lag, False)])


def thin(values: Floats, columns: int) -> Columns:
    """Columns in which unknown values do not count as infinite."""
    found = reduce_columns(values, columns)
    starts = column_starts(len(values), columns)
    return replace(found, infinite=np.add.reduceat(np.isinf(values), starts, dtype=np.int64))


def select_peaks(replicas: Floats, starts: Integers) -> Floats:
    """Of each column [C, N] the slot with the most replicas; NaN where none is known."""
    totals = np.where(np.isnan(replicas).any(axis=1), -1.0, replicas.sum(axis=1))
    ends = np.append(starts[1:], len(totals))
    return replicas[[first + int(totals[first:last].argmax()) for first, last in zip(starts, ends, strict=True)]]
