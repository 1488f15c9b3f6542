"""Find the files at a path that hold a stream's monitoring, and of which kind each is.

A file is known by what it begins with; only compressed logs and tables are known by their suffix.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scaler.model.bounded_file import ReadLimits, is_special, open_regular
from scaler.model.errors import BadInput
from tuner.pipeline.sources.codec import LIMITS, find_codec

ROLLING = re.compile(r"events_(?P<part>\d+)_.+")
PEEK = 4096
TABLES = (".csv", ".csv.gz", ".parquet")
SKIPPED = re.compile(r"[._].*|appstatus_.*|.*\.crc")
REMOTE = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]+://")
WANTED = "an event log, StreamingQueryProgress as JSON, lines of a timer, or a table in CSV or Parquet"


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file; `log` is what files of one application's log, or of one kind, have in common."""

    path: str
    kind: str  # a name in SOURCES
    log: str
    codec: str = "none"
    size: int = 0
    part: int | None = None  # of a rolling log
    compact: bool = False
    limits: ReadLimits = LIMITS


def detect(*paths: str | Path, limits: ReadLimits = LIMITS, wanted: str = WANTED) -> list[InputFile]:
    """The files at these paths and below, but no log in progress beside the finished one; refused where none is."""
    empty: list[str] = []
    found = [file for path in paths for file in search(path, empty, limits, wanted)]
    names = ", ".join(map(str, paths[:3])) + (" and others" if len(paths) > 3 else "")
    if not found and empty:
        raise BadInput(f"{empty[0]} is empty; name {wanted}")
    if not found:
        raise BadInput(f"{names}: nothing there is known; name {wanted}")
    finished = {file.log for file in found if not file.path.endswith(".inprogress")}
    return [file for file in found if not (file.path.endswith(".inprogress") and file.log in finished)]


def search(path: str | Path, empty: list[str], limits: ReadLimits, wanted: str) -> list[InputFile]:
    name = str(path)
    if name.startswith(("http://", "https://")):
        return [InputFile(name, "progress", name)]
    if REMOTE.match(name):
        raise BadInput(f"{name} is not on this machine; mount or copy it, and name the folder")
    place = Path(path).absolute()
    if not place.exists():
        raise BadInput(f"{name} does not exist; name {wanted}")
    return [file for each in list_files(place) if (file := classify_file(each, empty, limits)) is not None]


def list_files(place: Path) -> Iterator[Path]:
    if not place.is_dir():
        yield place
        return
    for folder, inner, names in os.walk(place):
        inner[:] = sorted(each for each in inner if not SKIPPED.fullmatch(each))
        files = (Path(folder, name) for name in sorted(names) if not SKIPPED.fullmatch(name))
        yield from (path for path in files if not is_special(path))


def classify_file(path: Path, empty: list[str], limits: ReadLimits) -> InputFile | None:
    """Classify a file; None where it holds no monitoring."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(PEEK)
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); make it readable, or leave it out") from error
    if not head:
        empty.append(str(path))
        return None
    rolling = ROLLING.fullmatch(path.name) if path.parent.name.startswith("eventlog_v2_") else None
    codec = find_codec(str(path))
    kind = "event-log" if rolling or codec != "none" else recognise(path.name, head)
    if kind is None:
        return None
    whole = path.with_name(path.name.removesuffix(".inprogress").removesuffix(f".{codec}"))
    log = str(path.parent if rolling else whole) if kind == "event-log" else kind
    part = int(rolling["part"]) if rolling else None
    return InputFile(str(path), kind, log, codec, size, part, path.name.endswith(".compact"), limits)


def recognise(name: str, head: bytes) -> str | None:
    """Kind of a file by its beginning."""
    if name.lower().endswith(TABLES) or head.startswith(b"PAR1"):
        return "table"
    text = head.decode("utf-8-sig", errors="replace").lstrip()
    if text.startswith('{"Event":'):
        return "event-log"
    if not text.startswith(("{", "[")):
        return None
    try:
        line = json.loads(text.splitlines()[0])
    except (ValueError, RecursionError):
        line = None
    if isinstance(line, dict) and "Event" in line:
        return "event-log"
    if isinstance(line, dict) and "operator" in line:
        return "records"
    return "progress" if '"runId"' in text or '"progress"' in text else None


def find_gaps(found: Iterable[InputFile]) -> list[str]:
    """A sentence for every rolling log that lacks parts; a compacted part stands for all up to it."""
    parts: dict[str, set[int]] = {}
    compacted: dict[str, int] = {}
    for file in found:
        if file.part is not None:
            parts.setdefault(file.log, set()).add(file.part)
            if file.compact:
                compacted[file.log] = max(compacted.get(file.log, 0), file.part)
    sentences = []
    for log, seen in sorted(parts.items()):
        missing = sorted(set(range(compacted.get(log, 0) + 1, max(seen) + 1)) - seen)
        if missing:
            sentences.append(f"{log} lacks part {', '.join(map(str, missing[:5]))}: what it held is not known")
    return sentences
