"""One event of a log or a progress file, as Python tasks hand it to Spark.

One wide row with a `kind`, so that one pass over a log yields everything: "task", "stage", "query", "progress",
"executor", "removed", "profile", "application", "end", "lost", and of what could not be read "corrupt", "cut",
"unreadable". Times are milliseconds since 1970, as Spark writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import pyarrow as pa

BATCH = 20_000


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One event; a field that its kind does not have is None."""

    log: str  # which application's log, or which file of progress
    kind: str
    time: int | None = None  # of the event; of a task its launch, of a batch its trigger
    end: int | None = None  # of a task its finish
    stage: int | None = None
    attempt: int | None = None
    task: int | None = None
    executor: str | None = None
    success: bool | None = None
    run_ms: int | None = None  # of a task its run time, of a batch its duration
    records: int | None = None  # taken in
    shuffled: int | None = None  # read from a shuffle
    written: int | None = None  # put out; of a batch what the sink says
    shuffle_written: int | None = None
    query: str | None = None  # its id
    run: str | None = None
    batch: int | None = None
    name: str | None = None  # of a query, an application; of an executor or a profile the node type
    profile: int | None = None
    number: int | None = None  # executor: cores; profile: cpus a task; stage: profiles in its job; corrupt: lines
    entry: bool | None = None  # the stage takes the operator's tuples in
    leaving: bool | None = None  # the stage puts them out
    executed: bool | None = None  # the trigger ran a batch
    latest: int | None = None  # sum of the sources' latest offsets, where offsets count tuples
    backlog: int | None = None
    reads: list[str] | None = None  # where a query's tuples come from
    writes: str | None = None


def ddl() -> str:
    kinds = {"str": "string", "int": "bigint", "bool": "boolean", "list[str]": "array<string>"}
    return ", ".join(f"{field.name} {kinds[str(field.type).removesuffix(' | None')]}" for field in fields(LogEvent))


def arrow_schema() -> pa.Schema:
    kinds = {"str": pa.string(), "int": pa.int64(), "bool": pa.bool_(), "list[str]": pa.list_(pa.string())}
    return pa.schema([(field.name, kinds[str(field.type).removesuffix(" | None")]) for field in fields(LogEvent)])


def pack(events: Iterable[dict[str, Any]], shape: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Pack events, a dict each, into batches; what a dict lacks is None."""
    events = iter(events)
    while rows := list(islice(events, BATCH)):
        try:
            batch = pa.RecordBatch.from_pylist(rows, shape)
        except (UnicodeEncodeError, OverflowError, pa.ArrowInvalid):
            batch = pa.RecordBatch.from_pylist([{k: fit_arrow(v) for k, v in row.items()} for row in rows], shape)
        yield batch


def fit_arrow(value: Any) -> Any:
    """Convert what JSON can hold and Arrow cannot: half a character, and numbers beyond 64 bits."""
    if isinstance(value, list):
        return [fit_arrow(inner) for inner in value]
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace").decode()
    return None if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63 else value
