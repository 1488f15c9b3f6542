"""Arrange folded samples as columns of each operator's windows, and find those that are no steady state.

Response times tell of an outage or a reconfiguration, not of a load, in windows with a backlog or a change of replicas
and in those after them. Notation: W windows in order of time, N node types; NaN where nobody knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.model.errors import BadInput
from scaler.model.kernel import Floats
from scaler.model.sample import EVIDENCE, Sample
from scaler.model.sketch import find_quantile
from tuner.pipeline.sources.sample_schema import merge_types

Flags = NDArray[np.bool_]
Sketches = NDArray[np.object_]
RECORDS = ("service_n", "service_sum", "service_squares")
TASKS = ("task_n", "task_records", "task_time", "task_inverse", "task_rates", "task_squares")
BY_TYPE = ("replicas", "tuples_in", "busy", *RECORDS, *TASKS)
UNNAMED = ""  # the node type of what ran on nobody knows which
INTERVALS = 3.0  # of arrivals that may wait at any time where tuples are taken in batches
SHARE = 0.1  # of a window's arrivals that may wait at its end, whatever else
MOVED = 0.25  # of a replica
SETTLING_S = 30.0  # what a move or a backlog may still be felt for
FORGIVEN = 0.02  # of a window's arrivals, by which the two counts may disagree for ever


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """One operator's windows; columns of the whole operator [W], and by node type [W, N]."""

    operator: str
    evidence: tuple[str, ...]
    node_types: tuple[str, ...]
    by_type: dict[str, Floats]  # the columns of BY_TYPE
    start: Floats
    end: Floats
    completeness: Floats
    arrived: Floats
    tuples_in: Floats
    tuples_out: Floats
    backlog: Floats
    busy: Floats
    batches: Floats
    batch_time: Floats
    batch_interval: Floats
    state_rows: Floats
    state_bytes: Floats
    state_partitions: Floats
    store_loads: Floats
    store_load_time: Floats
    response_n: Floats
    response_sum: Floats
    responses: Sketches  # [W] of response times, None where unknown

    @property
    def rate(self) -> Floats:
        """Tuples per second that came, or were taken in where nobody counted those that came."""
        came = np.where(np.isnan(self.arrived), self.tuples_in, self.arrived)
        return divide(came, self.length * self.completeness)

    @property
    def length(self) -> Floats:
        return self.end - self.start

    @property
    def response(self) -> Floats:
        """Mean response time; NaN where none was seen."""
        return divide(self.response_sum, self.response_n)

    def response_at(self, quantile: float) -> Floats:
        """Quantile of response times; NaN where unknown."""
        found = (find_quantile(sketch, quantile) for sketch in self.responses)
        return np.array([math.nan if time is None else time for time in found], dtype=np.float64)

    @property
    def replicas(self) -> Floats:
        """Replicas by node type [W, N], 0 where a type had none; the last known ones where a window has none."""
        table = self.by_type["replicas"]
        known = ~self.replicas_unknown
        last = np.maximum.accumulate(np.where(known, np.arange(known.size), -1))
        return np.where(last[:, None] >= 0, np.nan_to_num(table)[last], np.nan)

    @property
    def replicas_unknown(self) -> Flags:
        """Windows in which the number of replicas is unknown [W]."""
        return np.logical_and.reduce(np.isnan(self.by_type["replicas"]), axis=1)


def divide(upper: Floats, lower: Floats) -> Floats:
    """NaN where nothing is known, or there is nothing to divide by."""
    return np.divide(upper, lower, out=np.full(upper.shape, np.nan), where=lower > 0.0)


def build_windows(samples: Iterable[Sample]) -> dict[str, Windows]:
    """Every operator's windows, by name."""
    parts: dict[str, list[Sample]] = {}
    for sample in samples:
        parts.setdefault(sample.operator, []).append(sample)
    return {name: line_up(name, parts[name]) for name in sorted(parts)}


def line_up(operator: str, samples: list[Sample]) -> Windows:
    check_folded(operator, samples)
    wholes = merge_types(samples)
    types = sorted({s.node_type or UNNAMED for s in samples})
    row = {(s.start, s.end): i for i, s in enumerate(wholes)}
    column = {name: j for j, name in enumerate(types)}
    at = [row[s.start, s.end] for s in samples], [column[s.node_type or UNNAMED] for s in samples]
    tables = {name: np.full((len(wholes), len(types)), np.nan) for name in BY_TYPE}
    for name, table in tables.items():
        table[at] = list_known(samples, name)
    return Windows(
        operator,
        tuple(name for name in EVIDENCE if any(s.evidence == name for s in samples)),
        tuple(types),
        {**tables, "replicas": name_replicas(tables["replicas"], types)},
        responses=list_sketches(wholes),
        **{column.name: list_known(wholes, column.name) for column in fields(Windows) if column.type == "Floats"},
    )


def list_sketches(samples: list[Sample]) -> Sketches:
    sketches = np.empty(len(samples), dtype=np.object_)
    sketches[:] = [sample.responses for sample in samples]
    return sketches


def list_known(samples: list[Sample], column: str) -> Floats:
    values = map(attrgetter(column), samples)
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def name_replicas(table: Floats, types: list[str]) -> Floats:
    """Replicas without a node type count where no named ones are known."""
    if UNNAMED not in types or len(types) == 1:
        return table
    rest = [name != UNNAMED for name in types]
    known = np.logical_not(np.isnan(table[:, rest]).all(axis=1))
    return np.where(np.logical_and.outer(known, np.logical_not(rest)), np.nan, table)


def check_folded(operator: str, samples: list[Sample]) -> None:
    seen = set()
    for s in samples:
        place = (s.start, s.end, s.node_type or UNNAMED)
        if place in seen:
            raise BadInput(
                f"operator {operator!r}: there are two samples of the window that starts at {s.start:.10g} on node "
                f"type {s.node_type!r}, and must be one; fold the samples first"
            )
        seen.add(place)
        if not s.end > s.start:
            raise BadInput(f"operator {operator!r}: a window ends at {s.end:.10g}, and must end after {s.start:.10g}")


def filter_windows(windows: Windows, which: Flags) -> Windows:
    """Some of the windows."""
    cut: dict[str, Any] = {
        f.name: value[which] for f in fields(windows) if isinstance(value := getattr(windows, f.name), np.ndarray)
    }
    return replace(windows, **cut, by_type={name: table[which] for name, table in windows.by_type.items()})


def find_backlog(windows: Windows) -> Flags:
    """Windows that end with more waiting than the rhythm of batches and the responses explain, and those after them."""
    rate, interval = windows.rate, find_median(divide(windows.batch_interval, windows.batches))
    waiting = np.where(np.isnan(windows.backlog), add_up_debt(windows), windows.backlog)
    usual = np.fmax(INTERVALS * rate * max(interval, find_median(windows.response)), SHARE * rate * windows.length)
    return settle(waiting > usual, windows)


def find_median(values: Floats) -> float:
    """The median of what is known; 0 where nothing is."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size else 0.0


def settle(odd: Flags, windows: Windows) -> Flags:
    """These windows, and each that follows one or begins within SETTLING_S of its end."""
    last = np.maximum.accumulate(np.where(odd, windows.end, -math.inf))
    before = np.append(-math.inf, last[:-1])
    near = windows.start <= before + SETTLING_S
    return odd | near[: odd.size] | (follows(windows) & np.append(False, odd[:-1]))[: odd.size]


def follows(windows: Windows) -> Flags:
    """Windows that begin where the one before ends."""
    return np.append(False, np.isclose(windows.start[1:], windows.end[:-1]))


def find_changes(windows: Windows) -> Flags:
    """Windows in which replicas came, went or moved or anything began, also after a gap, and those after them."""
    counts = np.nan_to_num(windows.replicas)
    moved = np.append(False, (np.abs(np.diff(counts, axis=0)) > MOVED).any(axis=1))
    return settle(moved | ~follows(windows), windows)


def add_up_debt(windows: Windows) -> Floats:
    """What came and was not taken in, window upon window, where nobody counts what waits; a share of it is forgiven."""
    short = np.nan_to_num(windows.arrived - windows.tuples_in)
    forgiven, joined = FORGIVEN * np.nan_to_num(windows.arrived), follows(windows)
    debt = np.zeros(short.size)
    for i in range(short.size):
        debt[i] = max(0.0, (debt[i - 1] if joined[i] else 0.0) + short[i] - forgiven[i])
    return debt
