"""Scan a file of an event log, or a stretch of a large one, for its few interesting events.

Runs in Spark's Python tasks and holds one chunk at a time. Nothing that a file can contain raises: lines that are no
events are counted, and a stream that breaks off ends there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tuner.pipeline.sources import task_lines
from tuner.pipeline.sources.codec import TruncatedStream, read_chunks
from tuner.pipeline.sources.event import BATCH, arrow_schema, pack
from tuner.pipeline.sources.event_lines import EVENTS, Parse, parse_task
from tuner.pipeline.sources.task_lines import DamagedLine, cut, load, pack_tasks

LONGEST = 256 << 20  # bytes without the end of a line: no event is so large
OPENING = b'{"Event":"'
CLOSING = ord("}")
TASK = task_lines.PREFIX


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Stretch of a file that a Python task reads at a time."""

    log: str
    path: str
    codec: str = "none"
    start: int = 0
    end: int = 1 << 62


@dataclass(slots=True)
class ParsedEvents:
    """Events of a piece that are not yet handed on."""

    tasks: list[tuple[bytes, ...]] = field(default_factory=list)
    rare: list[dict[str, Any]] = field(default_factory=list)
    damaged: int = 0


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
                note(block[start:end], parse_task, found)
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
    except DamagedLine:
        found.damaged += 1


def read_blocks(piece: FilePiece) -> Iterator[bytes]:
    """Whole lines, some MB at a time; a stretch begins behind the first end of a line at or after `start` - 1."""
    position = max(piece.start - 1, 0)
    rest = b""
    skipping = piece.start > 0
    for chunk in read_chunks(piece.path, piece.codec, position):
        data = rest + chunk
        if skipping:
            first = data.find(b"\n") + 1
            if not first:
                position += len(data)
                continue
            data, position, skipping = data[first:], position + first, False
        if position >= piece.end:
            return
        last = data.find(b"\n", piece.end - 1 - position) if position + len(data) >= piece.end else -1
        if last >= 0:
            yield data[:last]
            return
        last = data.rfind(b"\n")
        if last < 0 and len(data) > LONGEST:
            raise TruncatedStream("a line has no end")
        if last >= 0:
            yield data[:last]
            position += last + 1
        rest = data[last + 1 :]
    if rest:
        yield rest


def parse_other(line: bytes) -> Iterable[dict[str, Any]]:
    """A line that does not begin or end as Spark's do: blank, another's layout, or damaged."""
    if not line.strip():
        return ()
    parse = EVENTS.get(str(load(line).get("Event")).encode())
    return () if parse is None else parse(line)
