"""Read StreamingQueryProgress documents, from files or an address, into samples of every batch, by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from pyspark.sql import SparkSession

from scaler.model.errors import BadInput
from tuner.pipeline.sources.damage import note_damage
from tuner.pipeline.sources.event_log import count_kinds, read_events
from tuner.pipeline.sources.found import InputFile
from tuner.pipeline.sources.log_file import LogEvent
from tuner.pipeline.sources.log_samples import find_queries, make_batch_samples, make_links
from tuner.pipeline.sources.pieces import cut_pieces
from tuner.pipeline.sources.progress_documents import fetch, is_address, parse_text, read_file
from tuner.pipeline.sources.sample_schema import SourceResult, ddl, unite

EVENT_FIELDS = [field.name for field in fields(LogEvent)]


def read_progress(
    spark: SparkSession, found: Sequence[InputFile], application: str | None, strict: bool
) -> SourceResult:
    if not application:
        raise BadInput(f"{found[0].path} does not say which application it is of; name the application")
    local = [file for file in found if not is_address(file)]
    slots = spark.sparkContext.defaultParallelism
    frames = [read_events(spark, cut_pieces(local, slots, split=False), read_file)] if local else []
    for file in found:
        if is_address(file):
            rows = [tuple(map(row.get, EVENT_FIELDS)) for row in parse_text(fetch(file.path), file.log)]
            frames.append(spark.createDataFrame(rows, ddl(LogEvent)))
    events = unite(frames)
    counts = count_kinds(events)
    if strict and not any("progress" in kinds for kinds in counts.values()):
        raise BadInput(f"{found[0].path}: no progress of a streaming query is in it; write progress.json, one a line")
    queries = find_queries(events, application).localCheckpoint()
    return SourceResult(make_batch_samples(events, queries), make_links(events, queries), tuple(note_damage(counts)))
