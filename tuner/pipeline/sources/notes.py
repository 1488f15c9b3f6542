"""Events flow in; how many of each kind a log has, and a sentence for what of it could not be read, flow out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MENTIONED = 20  # logs told apart before the rest is only counted
Counts = Mapping[str, Mapping[str, int]]


def count_kinds(events: DataFrame) -> Counts:
    """By log and kind, how many events; of damaged lines, how many lines. A few numbers a log reach the driver."""
    from pyspark.sql import functions as f

    lines = f.when(f.col("kind") == "corrupt", f.col("number")).otherwise(1)
    counts: dict[str, dict[str, int]] = {}
    for row in events.groupBy("log", "kind").agg(f.sum(lines).alias("n")).collect():
        counts.setdefault(row["log"], {})[row["kind"]] = row["n"]
    return counts


def note_damage(counts: Counts) -> list[str]:
    notes = []
    for log, kinds in sorted(counts.items()):
        if lines := kinds.get("corrupt"):
            notes.append(
                f"{log}: {'1 line' if lines == 1 else f'{lines} lines'} could not be read and had to be left out"
            )
        if kinds.get("cut"):
            notes.append(f"{log} breaks off in the middle; what was whole before that is read")
        if kinds.get("unreadable"):
            notes.append(f"{log}: Spark's tasks cannot open a file of it; all of them must see the folder")
    if len(notes) > MENTIONED:
        notes = [*notes[:MENTIONED], f"{len(notes) - MENTIONED} more notes of this kind"]
    return notes
