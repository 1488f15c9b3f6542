"""Files of a file source: which each batch took, which wait, and how many tuples they are taken to hold.

Offsets of a file source count no tuples, and no report comes while a long batch runs; the files are there to be
counted. Each is taken for as many tuples as files of recent batches had.

The log in the checkpoint (sources/0/N) names the files that each batch took, with the times of their last change; they
are taken in this order. A batch's entry is there before it runs, so that of the batch under way is known, too, and what
was deleted once it was taken still counts. Of a folder that another query writes, the sink's log (_spark_metadata) says
which files are there; they arrived when they were committed. Only local folders are read; nothing is known of one with
others in it, nor where files are passed over, as filters and the option latestFirst do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from scaler.model.spark_progress import STARTED
from scaler.sensing.query_history import ArrivalSpan, QueryPast

MAX_LOG_ENTRIES = 8  # entries of a log that are read
MAX_LOG_BYTES = 4_000_000  # bytes of one, beyond which it is left alone
MAX_FILES = 50_000  # files of a folder, beyond which it is not listed
MAX_SKIPPED_SHARE = 0.1  # of the files among those taken: such as arrived late with an early time
GLOB_CHARACTERS = "*?[{"
HIDDEN_PREFIXES = (".", "_")
SINK_LOG = "_spark_metadata"
COMPACT_SUFFIX = ".compact"


@dataclass(frozen=True, slots=True)
class SourceFile:
    path: Path
    time: int  # of its last change, ms since 1970
    arrived: float  # seconds since 1970


@dataclass(frozen=True, slots=True)
class WaitingFiles:
    files: int
    oldest: float | None  # arrival of the one that waits longest


@dataclass(frozen=True, slots=True)
class SourceFolder:
    """Files that recent batches took (`entries`, by number of the log's entry) and that are in the folder (`there`)."""

    entries: Mapping[int, Sequence[SourceFile]]
    there: Mapping[Path, SourceFile]

    def taken(self, upto: int | None = None) -> dict[Path, SourceFile]:
        """Files taken by the entries read; only up to this one, if it is given."""
        some = [entry for number, entry in self.entries.items() if upto is None or number <= upto]
        return {file.path: file for entry in some for file in entry}

    def find_untaken(self) -> list[SourceFile]:
        """Files that are there, are not taken, and are no older than the newest one taken."""
        taken = self.taken()
        newest = max(file.time for file in taken.values())
        return [file for file in self.there.values() if file.time >= newest and file.path not in taken]

    def count_arrived(self, first: float, last: float, upto: int) -> int:
        """Files that arrived in (first, last], but for those that a batch took by this entry."""
        before, known = self.taken(upto), {**self.taken(), **self.there}
        return sum(first < file.arrived <= last and path not in before for path, file in known.items())

    def find_waiting(self, first: float, last: float) -> WaitingFiles:
        """Files that arrived in (first, last] and are not taken."""
        left = [file.arrived for file in self.find_untaken() if first < file.arrived <= last]
        return WaitingFiles(len(left), min(left, default=None))


def read_source_folder(folder: str, checkpoint: str) -> SourceFolder | None:
    """Read a file source's folder and log; None where these do not say what waits, or nothing was ever taken."""
    source, log = to_local_path(folder), to_local_path(checkpoint)
    if source is None or log is None or any(mark in folder for mark in GLOB_CHARACTERS):
        return None
    try:
        entries = read_log(log / "sources" / "0")
        taken = [file for entry in entries.values() for file in entry]
        if not taken:
            return None
        since = min(file.time for file in taken)
        found = SourceFolder(entries, {file.path: file for file in list_files(source, since)})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None
    return None if skips_files(found, since) else found


def skips_files(folder: SourceFolder, since: int) -> bool:
    """Whether too many files are older than some that were taken, and were not taken themselves."""
    taken = folder.taken()
    newest = max(file.time for file in taken.values())
    over = sum(since < file.time < newest and path not in taken for path, file in folder.there.items())
    return over > MAX_SKIPPED_SHARE * len(taken)


def to_local_path(place: str) -> Path | None:
    """Convert a path, or an address with the scheme "file"; None for other addresses."""
    if place.startswith("file:"):
        return Path("/" + place.removeprefix("file:").lstrip("/"))
    return Path(place) if place.startswith("/") else None


def read_path(address: object) -> Path:
    """Parse a path as logs write it."""
    found = to_local_path(unquote(str(address)))
    if found is None:
        raise ValueError(f"{address} is no local file")
    return found


def read_log(folder: Path) -> dict[int, list[SourceFile]]:
    """Files that the last entries name; those that a compacted one repeats of older ones are left out."""
    entries = {}
    for number, path in list_entries(folder)[:MAX_LOG_ENTRIES]:
        lines = [json.loads(line) for line in read_lines(path)]
        own = [at for at in lines if int(at.get("batchId", number)) == number]
        times = [(read_path(at["path"]), int(at["timestamp"])) for at in own]
        entries[number] = [SourceFile(file, time, time / 1000.0) for file, time in times]
    return {number: entry for number, entry in entries.items() if entry}


def list_files(folder: Path, since: int) -> Iterator[SourceFile]:
    """Whole files of a folder; of another query's, all from this time on."""
    commits = folder / SINK_LOG
    if commits.is_dir():
        yield from list_committed(commits, since)
        return
    with os.scandir(folder) as found:
        for number, file in enumerate(found):
            if number >= MAX_FILES:
                raise ValueError(f"{folder} holds too many files to be listed each slot")
            if file.is_dir() and not file.name.startswith(HIDDEN_PREFIXES):
                raise ValueError(f"{folder} holds folders, and what is in them is not listed")
            if not file.name.startswith(HIDDEN_PREFIXES):
                with suppress(FileNotFoundError):  # it was taken, and is deleted
                    time = file.stat().st_mtime_ns // 1_000_000
                    yield SourceFile(Path(file.path), time, time / 1000.0)


def list_committed(commits: Path, since: int) -> Iterator[SourceFile]:
    """From the last entry back to one in which all is older; a compacted one repeats those before it, without times."""
    for _, path in list_entries(commits):
        files = [json.loads(line) for line in read_lines(path)]
        times = [(read_path(file["path"]), int(file["modificationTime"])) for file in files]
        compact = path.suffix == COMPACT_SUFFIX
        commit = path.stat().st_mtime
        yield from (SourceFile(file, time, time / 1000.0 if compact else commit) for file, time in times)
        if compact or max((time for _, time in times), default=since) < since:
            return


def list_entries(folder: Path) -> list[tuple[int, Path]]:
    """Numbered files, the last one first."""
    names = [(path.name.removesuffix(COMPACT_SUFFIX), path) for path in folder.iterdir()]
    return sorted(((int(name), path) for name, path in names if name.isdecimal()), reverse=True)


def read_lines(path: Path) -> list[str]:
    """Lines of a log without the first, which is the version."""
    if path.stat().st_size > MAX_LOG_BYTES:
        raise ValueError(f"{path} is too large to be read each slot")
    return [line for line in path.read_text(encoding="utf-8").splitlines()[1:] if line.strip()]


def estimate_rows_per_file(past: QueryPast, folder: SourceFolder) -> float | None:
    """Tuples of a file, over the batches whose entries are known; None where none is."""
    rows = {t.entry: t.rows for t in past.triggers if t.entry in folder.entries and t.rows is not None}
    files = sum(len(folder.entries[entry]) for entry in rows if entry is not None)
    return sum(rows.values()) / files if files else None


def find_unreported_arrivals(
    past: QueryPast, folder: SourceFolder | None, start: float, end: float, run: str | None
) -> ArrivalSpan | None:
    """Arrivals in the slot since the last report of the present run; None where nothing is known of them."""
    events = list(past.events())
    if folder is None or not events or events[-1][0] == STARTED or events[-1][1].run != run:
        return None
    first, rows = max(start, events[-1][1].time), estimate_rows_per_file(past, folder)
    entry = next((trigger.entry for trigger in reversed(past.triggers) if trigger.entry is not None), None)
    if first >= end or rows is None or entry is None:
        return None
    return ArrivalSpan(first, end, rows * folder.count_arrived(first, end, entry))
