"""Predict a query's batches on another number of executors: recorded tasks placed anew, in waves.

Each level's tasks go, in the order of their launch, to the first slot that is free. Between two tasks of a slot there
is a gap, the scheduler's, which is estimated so that the recorded batches come out as they were; it is negative where a
slot is free before the driver has read the last task's result. The first task of a stage on each slot takes longer, for
its executor fetches the stage's code: that is taken off the recorded first tasks, and put before the new ones. What the
driver does besides stays as it was. A batch of n records then takes D = a + g n and what the recorded ones deviate by.
Batches that warm up are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heapreplace

import numpy as np
from numpy.typing import NDArray

from scaler.model.kernel import Floats
from tuner.what_if.recorded_query import Level, RecordedBatch, RecordedQuery
from tuner.what_if.warm_up import find_calm, fit_line

QUICKEST = 0.5  # of the overhead a: no batch is quicker, whatever others deviated


def makespan(tasks: Floats, slots: int, gap: float = 0.0) -> float:
    """Seconds until the last task is done."""
    if len(tasks) <= slots:
        return float(tasks.max())
    listed = (tasks + gap).tolist()
    free = listed[:slots]
    heapify(free)
    for task in listed[slots:]:
        heapreplace(free, free[0] + task)
    return max(free) - gap


def estimate_first(query: RecordedQuery, calm: NDArray[np.bool_]) -> float:
    """Seconds by which the first task on a slot takes longer than the next ones, besides its run time."""
    more = []
    for batch in select(query, calm):
        for level in batch.levels:
            if len(level.tasks) > batch.slots:
                besides = level.tasks - level.work
                more.append(float(np.median(besides[: batch.slots]) - np.median(besides[batch.slots :])))
    return max(0.0, float(np.median(more))) if more else 0.0


def strip_first(level: Level, slots: int, first: float) -> tuple[Floats, float]:
    """Tasks without what being first on a slot costs, never less than their run time; and what was taken off."""
    tasks = level.tasks.copy()
    taken = np.minimum(first, np.maximum(0.0, tasks[:slots] - level.work[:slots]))
    tasks[:slots] -= taken
    return tasks, float(np.median(taken))


def estimate_gap(query: RecordedQuery, calm: NDArray[np.bool_], first: float) -> float:
    """Seconds between two tasks of a slot: by how much recorded spans exceed the tasks' own, a wave after the first."""
    gaps, shortest = [], np.inf
    for batch in select(query, calm):
        for level in batch.levels:
            if (waves := -(-len(level.tasks) // batch.slots)) > 1:
                tasks, lead = strip_first(level, batch.slots, first)
                gaps.append((level.span_s - lead - makespan(tasks, batch.slots)) / (waves - 1))
                shortest = min(shortest, float(tasks.min()))
    return max(float(np.median(gaps)), -0.5 * shortest) if gaps else 0.0


def select(query: RecordedQuery, calm: NDArray[np.bool_]) -> list[RecordedBatch]:
    return [batch for batch, used in zip(query.batches, calm, strict=True) if used]


@dataclass(frozen=True, slots=True)
class BatchModel:
    """D = a + g n, and what the recorded batches deviate from it."""

    overhead_s: float
    per_record_s: float
    deviations: Floats  # [calm batches]
    placed: Floats  # durations of the recorded batches [calm batches]
    seen: bool  # whether batches varied enough to see the slope

    def predict(self, number: int, records: float) -> float:
        usual = self.overhead_s + self.per_record_s * records
        return max(QUICKEST * self.overhead_s, usual + float(self.deviations[number % len(self.deviations)]))

    def last_cycle(self, rate: float) -> float:
        """Seconds a batch when each follows the last at once, a / (1 - rho); infinite where work exceeds time."""
        load = self.per_record_s * rate
        return self.overhead_s / (1.0 - load) if load < 1.0 else np.inf


@dataclass(frozen=True, slots=True)
class QueryModel:
    """Durations of a query's batches on any number of executors."""

    batches: tuple[RecordedBatch, ...]  # that do not warm up
    slots_each: int
    gap_s: float
    first_s: float  # that the first task on a slot takes longer
    left_out: int  # batches that warm up

    def place(self, executors: int) -> BatchModel:
        slots = executors * self.slots_each
        return self.fit(lambda tasks: makespan(tasks, slots, self.gap_s))

    def place_all(self) -> BatchModel:
        """On as many executors as there are tasks."""
        return self.fit(lambda tasks: float(tasks.max()))

    def fit(self, span: Callable[[Floats], float]) -> BatchModel:
        def sum_tasks(batch: RecordedBatch) -> float:
            stripped = (strip_first(level, batch.slots, self.first_s) for level in batch.levels)
            return sum(lead + span(tasks) for tasks, lead in stripped)

        placed = np.array([batch.rest_s + sum_tasks(batch) for batch in self.batches])
        work = np.array([sum(span(level.work) for level in batch.levels) for batch in self.batches])
        records = np.array([batch.records for batch in self.batches])
        fixed = max(0.0, float(np.median(placed - work)))
        a, g, seen = fit_line(records, placed, np.ones(len(placed), bool), fixed)
        return BatchModel(a, g, placed - a - g * records, placed, seen)


def model_query(query: RecordedQuery) -> QueryModel:
    calm = find_calm(query)
    first = estimate_first(query, calm)
    gap = estimate_gap(query, calm, first)
    return QueryModel(tuple(select(query, calm)), query.slots_each, gap, first, int((~calm).sum()))
