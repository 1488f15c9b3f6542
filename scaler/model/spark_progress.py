"""Parse Spark's StreamingQueryProgress documents and query events; the one parser of drivers, event logs and files.

Offsets count tuples where they are Kafka's, {topic: {partition: number}}, and where a batch took as many rows as its
offset grew, and some; others (a file source's log number, a rate source's seconds) say nothing of tuples and are left
out. An offset that stood still while no rows came proves nothing: the seconds by which an idle rate source's clock is
ahead would pass for a backlog.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

STARTED, IDLE, ENDED = "started", "idle", "ended"  # kinds of events of queries besides progress
FILES = re.compile(r"^FileStreamSource\[(.+)\]$")


@dataclass(frozen=True, slots=True)
class StateReport:
    """State of a query's stateful operators after a batch, all of them together; None is not known."""

    rows: int | None = None
    bytes: int | None = None
    partitions: int | None = None  # of the operator that has most
    commit_s: float | None = None  # of all tasks, to commit the batch's version
    loads: int | None = None  # stores that were loaded from the checkpoint
    load_s: float | None = None  # of all tasks, in those loads


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger that was reported; None is not known, never zero. Times in seconds since 1970 in UTC."""

    query: str
    run: str
    batch: int
    time: float  # at which it began
    name: str | None = None
    duration: float | None = None  # until its batch was committed
    work: float | None = None  # of which the batch itself took, without planning and commits
    rows: int | None = None  # that it took in
    written: int | None = None
    executed: bool = True  # whether there was a batch at all
    latest: int | None = None  # offset up to which tuples had come
    ended: int | None = None  # offset up to which it took them
    backlog: int | None = None  # tuples that it left to wait
    folder: str | None = None  # that its one source reads files from
    entry: int | None = None  # of that source's log, naming the files that its batch took
    state: StateReport | None = None  # None: stateless, or without a batch

    @property
    def done(self) -> float:
        return self.time + (self.duration or 0.0)


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """Start, idleness or end of a query's run."""

    query: str
    run: str
    time: float
    name: str | None = None
    failed: bool = False  # whether it ended by an exception


def read_progress(document: object) -> Trigger | None:
    """Parse a progress document; None where it is none."""
    if not isinstance(document, Mapping):
        return None
    query, run, batch = document.get("id"), document.get("runId"), read_count(document.get("batchId"))
    time = read_time(document.get("timestamp"))
    if not isinstance(query, str) or not isinstance(run, str) or batch is None or time is None:
        return None
    listed = document.get("sources")
    sources = [source for source in listed if isinstance(source, Mapping)] if isinstance(listed, list) else []
    durations = read_object(document, "durationMs")
    took = (document.get("batchDuration"), durations.get("triggerExecution"), durations.get("addBatch"))
    rows = sum_known(read_count(one.get("numInputRows")) for one in sources or [document])
    latest, ended = (
        sum_known(add_offsets(source.get(key)) if counts_tuples(source) else None for source in sources)
        for key in ("latestOffset", "endOffset")
    )
    name = document.get("name")
    described = sources[0].get("description") if len(sources) == 1 else None
    folder = find_folder(described) if isinstance(described, str) else None
    return Trigger(
        query,
        run,
        batch,
        time,
        name=name if isinstance(name, str) and name else None,
        duration=next((ms / 1000.0 for ms in map(read_count, took) if ms is not None), None),
        work=None if (ms := read_count(durations.get("addBatch"))) is None else ms / 1000.0,
        rows=rows,
        written=read_count(read_object(document, "sink").get("numOutputRows")),
        executed="addBatch" in durations or bool(rows),
        latest=latest,
        ended=ended,
        backlog=sum_known(map(find_lag, sources)) if latest is None or ended is None else max(latest - ended, 0),
        folder=folder,
        entry=None if folder is None else find_entry(sources[0]),
        state=read_state(document.get("stateOperators")),
    )


def read_state(listed: object) -> StateReport | None:
    """Add up `stateOperators`; None where there are none."""
    operators = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    if not operators:
        return None
    metrics = [read_object(operator, "customMetrics") for operator in operators]
    partitions = [count for one in operators if (count := read_count(one.get("numShufflePartitions")))]
    loads = sum_known(read_count(own.get("rocksdbNumLoadedFromDfs")) for own in metrics)
    commits, latencies = (
        sum_known(map(read_count, found))
        for found in (
            (one.get("commitTimeMs") for one in operators),
            (own.get("rocksdbLoadLatencyMs") for own in metrics),
        )
    )
    return StateReport(
        rows=sum_known(read_count(one.get("numRowsTotal")) for one in operators),
        bytes=sum_known(map(measure_state, operators, metrics)),
        partitions=max(partitions, default=None),
        commit_s=None if commits is None else commits / 1000.0,
        loads=loads,
        load_s=0.0 if loads == 0 else None if loads is None or latencies is None else latencies / 1000.0,
    )


def measure_state(operator: Mapping[str, Any], metrics: Mapping[str, Any]) -> int | None:
    """Bytes of the newest version: in memory (HDFS-backed), in files (RocksDB), else all the memory that is used."""
    for size in (metrics.get("stateOnCurrentVersionSizeBytes"), metrics.get("rocksdbSstFileSize")):
        if known := read_count(size):
            return known
    return read_count(operator.get("memoryUsedBytes"))


def read_query_event(document: object, now: float) -> QueryEvent | None:
    """Parse a started, idle or terminated event; `now` is its time where it has none."""
    if not isinstance(document, Mapping):
        return None
    query, run, name = document.get("id"), document.get("runId"), document.get("name")
    if not isinstance(query, str) or not isinstance(run, str):
        return None
    time = read_time(document.get("timestamp"))
    named = name if isinstance(name, str) and name else None
    return QueryEvent(query, run, now if time is None else time, named, document.get("exception") is not None)


@lru_cache(maxsize=256)  # every batch says the same
def find_folder(description: str) -> str | None:
    found = FILES.match(description)
    return found[1] if found else None


def find_entry(source: Mapping[str, Any]) -> int | None:
    """Entry of a file source's log that names the batch's files; None where it took none."""
    before, after = (read_offsets(source.get(name)) for name in ("startOffset", "endOffset"))
    return None if before == after or not isinstance(after, Mapping) else read_count(after.get("logOffset"))


def read_object(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}


def read_integer(value: object) -> int | None:
    """An integer of at most 64 bits, whatever it is written as; a bool is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -(1 << 63) <= value < 1 << 63 else None
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else None


def read_count(value: object) -> int | None:
    """An integer of 0 or more; Spark's -1 is "not known"."""
    number = read_integer(value)
    return None if number is None or number < 0 else number


def sum_known(values: Iterable[int | None]) -> int | None:
    """Sum of values; None where there is none or one is not known."""
    total, some = 0, False
    for value in values:
        if value is None:
            return None
        total, some = total + value, True
    return total if some else None


def read_time(value: object) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def read_offsets(value: object) -> object:
    """Parse offsets, which documents hold as they are or as text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def add_offsets(value: object) -> int | None:
    """The sum of a number, or of those in an object or in the objects in it; None where anything else is in it."""
    offsets = read_offsets(value)
    if not isinstance(offsets, Mapping):
        return read_integer(offsets)
    return sum_known(
        read_integer(n)
        for inner in offsets.values()
        for n in (inner.values() if isinstance(inner, Mapping) else [inner])
    )


def count_partitions(source: Mapping[str, Any]) -> int:
    """How many partitions offsets of Kafka's form name."""
    offsets = read_offsets(source.get("endOffset"))
    if not isinstance(offsets, Mapping) or not all(isinstance(inner, Mapping) for inner in offsets.values()):
        return 0
    numbers = [read_integer(number) for inner in offsets.values() for number in inner.values()]
    return 0 if None in numbers else len(numbers)


def counts_tuples(source: Mapping[str, Any]) -> bool:
    """Whether the growth of a source's offset is a number of tuples."""
    if count_partitions(source):
        return True
    start, end = add_offsets(source.get("startOffset")), add_offsets(source.get("endOffset"))
    rows = read_count(source.get("numInputRows"))
    return start is not None and end is not None and bool(rows) and end - start == rows


def find_lag(source: Mapping[str, Any]) -> int | None:
    """Backlog by a source's own metrics: Kafka's mean lag a partition, or the largest as the least it can be."""
    metrics, partitions = read_object(source, "metrics"), count_partitions(source)
    mean, largest = (read_number(metrics.get(f"{name}OffsetsBehindLatest")) for name in ("avg", "max"))
    if mean is not None and partitions:
        return round(mean * partitions)
    return None if largest is None else round(largest)


def read_number(value: object) -> float | None:
    """A number of 0 or more; connectors write their metrics as text."""
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return found if 0.0 <= found < 1e18 and math.isfinite(found) else None
