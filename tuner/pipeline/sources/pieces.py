"""Cut the files of event logs into pieces of about equal work; refuse logs of no use."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.pipeline.sources.damage import Counts, note_damage
from tuner.pipeline.sources.found import InputFile
from tuner.pipeline.sources.log_file import FilePiece

LEAST, MOST = 16 << 20, 128 << 20  # bytes of a plain log that a task reads: starting one costs as much as some MB
EXPANDS = 12  # times, about, that Spark's compressed logs grow; decides only how files are shared out
STREAMING = {"stage", "progress", "query"}


def cut_pieces(found: Sequence[InputFile], slots: int, split: bool = True) -> list[list[FilePiece]]:
    """Bundles of about equal work for so many tasks at a time: stretches of large files, many small files together."""
    stretch = min(max(LEAST, sum(map(weigh, found)) // slots + 1), MOST)
    pieces: list[tuple[int, FilePiece]] = []
    for file in found:
        if file.codec != "none" or file.size <= stretch or not split:
            pieces.append((weigh(file), FilePiece(file.log, file.path, file.codec, limits=file.limits)))
            continue
        pieces += [
            (stretch, FilePiece(file.log, file.path, "none", start, min(start + stretch, file.size)))
            for start in range(0, file.size, stretch)
        ]
    bundles: list[list[FilePiece]] = []
    room = 0
    for size, piece in sorted(pieces, key=lambda each: -each[0]):
        if room < size or not bundles:
            bundles.append([])
            room = stretch
        bundles[-1].append(piece)
        room -= size
    return bundles


def weigh(file: InputFile) -> int:
    """Bytes of text in a file, about."""
    return file.size * (1 if file.codec == "none" else EXPANDS)


def refuse(files: Sequence[InputFile], counts: Counts) -> str:
    """Why nothing can be read from these logs."""
    name = files[0].path if len(files) == 1 else f"{files[0].log} and {len({f.log for f in files}) - 1} more"
    damage = note_damage(counts)
    if any("oversized" in kinds for kinds in counts.values()):
        return damage[0]
    if damage and not any({"application", "task", "executor"} & kinds.keys() for kinds in counts.values()):
        return f"{damage[0]}, and nothing else is in it; give the log as Spark wrote it"
    return f"{name}: the application ran no streaming query; give the event log of a Structured Streaming application"
