"""Read Spark's event logs, of any codec, into samples of tasks, replicas and batches, and links.

Python tasks read the files where they are, a large plain one in stretches; only a few numbers an event leave them, and
these are kept on the executors, so that samples, links and notes come from the same pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from scaler.model.errors import BadInput
from tuner.pipeline.sources.damage import Counts, note_damage
from tuner.pipeline.sources.found import InputFile, find_gaps
from tuner.pipeline.sources.log_file import FilePiece, LogEvent, arrow_schema, read_piece
from tuner.pipeline.sources.log_samples import (
    find_context,
    make_batch_samples,
    make_links,
    make_replica_samples,
    make_task_samples,
)
from tuner.pipeline.sources.pieces import STREAMING, cut_pieces, refuse
from tuner.pipeline.sources.sample_schema import SourceResult, ddl, unite

Reader = Callable[[FilePiece], Iterator[pa.RecordBatch]]


def read_events(spark: SparkSession, bundles: list[list[FilePiece]], read: Reader) -> DataFrame:
    """Read the events of all pieces now, and keep them while the frame is used."""
    return map_pieces(spark, bundles, read).localCheckpoint(eager=True)


def map_pieces(spark: SparkSession, bundles: list[list[FilePiece]], read: Reader) -> DataFrame:
    """A frame of the events of all pieces, read each time that it is used."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for piece in bundles[index]:
                    yield from read(piece)

    tasks = spark.range(0, len(bundles), 1, len(bundles))
    return tasks.mapInArrow(run, ddl(LogEvent))


def collect_events(spark: SparkSession, found: Sequence[InputFile]) -> pa.Table:
    """Read the events of all files by Spark's tasks into this process."""
    bundles = cut_pieces(found, spark.sparkContext.defaultParallelism)
    return map_pieces(spark, bundles, read_piece).toArrow().cast(arrow_schema())


def count_kinds(events: DataFrame) -> Counts:
    """Count events by log and kind, of damaged lines the lines; a few numbers a log reach the driver."""
    lines = f.when(f.col("kind") == "corrupt", f.col("number")).otherwise(1)
    counts: dict[str, dict[str, int]] = {}
    for row in events.groupBy("log", "kind").agg(f.sum(lines).alias("n")).collect():
        counts.setdefault(row["log"], {})[row["kind"]] = row["n"]
    return counts


def read_event_log(
    spark: SparkSession, found: Sequence[InputFile], application: str | None, strict: bool
) -> SourceResult:
    """Read event logs; of a rolling log all files are needed, for one explains the next."""
    events = read_events(spark, cut_pieces(found, spark.sparkContext.defaultParallelism), read_piece)
    counts = count_kinds(events)
    logs = {file.log for file in found}
    streaming = [log for log, kinds in counts.items() if STREAMING & kinds.keys()]
    if not streaming and strict:
        raise BadInput(refuse(found, counts))
    context = find_context(events, application)
    made = make_task_samples(events, context), make_replica_samples(events, context)
    samples = unite((*made, make_batch_samples(events, context.queries)))
    if any(file.compact for file in found):  # it repeats what its originals hold, where these are still there
        samples = samples.dropDuplicates(["operator", "key"])
    rest = len(logs) - len(streaming)
    idle = [f"{rest} of {len(logs)} event logs ran no streaming query and say nothing"] if rest else []
    return SourceResult(samples, make_links(events, context.queries), (*note_damage(counts), *find_gaps(found), *idle))
