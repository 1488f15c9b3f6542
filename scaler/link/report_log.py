"""Log of the reports that the manager has not confirmed: on disk as soon as they are made, sent the oldest first.

The folder is owned by one process at a time; decisions and samples have a segment log each, of at most `limit_bytes` in
all: beyond, the oldest samples go first, and decisions only when there are no samples left. Each `add` ends in an
fsync. Where the folder cannot be locked or written, records wait in memory, as many as fit into `memory_bytes`.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from scaler.link.segment_log import LogPosition, SegmentLog
from scaler.model.files import OWNER_FOLDER, open_private, replacing

DECISIONS, SAMPLES = "decisions", "samples"
REPORT_KINDS = (DECISIONS, SAMPLES)  # in the order in which they are sent
CURSOR, LOCK, REFUSED = "cursor.json", "lock", "refused.jsonl"
SEGMENT_BYTES = 1 << 20
REFUSED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ReportRecord:
    kind: str  # of REPORT_KINDS
    line: bytes  # {"operator": ..., "body": ...} in JSON


@dataclass(frozen=True, slots=True)
class ReportBatch:
    """Records to send next; `positions` and `buffered` are what `acknowledge` removes."""

    records: tuple[tuple[str, str, Any], ...]  # kind, operator, body
    positions: Mapping[str, LogPosition]
    buffered: int
    lines: tuple[bytes, ...]


class ReportLog:
    """Records of one process that wait for the manager; for one thread, but any may read the counts."""

    def __init__(self, folder: Path, limit_bytes: int = 64 << 20, memory_bytes: int = 8 << 20) -> None:
        self.folder, self.limit_bytes, self.memory_bytes = folder, limit_bytes, memory_bytes
        self.lock: IO[bytes] | None = None
        self.logs: dict[str, SegmentLog] = {}
        self.buffered: deque[ReportRecord] = deque()  # not on disk
        self.buffered_bytes = 0
        self.dropped = dict.fromkeys(REPORT_KINDS, 0)
        self.refused = 0
        self.fault = ""

    @property
    def waiting(self) -> int:
        return len(self.buffered) + sum(log.waiting for log in self.logs.values())

    def open(self) -> bool:
        """Lock and open the folder, if possible."""
        if self.logs:
            return True
        try:
            self.folder.mkdir(OWNER_FOLDER, parents=True, exist_ok=True)
            self.lock = lock_file(self.folder / LOCK)
            if self.lock is None:
                self.fault = f"another process owns {self.folder}; what is reported meanwhile is kept in memory only"
                return False
            places = read_cursor(self.folder / CURSOR)
            segment_bytes = min(SEGMENT_BYTES, max(1, self.limit_bytes // 32))
            self.logs = {name: SegmentLog(self.folder, name, places[name], segment_bytes) for name in REPORT_KINDS}
        except OSError as error:
            self.close()
            self.fault = self.describe_fault(error)
            return False
        self.fault = ""
        return True

    def add(self, records: Sequence[ReportRecord]) -> None:
        """Add records; they are on disk when this returns, unless `fault` says otherwise."""
        self.buffered.extend(records)
        self.buffered_bytes += sum(len(record.line) for record in records)
        if self.logs and self.buffered:
            self.write_buffered()
        while self.buffered_bytes > self.memory_bytes:
            self.drop_buffered()

    def write_buffered(self) -> None:
        try:
            for name, log in self.logs.items():
                lines = [record.line for record in self.buffered if record.kind == name]
                if lines:
                    log.append(lines)
                    self.buffered = deque(record for record in self.buffered if record.kind != name)
                    self.buffered_bytes = sum(len(record.line) for record in self.buffered)
            self.trim()
            self.fault = ""
        except OSError as error:
            self.fault = self.describe_fault(error)

    def trim(self) -> None:
        """Drop the oldest segments beyond the limit."""
        samples, decisions = self.logs[SAMPLES], self.logs[DECISIONS]
        while samples.size + decisions.size > self.limit_bytes:
            name = SAMPLES if samples.segments else DECISIONS
            self.dropped[name] += self.logs[name].drop_oldest()

    def drop_buffered(self) -> None:
        at = next((i for i, record in enumerate(self.buffered) if record.kind == SAMPLES), 0)
        self.dropped[self.buffered[at].kind] += 1
        self.buffered_bytes -= len(self.buffered[at].line)
        del self.buffered[at]

    def next_batch(self, max_records: int, max_bytes: int) -> ReportBatch:
        """The next records to send; the same again until they are acknowledged."""
        found: list[tuple[str, bytes]] = []
        positions: dict[str, LogPosition] = {}
        for name, log in self.logs.items():
            size = sum(len(line) for _, line in found)
            if len(found) < max_records and (not found or size < max_bytes):
                try:
                    lines, positions[name] = log.read(max_records - len(found), max_bytes - size)
                    found += [(name, line) for line in lines]
                except OSError as error:
                    self.fault = self.describe_fault(error)
        on_disk = len(found)
        size = sum(len(line) for _, line in found)
        for record in self.buffered:
            size += len(record.line)
            if len(found) >= max_records or (found and size > max_bytes):
                break
            found.append((record.kind, record.line))
        records = tuple((kind, *row) for kind, line in found if (row := read_line(line)) is not None)
        return ReportBatch(records, positions, len(found) - on_disk, tuple(line for _, line in found))

    def acknowledge(self, batch: ReportBatch, refused: bool = False) -> None:
        """Remove a batch: the manager has it, or refused it (then it is saved apart, as far as there is room)."""
        if refused:
            self.refused += len(batch.records)
            self.save_refused(batch)
        for record in [self.buffered.popleft() for _ in range(min(batch.buffered, len(self.buffered)))]:
            self.buffered_bytes -= len(record.line)
        if not self.logs or not batch.positions:
            return
        for name, position in batch.positions.items():
            self.logs[name].acknowledge(position)
        places = {name: list(log.position) for name, log in self.logs.items()}
        try:  # without fsync: a cursor that is lost costs a second sending, and what is sent twice counts once
            with replacing(self.folder / CURSOR) as part:
                part.write_text(json.dumps(places))
        except OSError as error:
            self.fault = self.describe_fault(error)

    def save_refused(self, batch: ReportBatch) -> None:
        if self.lock is None:
            return
        try:
            with open_private(self.folder / REFUSED, "ab") as file:
                if file.tell() < REFUSED_BYTES:
                    file.write(b"".join(line + b"\n" for line in batch.lines))
        except OSError as error:
            self.fault = self.describe_fault(error)

    def describe_fault(self, error: OSError) -> str:
        why = error.strerror or type(error).__name__
        return f"{self.folder} cannot be written or read ({why}); what is reported meanwhile is kept in memory only"

    def close(self) -> None:
        """Leave the folder to others."""
        for log in self.logs.values():
            log.close()
        self.logs = {}
        if self.lock is not None:
            self.lock.close()
            self.lock = None


def lock_file(path: Path) -> IO[bytes] | None:
    """Lock a file until the process ends, however that happens; None if another process has it."""
    file = open_private(path, "ab")
    try:
        if os.name == "nt":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        file.close()
        return None
    except OSError:
        file.close()
        raise
    return file


def read_cursor(path: Path) -> dict[str, LogPosition]:
    """How far each log is acknowledged; from the beginning where that cannot be read."""
    places: dict[str, LogPosition] = dict.fromkeys(REPORT_KINDS, (0, 0))
    try:
        document = json.loads(path.read_bytes())
        for name in REPORT_KINDS:
            number, offset = (int(value) for value in document[name])
            places[name] = (max(0, number), max(0, offset))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ArithmeticError):  # int() of 1e400 overflows
        return dict.fromkeys(REPORT_KINDS, (0, 0))
    return places


def read_line(line: bytes) -> tuple[str, Any] | None:
    """Operator and body of a line; None where it is damaged."""
    try:
        document = json.loads(line)
        operator, body = document["operator"], document["body"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return (operator, body) if isinstance(operator, str) and isinstance(body, dict) else None
