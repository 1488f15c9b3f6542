"""Lay an application's decisions out on a grid of slots, and chart it: response times, replicas, the live graph.

A column stands for several slots. It shows the least and the greatest response time, and the deployments of its busiest
slot, so that no peak is lost however long the time range is.

Notation: T slots of the time range, whether or not any operator reported in them; M operators; N node types.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup

from scaler.model.decision import read_counts
from scaler.model.kernel import Floats, Integers
from scaler.model.task import name_quantile
from scaler.model.units import format_duration, format_response, format_share
from sim.application import Application, paths
from tuner.history.qos_history import QosFigures, load_slots, measure_qos
from tuner.scenario.layout import QoS
from tuner.service.page.address import TimeRange
from tuner.simulation.course import Columns, column_centres, column_starts, reduce_columns
from tuner.store.connection import Session
from tuner.store.decisions import find_utilisations, list_changes
from tuner.views.chart import Chart
from tuner.views.course_charts import MIN_COLUMNS, Frame, chart_replicas, chart_response, limit_columns
from tuner.views.graph import Bar, Box, draw_graph
from tuner.views.html_document import render

RECENT_SLOTS = 60  # slots that "now" means
MAX_REPLICAS = 1_000_000  # of a node type: more is no count
MAX_DECISIONS = 100_000  # decisions that are read for charts; of a longer stretch the newest


@dataclass(frozen=True, slots=True, eq=False)
class SlotGrid:
    """Observations on a grid of all slots; NaN where there is none."""

    start: float
    slot_s: float
    operators: tuple[str, ...]
    node_types: tuple[str, ...]
    rate: Floats  # [T, M]
    response: Floats  # [T, M]
    bound: Floats  # [T, M]
    slowest: Floats  # [T] of the slowest path
    actual: Floats  # [T, M, N] replicas that ran
    wanted: Floats  # [T, M, N] replicas that every recommendation would have led to at once
    busy: tuple[float | None, ...]  # [M] mean utilisation in the last slots
    observed: QosFigures
    entries: tuple[int, ...]  # the operators that nothing feeds

    @property
    def known(self) -> bool:
        return bool(np.isfinite(self.rate).any() or np.isfinite(self.actual).any())


def load_grid(session: Session, app: str, shape: Application, qos: QoS, window: TimeRange, slot_s: float) -> SlotGrid:
    operators = tuple(operator.name for operator in shape.operators)
    since = max(window.since, window.until - slot_s * (MAX_DECISIONS // max(1, len(operators))))
    window = TimeRange(since, window.until)
    start = math.floor(since / slot_s) * slot_s
    count = max(1, math.ceil((window.until - start) / slot_s))
    slots = load_slots(session, app, operators, window.since, window.until, slot_s)
    place = np.clip(np.rint((slots.time - start) / slot_s).astype(np.int64), 0, count - 1)
    rate, response, bound = (spread(grid, place, count) for grid in (slots.rate, slots.response, slots.bound))
    recently = max(window.since, window.until - RECENT_SLOTS * slot_s)
    busy = find_utilisations(session, app, operators, recently, window.until)
    types, actual, wanted = load_replicas(session, app, operators, window, start, slot_s, count)
    return SlotGrid(
        start,
        slot_s,
        operators,
        types,
        rate,
        response,
        bound,
        find_slowest(response, shape),
        actual,
        wanted,
        tuple(map(busy.get, operators)),
        measure_qos(slots, shape, qos),
        tuple(i for i, name in enumerate(operators) if all(edge.downstream != name for edge in shape.edges)),
    )


def spread(grid: Floats, place: np.ndarray, count: int) -> Floats:
    """Rows of the slots that were reported on all slots."""
    whole = np.full((count, *grid.shape[1:]), math.nan)
    whole[place] = grid
    return whole


def find_slowest(response: Floats, shape: Application) -> Floats:
    """Of every slot, the longest that a path took; not known where an operator on it is not."""
    sums = [response[:, list(path)].sum(axis=1) for path in paths(shape)]
    return np.asarray(np.fmax.reduce(sums))


def load_replicas(
    session: Session, app: str, operators: tuple[str, ...], window: TimeRange, start: float, slot_s: float, count: int
) -> tuple[tuple[str, ...], Floats, Floats]:
    """Node types, and the running and recommended replicas of each operator; each different document is read once."""
    rows = list_changes(session, app, operators, window.since, window.until)
    times, names, changes, texts = zip(*rows, strict=True) if rows else ([],) * 4
    kinds: dict[tuple[str | None, str | None], int] = {}
    code = np.array([kinds.setdefault(kind, len(kinds)) for kind in zip(texts, changes, strict=True)], dtype=np.int64)
    types = {name: i for i, name in enumerate(dict.fromkeys(n for text, _ in kinds for n, _ in read_deployment(text)))}
    table = np.array([lay_out_replicas(text, change, types) for text, change in kinds])
    table = table.reshape(len(kinds), 2, len(types))
    number = {name: i for i, name in enumerate(operators)}
    slot = np.clip(np.rint((np.array(times) - start) / slot_s).astype(np.int64), 0, count - 1)
    m = np.array([number[name] for name in names], dtype=np.int64)
    grids = np.full((2, count, len(operators), len(types)), math.nan)
    grids[:, slot, m] = table[code].swapaxes(0, 1)
    return tuple(types), grids[0], grids[1]


def lay_out_replicas(text: str | None, change: str | None, types: dict[str, int]) -> tuple[Floats, Floats]:
    """Running and recommended replicas by type [N]; NaN where the decision does not hold them."""
    stated = read_deployment(text)
    row = np.full(len(types), 0.0 if stated else math.nan)
    for name, replicas in stated:
        row[types[name]] = replicas
    after = row.copy()
    for name, delta in read_counts(read_document(change)).items():
        if name in types:
            after[types[name]] = max(0.0, after[types[name]] + delta)
    return row, after


def read_deployment(text: str | None) -> tuple[tuple[str, float], ...]:
    """Replicas by node type, as far as they are counts."""
    return tuple((name, float(n)) for name, n in read_counts(read_document(text)).items() if 0 <= n < MAX_REPLICAS)


def read_document(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


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
    running, recommended = select_peaks(actual, starts), select_peaks(wanted, starts)
    if np.isfinite(running).any():
        yield chart_replicas(frame, at, running, thin(rate, columns), name, recommended)


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
