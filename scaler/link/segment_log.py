"""Append-only log of JSON lines in files of one folder, read in order until acknowledged.

Files `NAME-000000000001.jsonl`, ... grow one after the other. A process begins a file of its own, so that a line which
a crash tore is the last of its file, and is skipped. What was written is flushed to the disk (fsync) once per call.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from scaler.model.files import open_private, sync_folder

LOG = logging.getLogger("scaler.link")
LogPosition = tuple[int, int]  # number of a file, bytes into it


@dataclass(slots=True)
class Segment:
    path: Path
    size: int
    lines: int  # that are whole


class SegmentLog:
    """Log of one kind of records; for one thread of one process."""

    def __init__(self, folder: Path, name: str, position: LogPosition, segment_bytes: int) -> None:
        self.folder, self.name, self.segment_bytes = folder, name, segment_bytes
        self.file: IO[bytes] | None = None
        self.segments: dict[int, Segment] = {}
        for path in sorted(folder.glob(f"{name}-*.jsonl")):
            number = path.stem[len(name) + 1 :]
            if number.isascii() and number.isdigit() and path.is_file():
                content = path.read_bytes()
                self.segments[int(number)] = Segment(path, len(content), content.count(b"\n"))
        self.position = self.check_position(position)  # what lies before is acknowledged
        self.acknowledged_lines = self.count_before(self.position)
        self.acknowledge(self.position)

    def check_position(self, position: LogPosition) -> LogPosition:
        """The position where a line can begin; else that of the oldest line: what is sent twice counts once."""
        number, offset = position
        if not self.segments:
            return position
        if number <= max(self.segments):
            segment = self.segments.get(number)
            if segment is None or offset == 0 or segment.path.read_bytes()[:offset][offset - 1 :] == b"\n":
                return position
        LOG.warning("the cursor of %s in %s points where no line begins; all is sent again", self.name, self.folder)
        return (0, 0)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments.values())

    @property
    def waiting(self) -> int:
        return sum(segment.lines for segment in self.segments.values()) - self.acknowledged_lines

    def append(self, lines: Iterable[bytes]) -> None:
        """Append all lines; after an OSError it is unknown how many were written, and the next call begins a file."""
        content = b"".join(line + b"\n" for line in lines)
        try:
            number = self.open()
            assert self.file is not None
            self.file.write(content)
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError:
            self.close()
            raise
        segment = self.segments[number]
        segment.size += len(content)
        segment.lines += content.count(b"\n")
        if segment.size >= self.segment_bytes:
            self.close()

    def open(self) -> int:
        """Open a file to write to; its number."""
        if self.file is None:
            number = max([self.position[0], *self.segments], default=0) + 1
            while (path := self.folder / f"{self.name}-{number:012d}.jsonl").is_dir():
                number += 1
            self.file = open_private(path, "ab")
            sync_folder(self.folder)
            self.segments[number] = Segment(path, 0, 0)
        return max(self.segments)

    def close(self) -> None:
        """Write to another file from now on."""
        if self.file is None:
            return
        with suppress(OSError):
            self.file.close()
        self.file = None
        segment = self.segments[max(self.segments)]
        with suppress(OSError):
            content = segment.path.read_bytes()
            segment.size, segment.lines = len(content), content.count(b"\n")

    def read(self, max_lines: int, max_bytes: int) -> tuple[list[bytes], LogPosition]:
        """Lines that are not acknowledged, the oldest first, and where they end; one at least if there is any."""
        found: list[bytes] = []
        number, offset = self.position
        size = 0
        for n in sorted(n for n in self.segments if n >= number):
            at = offset if n == number else 0
            with self.segments[n].path.open("rb") as file:
                file.seek(at)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # torn
                    if len(found) >= max_lines or (found and size + len(line) > max_bytes):
                        return found, (n, at)
                    found.append(line[:-1])
                    size += len(line)
                    at += len(line)
            number, offset = n, at
        return found, (number, offset)

    def acknowledge(self, position: LogPosition) -> None:
        """Delete what lies before this position."""
        position = max(position, self.position)
        for number in [n for n in self.segments if n < position[0]]:
            self.delete(number)
        self.position = position
        self.acknowledged_lines = self.count_before(position)
        segment = self.segments.get(position[0])
        if segment is not None and position[1] >= segment.size and self.file is None:
            self.delete(position[0])
            self.acknowledged_lines = 0

    def drop_oldest(self) -> int:
        """Give up the oldest file; how many lines were lost."""
        number = min(self.segments)
        if number == max(self.segments):
            self.close()
        lost = self.segments[number].lines - (self.acknowledged_lines if number == self.position[0] else 0)
        self.delete(number)
        self.position = max(self.position, (number + 1, 0))
        self.acknowledged_lines = self.count_before(self.position)
        return lost

    def delete(self, number: int) -> None:
        """A file that cannot be deleted is read again after the next start: what is sent twice counts once."""
        with suppress(OSError):
            self.segments[number].path.unlink(missing_ok=True)
        del self.segments[number]

    def count_before(self, position: LogPosition) -> int:
        segment = self.segments.get(position[0])
        if segment is None or position[1] == 0:
            return 0
        try:
            with segment.path.open("rb") as file:
                return file.read(position[1]).count(b"\n")
        except OSError:
            return 0
