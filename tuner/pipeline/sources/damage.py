"""Say what of event logs could not be read."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.pipeline.sources.codec import HOW_TO_READ_MORE
from tuner.pipeline.sources.log_file import LONGEST

MENTIONED = 20  # logs told apart before the rest is only counted
Counts = Mapping[str, Mapping[str, int]]  # events by log and kind; of damaged lines the lines


def note_damage(counts: Counts) -> list[str]:
    notes = []
    for log, kinds in sorted(counts.items()):
        if lines := kinds.get("corrupt"):
            notes.append(
                f"{log}: {'1 line' if lines == 1 else f'{lines} lines'} could not be read and had to be left out"
            )
        if kinds.get("cut"):
            notes.append(f"{log} breaks off in the middle; what was whole before that is read")
        if kinds.get("oversized"):
            notes.append(
                f"{log} unpacks to more than it may, or has a line of more than {LONGEST >> 20} MiB; what was before "
                f"that is read: {HOW_TO_READ_MORE}"
            )
        if kinds.get("unreadable"):
            notes.append(f"{log}: Spark's tasks cannot open a file of it; all of them must see the folder")
    if len(notes) > MENTIONED:
        notes = [*notes[:MENTIONED], f"{len(notes) - MENTIONED} more notes of this kind"]
    return notes
