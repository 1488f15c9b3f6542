"""Lay an application's samples out on its grid of slots: input rate, processing rate, batch duration, lag.

Agents report a sample a slot, and `tuner ingest` reads them from Spark's logs. NaN is what no sample knows, as where no
batch ended in a slot.

Notation: T slots, M operators.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from scaler.model.kernel import Floats
from tuner.service.page.slot_grid import Flags, SlotGrid
from tuner.store.connection import Session
from tuner.store.samples import list_batch_figures


@dataclass(frozen=True, slots=True, eq=False)
class BatchGrid:
    operators: tuple[str, ...]
    arrival: Floats  # [T, M] tuples per second that arrived
    processing: Floats  # [T, M] tuples per second while batches ran
    duration: Floats  # [T, M] mean seconds from trigger to commit
    lag: Floats  # [T, M] tuples that waited at the end

    @property
    def known_slots(self) -> Flags:
        grids = (self.arrival, self.processing, self.duration, self.lag)
        return np.asarray(np.logical_or.reduce([np.isfinite(grid).any(axis=1) for grid in grids]))

    def cut(self, first: int, last: int) -> BatchGrid:
        """The slots from the first up to, and not with, the last."""
        names = ("arrival", "processing", "duration", "lag")
        return replace(self, **{name: getattr(self, name)[first:last] for name in names})


def load_batches(session: Session, app: str, course: SlotGrid) -> BatchGrid:
    """The samples of the course's operators on its slots; of a window longer than a slot, in every slot of it."""
    shape = (course.slots, len(course.operators))
    number = {name: i for i, name in enumerate(course.operators)}
    rows = list_batch_figures(session, app, course.operators, course.start, course.end)
    m = np.array([number[row[0]] for row in rows], dtype=np.int64)
    table = np.array([row[1:] for row in rows], dtype=np.float64).reshape(len(rows), 8)  # None becomes NaN
    start, end, arrived, tuples, backlog, batches, batch_time, completeness = table.T
    seen_s = np.where(np.isfinite(arrived) & (completeness > 0.0), (end - start) * completeness, math.nan)
    first = np.floor((start - course.start) / course.slot_s + 1e-9).astype(np.int64)
    wide = np.maximum(1, np.rint((end - start) / course.slot_s)).astype(np.int64)
    row = np.repeat(np.arange(len(rows)), wide)
    slot = np.repeat(first, wide) + np.arange(wide.sum()) - np.repeat(np.cumsum(wide) - wide, wide)
    inside = (slot >= 0) & (slot < shape[0])
    place = (slot[inside], m[row[inside]])
    chosen = row[inside]

    def add(values: Floats, where: Floats) -> Floats:
        """Sums [T, M] of values over windows in which `where` is known, too."""
        sums = np.zeros(shape)
        both = np.isfinite(values[chosen]) & np.isfinite(where[chosen])
        np.add.at(sums, (place[0][both], place[1][both]), values[chosen][both])
        return sums

    def divide(over: Floats, under: Floats) -> Floats:
        above, below = add(over, under), add(under, over)
        return np.divide(above, below, out=np.full(shape, math.nan), where=below > 0.0)

    lag = np.full(shape, -math.inf)
    np.maximum.at(lag, place, np.where(np.isfinite(backlog[chosen]), backlog[chosen], -math.inf))
    lag[np.isinf(lag)] = math.nan
    return BatchGrid(
        course.operators, divide(arrived, seen_s), divide(tuples, batch_time), divide(batch_time, batches), lag
    )
