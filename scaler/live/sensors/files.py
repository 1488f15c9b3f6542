"""A file source's own log and the folder that it reads flow in; the files that it left to wait flow out.

A batch that takes no more than so many files leaves others behind, and progress does not tell of them. The log in the
checkpoint (sources/0/N) names the files that each batch took, with the times of their last change; they are taken in
this order. So a file waits that is no older than the newest one taken, is not among those taken last, and was there
when the last trigger began. Of a folder that another query writes, the sink's log (_spark_metadata) says which files
are there. Local folders alone are looked at, without subfolders; nothing is known of others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RECENT = 8  # entries of a log that are read
LARGEST = 4_000_000  # bytes of one, beyond which it is left alone
MANY = 50_000  # files of a folder, beyond which it is not listed
MARKS = "*?[{"
COMMITS = "_spark_metadata"


@dataclass(frozen=True, slots=True)
class Waiting:
    files: int
    oldest: float | None  # when the one that waits longest came
    a_batch: float  # files that a batch took lately


@dataclass(frozen=True, slots=True)
class File:
    path: str
    time: int  # of its last change, ms since 1970


def find_waiting(folder: str, checkpoint: str, before: float) -> Waiting | None:
    """Files that came before this moment and are not taken; None where that cannot be told."""
    source, log = local(folder), local(checkpoint)
    if source is None or log is None or any(mark in folder for mark in MARKS):
        return None
    try:
        entries = read_log(log / "sources" / "0")
        taken = [file for entry in entries for file in entry]
        if not taken:
            return None
        newest, paths = max(file.time for file in taken), {local(file.path) for file in taken}
        left = [
            file.time
            for file in list_files(source)
            if newest <= file.time <= before * 1000.0 and local(file.path) not in paths
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Waiting(len(left), min(left) / 1000.0 if left else None, len(taken) / len(entries))


def local(place: str) -> Path | None:
    """A path, or an address with the scheme "file"."""
    if place.startswith("file:"):
        return Path("/" + place.removeprefix("file:").lstrip("/"))
    return Path(place) if place.startswith("/") else None


def read_log(folder: Path) -> list[list[File]]:
    """What the last entries name, an entry a batch; that a compacted one repeats of older ones is left out."""
    entries = []
    for number, path in list_entries(folder)[:RECENT]:
        lines = [json.loads(line) for line in read_lines(path)]
        entries.append(
            [File(str(at["path"]), int(at["timestamp"])) for at in lines if int(at.get("batchId", number)) == number]
        )
    return [entry for entry in entries if entry]


def list_files(folder: Path) -> Iterator[File]:
    """Those that are whole."""
    commits = folder / COMMITS
    if commits.is_dir():
        for _, path in list_entries(commits)[:RECENT]:
            for line in read_lines(path):
                file = json.loads(line)
                yield File(str(file["path"]), int(file["modificationTime"]))
        return
    with os.scandir(folder) as found:
        for number, file in enumerate(found):
            if number >= MANY:
                raise ValueError(f"{folder} holds too many files to be listed each slot")
            if not file.name.startswith((".", "_")) and file.is_file():
                yield File(file.path, file.stat().st_mtime_ns // 1_000_000)


def list_entries(folder: Path) -> list[tuple[int, Path]]:
    """Numbered files, the last one first."""
    names = [(path.name.removesuffix(".compact"), path) for path in folder.iterdir()]
    return sorted(((int(name), path) for name, path in names if name.isdecimal()), reverse=True)


def read_lines(path: Path) -> list[str]:
    """Without the first, which tells the version."""
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} is too large to be read each slot")
    return [line for line in path.read_text(encoding="utf-8").splitlines()[1:] if line.strip()]
