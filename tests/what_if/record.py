"""Records of queries for the tests of what-if: logs as Spark writes them, and queries made up directly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from tests.pipeline import logs
from tests.pipeline.logs import START, Job, Task
from tuner.what_if.batches_on_executors import makespan
from tuner.what_if.recorded_batches import read_queries
from tuner.what_if.recorded_query import Level, RecordedBatch, RecordedQuery

TASKS = 8
FIXED_MS = 300  # of a batch, besides its tasks
LAST_MS = 40  # its last task


def stamp(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def write_batches(
    sizes: Sequence[int],
    cores: int,
    each_ms: int,
    trigger_ms: int,
    slow: Sequence[int] = (),
    name: str | None = "words",
) -> Iterator[str]:
    """Batches of two stages in a row: eight equal tasks, by their records, and one short task.

    The tasks of the batches `slow` take three times as long.
    """
    number = 0
    for i, size in enumerate(sizes):
        begin = START + i * trigger_ms
        long = size * each_ms // TASKS * (3 if i in slow else 1)
        yield logs.job(Job(i, i, name=name, stages=((2 * i, (), 0), (2 * i + 1, (2 * i,), 0)), time=begin + 50))
        for index in range(TASKS):
            launch = begin + 100 + index // cores * long
            records = size // TASKS
            yield logs.task_end(
                Task(number, 2 * i, index=index, launch=launch, run_ms=long, wall_ms=long, records=records)
            )
            number += 1
        after = begin + 100 + -(-TASKS // cores) * long
        yield logs.task_end(
            Task(number, 2 * i + 1, launch=after, run_ms=LAST_MS, wall_ms=LAST_MS, records=0, shuffled=10)
        )
        number += 1
        duration = after + LAST_MS - begin - 100 + FIXED_MS
        extra = {} if name == "words" else {"name": name}
        yield logs.progress_event(logs.progress(i, stamp(begin), size, duration, **extra))


def write_log(
    folder: Path,
    sizes: Sequence[int],
    cores: int = 2,
    each_ms: int = 10,
    trigger_ms: int = 5000,
    slow: Sequence[int] = (),
    name: str | None = "words",
) -> Path:
    """A log of one executor."""
    opening = [*logs.start("app")[:2], logs.executor(cores=cores, time=START)]
    return logs.write(folder / "app", [*opening, *write_batches(sizes, cores, each_ms, trigger_ms, slow, name)])


def read(path: Path) -> RecordedQuery:
    queries, _ = read_queries(path, lambda share: None)
    return queries[0]


def make_query(
    sizes: Sequence[float],
    slots: int = 2,
    tasks: int = 8,
    per_record: float = 0.01,
    rest: float = 0.3,
    trigger: float = 5.0,
    gap: float = 0.0,
    factors: Sequence[float] = (),
    first: float = 0.0,
) -> RecordedQuery:
    """A query of one level of equal tasks whose batches begin at each trigger; `factors` slow its batches down.

    The first task on each slot takes `first` seconds longer.
    """
    batches = []
    for i, size in enumerate(sizes):
        each = np.full(tasks, per_record * size / tasks * (factors[i] if i < len(factors) else 1.0))
        span = first + makespan(each, slots, gap)
        level = Level(each + np.where(np.arange(tasks) < slots, first, 0.0), each, span)
        batches.append(RecordedBatch(i, trigger * i, rest + span, size, slots, (level,), disturbed=i == 0))
    hours = slots * (trigger * len(sizes)) / 3600.0
    return RecordedQuery("made", tuple(batches), trigger, 1, hours)
