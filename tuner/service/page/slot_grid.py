"""Lay an application's decisions out on a grid of slots: rates, response times, bounds, replicas.

Notation: T slots of the time range, whether or not any operator reported in them; M operators; N node types.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.model.decision import read_counts
from scaler.model.kernel import Floats
from sim.application import Application, paths
from tuner.history.qos_history import QosFigures, load_slots, measure_qos
from tuner.scenario.layout import QoS
from tuner.service.page.address import TimeRange
from tuner.store.connection import Session
from tuner.store.decisions import find_utilisations, list_changes

RECENT_SLOTS = 60  # slots that "now" means
MAX_REPLICAS = 1_000_000  # of a node type: more is no count
MAX_DECISIONS = 100_000  # decisions that are read for charts; of a longer stretch the newest


Flags = NDArray[np.bool_]


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
    def slots(self) -> int:
        return len(self.slowest)

    @property
    def end(self) -> float:
        return self.start + self.slots * self.slot_s

    @property
    def known_slots(self) -> Flags:
        """Whether anything is known of each slot [T]."""
        replicas = np.isfinite(self.actual).any(axis=(1, 2))
        return np.asarray(np.isfinite(self.rate).any(axis=1) | replicas | np.isfinite(self.response).any(axis=1))

    @property
    def known(self) -> bool:
        return bool(self.known_slots.any())

    def cut(self, first: int, last: int) -> SlotGrid:
        """The slots from the first up to, and not with, the last; figures of the whole range stay."""
        names = ("rate", "response", "bound", "slowest", "actual", "wanted")
        grids: dict[str, Any] = {name: getattr(self, name)[first:last] for name in names}
        return replace(self, start=self.start + first * self.slot_s, **grids)


def find_data(known: Flags) -> tuple[int, int]:
    """The first known slot, and the one after the last, with a slot's room around them; all where none is known."""
    places = np.flatnonzero(known)
    return (max(0, int(places[0]) - 1), min(len(known), int(places[-1]) + 2)) if places.size else (0, len(known))


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
    except (ValueError, RecursionError):
        return None
