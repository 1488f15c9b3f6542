"""Scan a file of an event log, or a stretch of a large one, for its few interesting events.

Runs in Spark's Python tasks and holds one chunk at a time. Nothing that a file can contain raises: lines that are no
events are counted, and a stream that breaks off ends there.

Events are wide rows with a `kind`, so that one pass over a log yields everything: "task", "stage", "query", "progress",
"executor", "removed", "profile", "application", "end", "lost", and of what could not be read "corrupt", "cut",
"oversized", "unreadable". Times are milliseconds since 1970, as Spark writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from scaler.model.bounded_file import OversizedText, ReadLimits
from tuner.pipeline.sources import task_lines
from tuner.pipeline.sources.codec import LIMITS, TruncatedStream, read_chunks
from tuner.pipeline.sources.event_lines import EVENTS, Parse
from tuner.pipeline.sources.task_lines import DamagedLine, cut, load, pack_tasks

BATCH = 20_000
LONGEST = 64 << 20  # bytes without the end of a line: no event is so large
OPENING = b'{"Event":"'
CLOSING = ord("}")
TASK = task_lines.PREFIX


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
    state_rows: int | None = None
    state_bytes: int | None = None
    state_partitions: int | None = None
    commit_ms: int | None = None
    store_loads: int | None = None
    store_load_ms: int | None = None
    reads: list[str] | None = None  # where a query's tuples come from
    writes: str | None = None


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


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Stretch of a file that a Python task reads at a time."""

    log: str
    path: str
    codec: str = "none"
    start: int = 0
    end: int = 1 << 62
    limits: ReadLimits = LIMITS


@dataclass(slots=True)
class ParsedEvents:
    """Events of a piece that are not yet handed on."""

    tasks: list[tuple[bytes, ...]] = field(default_factory=list)
    rare: list[dict[str, Any]] = field(default_factory=list)
    damaged: int = 0


def read_pieces(pieces: Iterable[FilePiece]) -> pa.Table:
    """The events of some pieces; here, where little is imported, because new processes start with it."""
    return pa.Table.from_batches(chain.from_iterable(map(read_piece, pieces)), arrow_schema())


def read_piece(piece: FilePiece) -> Iterator[pa.RecordBatch]:
    shape = arrow_schema()
    found = ParsedEvents()
    try:
        for block in read_blocks(piece):
            scan(block, found)
            if len(found.tasks) + len(found.rare) >= BATCH:
                yield from drain_events(found, piece.log, shape)
    except TruncatedStream:
        found.rare.append({"kind": "cut"})
    except OversizedText as error:
        found.rare.append({"kind": "oversized", "name": str(error)})
    except OSError as error:
        found.rare.append({"kind": "unreadable", "name": error.strerror})
    if found.damaged:
        found.rare.append({"kind": "corrupt", "number": found.damaged})
    yield from drain_events(found, piece.log, shape)


def drain_events(found: ParsedEvents, log: str, shape: pa.Schema) -> Iterator[pa.RecordBatch]:
    if found.tasks:
        yield pack_tasks(found.tasks, log, shape)
    yield from pack(({"log": log} | event for event in found.rare), shape)
    found.tasks.clear()
    found.rare.clear()


def scan(block: bytes, found: ParsedEvents) -> None:
    """Parse the events of a block of lines; no line is copied that need not be, for few are of interest."""
    start, size, keep = 0, len(block), found.tasks.append
    while start < size:
        end = block.find(b"\n", start)
        end = size if end < 0 else end
        if block.startswith(TASK, start):
            if values := cut(block, start, end):
                keep(values)
            else:
                note(block[start:end], EVENTS[b"SparkListenerTaskEnd"], found)
        elif not block.startswith(OPENING, start):
            note(block[start:end], parse_other, found)
        elif parse := EVENTS.get(block[start + 10 : block.find(b'"', start + 10, end)]):
            note(block[start:end], parse, found)
        elif block[end - 1] != CLOSING:
            note(block[start:end], parse_other, found)
        start = end + 1


def note(line: bytes, parse: Parse, found: ParsedEvents) -> None:
    try:
        found.rare.extend(parse(line))
    except (DamagedLine, RecursionError):  # nested so deeply that not even its texts can be read
        found.damaged += 1


def read_blocks(piece: FilePiece) -> Iterator[bytes]:
    """Whole lines, some MB at a time; a stretch begins behind the first end of a line at or after `start` - 1."""
    position = max(piece.start - 1, 0)
    waiting: list[bytes] = []  # chunks of a line whose end was not seen yet
    length = 0
    skipping = piece.start > 0
    for chunk in read_chunks(piece.path, piece.codec, position, piece.limits):
        first = chunk.find(b"\n") + 1
        if not first and skipping:
            position += len(chunk)
            continue
        waiting.append(chunk)
        length += len(chunk)
        if length - len(chunk) > LONGEST:
            raise OversizedText(f"{piece.path} has a line of more than {LONGEST >> 20} MiB; leave that line out")
        if not first:
            continue
        data = b"".join(waiting)
        if skipping:
            data, position, skipping = data[first:], position + first, False
        if position >= piece.end:
            return
        last = data.find(b"\n", piece.end - 1 - position) if position + len(data) >= piece.end else -1
        if last >= 0:
            yield data[:last]
            return
        last = data.rfind(b"\n")
        if last >= 0:
            yield data[:last]
            position += last + 1
        waiting = [data[last + 1 :]]
        length = len(waiting[0])
    if rest := b"".join(waiting):
        yield rest


def parse_other(line: bytes) -> Iterable[dict[str, Any]]:
    """A line that does not begin or end as Spark's do: blank, another's layout, or damaged."""
    if not line.strip():
        return ()
    parse = EVENTS.get(str(load(line).get("Event")).encode())
    return () if parse is None else parse(line)
