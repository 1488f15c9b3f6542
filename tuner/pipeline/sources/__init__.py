"""Read monitoring files of every kind into fine samples, links between operators and notes on damage.

Each kind of source is one function, (spark, files, application, strict) -> SourceResult, found by its name in SOURCES.
A fine sample has a key: the same thing has the same key whenever it is read, and never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from tuner.pipeline.sources.found import InputFile, detect
from tuner.pipeline.sources.sample_schema import SourceResult, unite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SOURCES", "InputFile", "SourceResult", "detect", "examine"]

SOURCES = {
    "event-log": "tuner.pipeline.sources.event_log:read_event_log",
    "progress": "tuner.pipeline.sources.progress_files:read_progress",
    "records": "tuner.pipeline.sources.sample_files:read_records",
    "table": "tuner.pipeline.sources.sample_files:read_table",
}


def examine(
    spark: SparkSession, found: Sequence[InputFile], application: str | None = None, strict: bool = True
) -> SourceResult:
    """Read files of any kind into samples, links and notes.

    `application` is the name that the samples get; None is each log's own. Files that say nothing of a stream are
    refused if `strict`, and else noted: of a folder that is watched a new file may not say anything yet.
    """
    readings = []
    for kind, place in SOURCES.items():
        files = [file for file in found if file.kind == kind]
        if files:
            module, _, name = place.partition(":")
            readings.append(getattr(import_module(module), name)(spark, files, application, strict))
    return SourceResult(
        unite(reading.samples for reading in readings),
        unite(reading.links for reading in readings),
        tuple(note for reading in readings for note in reading.notes),
    )
