"""Records in, as soon as they are made; batches to send out, the oldest first, until they are settled.

They wait in a folder that one process owns at a time, decisions and samples each in a lane of their own, in at most
`limit_bytes`: beyond, the oldest samples go first, and decisions only when there are no samples left. Each `add` ends
in an fsync. Where the folder cannot be had or written, records wait in memory, as many as fit into `memory_bytes`.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from scaler.link.saved_orders import replace_file
from scaler.link.segment_log import LogPosition, SegmentLog

DECISIONS, SAMPLES = "decisions", "samples"
REPORT_KINDS = (DECISIONS, SAMPLES)  # in the order in which they are sent
CURSOR, LOCK, REFUSED = "cursor.json", "lock", "refused.jsonl"
SEGMENT_BYTES = 1 << 20
REFUSED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ReportRecord:
    lane: str
    line: bytes  # {"operator": ..., "body": ...} in JSON


@dataclass(frozen=True, slots=True)
class ReportBatch:
    """What is to be sent next; `marks` and `loose` say to `settle` how far it goes."""

    records: tuple[tuple[str, str, Any], ...]  # lane, operator, body
    marks: Mapping[str, LogPosition]
    loose: int
    lines: tuple[bytes, ...]


class ReportLog:
    """Records of one process that wait for the manager; for one thread, but any may read the counts."""

    def __init__(self, folder: Path, limit_bytes: int = 64 << 20, memory_bytes: int = 8 << 20) -> None:
        self.folder, self.limit_bytes, self.memory_bytes = folder, limit_bytes, memory_bytes
        self.lock: IO[bytes] | None = None
        self.lanes: dict[str, SegmentLog] = {}
        self.loose: deque[ReportRecord] = deque()  # not on disk
        self.loose_bytes = 0
        self.dropped = dict.fromkeys(REPORT_KINDS, 0)
        self.refused = 0
        self.fault = ""

    @property
    def waiting(self) -> int:
        return len(self.loose) + sum(lane.waiting for lane in self.lanes.values())

    def open(self) -> bool:
        """Take the folder, if it can be had."""
        if self.lanes:
            return True
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.lock = lock_file(self.folder / LOCK)
            if self.lock is None:
                self.fault = f"another process owns {self.folder}; what is reported meanwhile is kept in memory only"
                return False
            places = read_cursor(self.folder / CURSOR)
            segment_bytes = min(SEGMENT_BYTES, max(1, self.limit_bytes // 32))
            self.lanes = {name: SegmentLog(self.folder, name, places[name], segment_bytes) for name in REPORT_KINDS}
        except OSError as error:
            self.release()
            self.fault = self.tell(error)
            return False
        self.fault = ""
        return True

    def add(self, records: Sequence[ReportRecord]) -> None:
        """Take them in; they are on disk when this returns, unless `fault` says otherwise."""
        self.loose.extend(records)
        self.loose_bytes += sum(len(record.line) for record in records)
        if self.lanes and self.loose:
            self.write_loose()
        while self.loose_bytes > self.memory_bytes:
            self.drop_loose()

    def write_loose(self) -> None:
        try:
            for name, lane in self.lanes.items():
                lines = [record.line for record in self.loose if record.lane == name]
                if lines:
                    lane.append(lines)
                    self.loose = deque(record for record in self.loose if record.lane != name)
                    self.loose_bytes = sum(len(record.line) for record in self.loose)
            self.trim()
            self.fault = ""
        except OSError as error:
            self.fault = self.tell(error)

    def trim(self) -> None:
        """Keep within the limit."""
        samples, decisions = self.lanes[SAMPLES], self.lanes[DECISIONS]
        while samples.size + decisions.size > self.limit_bytes:
            name = SAMPLES if samples.segments else DECISIONS
            self.dropped[name] += self.lanes[name].drop_oldest()

    def drop_loose(self) -> None:
        at = next((i for i, record in enumerate(self.loose) if record.lane == SAMPLES), 0)
        self.dropped[self.loose[at].lane] += 1
        self.loose_bytes -= len(self.loose[at].line)
        del self.loose[at]

    def take(self, most: int, most_bytes: int) -> ReportBatch:
        """The next records to send; the same again until they are settled."""
        found: list[tuple[str, bytes]] = []
        marks: dict[str, LogPosition] = {}
        for name, lane in self.lanes.items():
            size = sum(len(line) for _, line in found)
            if len(found) < most and (not found or size < most_bytes):
                try:
                    lines, marks[name] = lane.read(most - len(found), most_bytes - size)
                    found += [(name, line) for line in lines]
                except OSError as error:
                    self.fault = self.tell(error)
        loose = 0
        size = sum(len(line) for _, line in found)
        for record in self.loose:
            if len(found) >= most or (found and size + len(record.line) > most_bytes):
                break
            found.append((record.lane, record.line))
            size += len(record.line)
            loose += 1
        read = [(lane, read_line(line)) for lane, line in found]
        records = tuple((lane, *record) for lane, record in read if record is not None)
        return ReportBatch(records, marks, loose, tuple(line for _, line in found))

    def settle(self, batch: ReportBatch, refused: bool = False) -> None:
        """Forget a batch: the manager has it, or will not have it (then it is put aside, as far as there is room)."""
        if refused:
            self.refused += len(batch.records)
            self.put_aside(batch)
        for record in [self.loose.popleft() for _ in range(min(batch.loose, len(self.loose)))]:
            self.loose_bytes -= len(record.line)
        if not self.lanes or not batch.marks:
            return
        for name, place in batch.marks.items():
            self.lanes[name].settle(place)
        places = {name: list(lane.place) for name, lane in self.lanes.items()}
        try:  # without fsync: a cursor that is lost costs a second sending, and what is sent twice counts once
            replace_file(self.folder / CURSOR, json.dumps(places).encode(), sync=False)
        except OSError as error:
            self.fault = self.tell(error)

    def put_aside(self, batch: ReportBatch) -> None:
        if self.lock is None:
            return
        try:
            with (self.folder / REFUSED).open("ab") as file:
                if file.tell() < REFUSED_BYTES:
                    file.write(b"".join(line + b"\n" for line in batch.lines))
        except OSError as error:
            self.fault = self.tell(error)

    def tell(self, error: OSError) -> str:
        why = error.strerror or type(error).__name__
        return f"{self.folder} cannot be written or read ({why}); what is reported meanwhile is kept in memory only"

    def release(self) -> None:
        """Leave the folder to others."""
        for lane in self.lanes.values():
            lane.close()
        self.lanes = {}
        if self.lock is not None:
            self.lock.close()
            self.lock = None


def lock_file(path: Path) -> IO[bytes] | None:
    """The lock, which the system gives back when the process ends, however that happens; None if another has it."""
    file = path.open("ab")
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
    """How far each lane is settled; from the beginning where that cannot be read."""
    places: dict[str, LogPosition] = dict.fromkeys(REPORT_KINDS, (0, 0))
    try:
        document = json.loads(path.read_bytes())
        for name in REPORT_KINDS:
            number, offset = (int(value) for value in document[name])
            places[name] = (max(0, number), max(0, offset))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
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
