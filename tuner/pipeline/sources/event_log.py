"""Read Spark's event logs, of any codec, into samples of tasks, replicas and batches, and links."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from scaler.model.errors import BadInput
from tuner.pipeline.sources.batch_samples import make_batch_samples, make_links
from tuner.pipeline.sources.context import find_context
from tuner.pipeline.sources.event_frame import Counts, count_kinds, cut_pieces, note_damage, read_events
from tuner.pipeline.sources.found import InputFile, find_gaps
from tuner.pipeline.sources.log_file import read_piece
from tuner.pipeline.sources.sample_schema import SourceResult
from tuner.pipeline.sources.task_samples import make_replica_samples, make_task_samples

STREAMING = {"stage", "progress", "query"}


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
    samples = make_task_samples(events, context)
    samples = samples.unionByName(make_replica_samples(events, context))
    samples = samples.unionByName(make_batch_samples(events, context.queries))
    if any(file.compact for file in found):  # it repeats what its originals hold, where these are still there
        samples = samples.dropDuplicates(["operator", "key"])
    rest = len(logs) - len(streaming)
    idle = [f"{rest} of {len(logs)} event logs ran no streaming query and say nothing"] if rest else []
    return SourceResult(samples, make_links(events, context.queries), (*note_damage(counts), *find_gaps(found), *idle))


def refuse(files: Sequence[InputFile], counts: Counts) -> str:
    """Why nothing can be read from these logs."""
    name = files[0].path if len(files) == 1 else f"{files[0].log} and {len({f.log for f in files}) - 1} more"
    damage = note_damage(counts)
    if damage and not any({"application", "task", "executor"} & kinds.keys() for kinds in counts.values()):
        return f"{damage[0]}, and nothing else is in it; give the log as Spark wrote it"
    return f"{name}: the application ran no streaming query; give the event log of a Structured Streaming application"
