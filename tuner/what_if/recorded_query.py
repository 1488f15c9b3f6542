"""One run of a streaming query as its event log has it: batches, each with its tasks, and the executors that served."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scaler.model.kernel import Floats

OVERLAP_S = 0.005  # by which clocks' rounding lets a stage begin before the one that it waits for has ended
ALIGNED = 0.1  # of a trigger's interval, behind its multiples, in which batches start
WAITING = 1.05  # of a batch's duration, beyond which the next one's start waited for a trigger


@dataclass(frozen=True, slots=True)
class Level:
    """Tasks of stages that run beside each other."""

    tasks: Floats  # [n] seconds from launch to finish, in the order of their launch
    work: Floats  # [n] of which the executor ran the task; the rest is what any task costs
    span_s: float  # from the first launch to the last finish


@dataclass(frozen=True, slots=True)
class RecordedBatch:
    number: int
    start: float  # seconds since 1970
    duration_s: float
    records: float
    slots: int  # tasks that could run at a time
    levels: tuple[Level, ...]
    backlog: float | None = None  # records that it left to wait; None: not known
    disturbed: bool = False  # executors came or went since the last batch began, or it is the first

    @property
    def rest_s(self) -> float:
        """What the batch took besides its tasks: planning, offsets, commits."""
        return max(0.0, self.duration_s - sum(level.span_s for level in self.levels))

    @property
    def effort_s(self) -> float:
        """Seconds of the driver and of all slots: a measure that the number of executors does not change."""
        return self.rest_s + sum(float(level.tasks.sum()) for level in self.levels)


@dataclass(frozen=True, slots=True)
class RecordedQuery:
    """One run of a streaming query."""

    name: str  # the beginning of its id where it has no name
    batches: tuple[RecordedBatch, ...]  # in the order of their start
    trigger_s: float  # 0: each batch follows the last at once
    slots_each: int  # of an executor
    executor_hours: float  # of the executors that served it, while it ran
    missing: int = 0  # batches that could not be used
    beside: tuple[str, ...] = ()  # other queries that ran on the same executors meanwhile

    @property
    def executors(self) -> int:
        """How many it had, in most batches."""
        return max(1, round(float(np.median([batch.slots for batch in self.batches])) / self.slots_each))

    @property
    def span_s(self) -> float:
        return self.batches[-1].start + self.batches[-1].duration_s - self.batches[0].start

    @property
    def most(self) -> float:
        """Records that a batch takes at most, as far as batches show that left some waiting; else unlimited."""
        return max((batch.records for batch in self.batches if batch.backlog), default=math.inf)


@dataclass(frozen=True, slots=True)
class ExecutorLife:
    """From when to when an executor was there, and how many tasks it ran at a time."""

    since: float
    until: float
    slots: int
    profile: int


def find_levels(stages: Sequence[Floats]) -> tuple[Level, ...]:
    """Stages in the order of their first launch, those that overlap together; each [n, 3]: launch, finish, run time."""
    groups: list[list[Floats]] = []
    for times in sorted(stages, key=lambda times: float(times[0, 0])):
        if groups and times[0, 0] < max(float(one[:, 1].max()) for one in groups[-1]) - OVERLAP_S:
            groups[-1].append(times)
        else:
            groups.append([times])
    levels = []
    for group in groups:
        times = np.concatenate(group) if len(group) > 1 else group[0]
        times = times[np.argsort(times[:, 0], kind="stable")]
        tasks = times[:, 1] - times[:, 0]
        levels.append(Level(tasks, np.minimum(times[:, 2], tasks), float(times[:, 1].max() - times[0, 0])))
    return tuple(levels)


def count_busy(stages: Mapping[int, Floats]) -> int:
    """The most tasks that ran at a time, for logs that name no executor."""
    times = np.concatenate([*stages.values()])
    moments = np.concatenate([times[:, 0], times[:, 1]])
    steps = np.repeat([1, -1], len(times))
    order = np.lexsort((steps, moments))
    return max(1, int(np.cumsum(steps[order]).max()))


def find_trigger(batches: Sequence[RecordedBatch]) -> float:
    """The trigger's interval; 0 where each batch follows the last at once.

    Batches that waited for their trigger show it, or starts at its multiples since 1970, where Spark puts them.
    """
    starts = np.array([batch.start for batch in batches])
    if len(starts) < 3:
        return 0.0
    steps = np.diff(starts)
    waited = steps > WAITING * np.array([batch.duration_s for batch in batches[:-1]])
    if waited.mean() > 0.1:
        return float(np.round(np.median(steps[waited]), 1))
    usual = float(np.round(np.median(steps), 1))
    return usual if usual > 0.0 and np.mean(starts % usual < ALIGNED * usual) > 0.9 else 0.0
