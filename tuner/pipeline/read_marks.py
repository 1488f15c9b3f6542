"""Marks of how far each file was read, and of which parts an application's history has.

A file is as it was when its size and the digests of its first and last bytes are; what is only longer has grown; what
is shorter or begins otherwise is another file under an old name. The size is taken before the file is read, so that
what is written meanwhile is found the next time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scaler.model.bounded_file import open_regular
from scaler.model.errors import BadInput
from tuner.pipeline.sources.found import InputFile
from tuner.store.connection import Session
from tuner.store.records import SourceMark
from tuner.store.samples import load_marks

HEAD = 65_536  # bytes
TAIL = 4_096
HISTORY = "history"  # the source under which an application's own mark stands
Edge = tuple[str, str]  # upstream, downstream


@dataclass(frozen=True, slots=True)
class FileState:
    """A file at the moment before it is read."""

    path: str
    size: int
    head: str  # digest of the first HEAD bytes
    tail: str  # digest of the last TAIL bytes
    known: str  # new, same, grown or replaced: against its mark


def compare_files(found: Iterable[InputFile], marks: Mapping[str, SourceMark]) -> list[FileState]:
    """Compare every file with its mark; an address on the network is new every time."""
    paths = sorted(file.path for file in found)
    return [
        FileState(path, 0, "", "", "new") if "://" in path else compare_file(path, marks.get(path)) for path in paths
    ]


def compare_file(path: str, mark: SourceMark | None) -> FileState:
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            head = digest(file.read(min(HEAD, size)))
            file.seek(max(0, size - TAIL))
            tail = digest(file.read(min(TAIL, size)))
            known = "new" if mark is None else compare(file, size, tail, mark)
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); make it readable, or leave it out") from error
    return FileState(path, size, head, tail, known)


def choose_fresh(found: Sequence[InputFile], states: Sequence[FileState]) -> list[InputFile]:
    """New files, and with a piece of an event log its other pieces, for none can be understood alone."""
    changed = {state.path for state in states if state.known != "same"}
    logs = {file.log for file in found if file.kind == "event-log" and file.path in changed}
    return [file for file in found if file.path in changed or (file.kind == "event-log" and file.log in logs)]


def compare(file: Any, size: int, tail: str, mark: SourceMark) -> str:
    """Compare an open file with its mark: same, grown or replaced."""
    if size < mark.position:
        return "replaced"
    file.seek(0)
    if digest(file.read(min(HEAD, mark.position))) != mark.detail["head"]:
        return "replaced"
    if size == mark.position:
        return "same" if tail == mark.detail["tail"] else "replaced"
    return "grown"


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def mark_file(application: str, state: FileState, now: float, first: float | None) -> SourceMark:
    detail = {"head": state.head, "tail": state.tail, "first": first}
    return SourceMark(application, state.path, state.size, now, detail)


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """Samples that one ingest added to the history."""

    id: str
    rows: int
    first: float  # the earliest start
    last: float  # the latest end
    longest: float  # seconds from start to end of one sample


@dataclass(frozen=True, slots=True)
class Ledger:
    """Parts of an application's history, as the database has them."""

    window_s: float
    parts: tuple[HistoryPart, ...] = ()
    begun: tuple[str, ...] = ()  # named before they were written, and not counted on yet
    links: tuple[Edge, ...] = ()  # between operators, of all that was read


def read_ledger(mark: SourceMark) -> Ledger:
    detail: Any = mark.detail
    parts = tuple(HistoryPart(**part) for part in detail["parts"])
    links = tuple((upstream, downstream) for upstream, downstream in detail["links"])
    return Ledger(detail["window_s"], parts, tuple(detail["begun"]), links)


def load_links(session: Session, application: str) -> tuple[Edge, ...]:
    """Streams between an application's operators that its monitoring shows."""
    mark = load_marks(session, application).get(HISTORY)
    return read_ledger(mark).links if mark is not None else ()
