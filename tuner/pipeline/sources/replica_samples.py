"""Events of logs flow in; a sample a minute of every executor flows out, under the operators that it works for.

Replicas are the executors of the operator's profile, `cores / cpus a task` each, from its first job in this profile to
the last. Only minutes that were over when the log was read are told, so that a row never changes once it was there.
Where queries share a profile, each has all of its executors: they are what it may use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.pipeline.sources.context import LogContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MINUTE = 60_000  # ms


def make_replica_samples(events: DataFrame, context: LogContext) -> DataFrame:
    from pyspark.sql import functions as f

    from tuner.pipeline.sources.sample_schema import shape_frame

    minutes = f.sequence(f.floor(f.col("from") / MINUTE), f.floor(f.col("to") / MINUTE))
    rows = find_stretches(events, context).where(f.col("from") < f.col("to")).withColumn("minute", f.explode(minutes))
    start = f.greatest("from", f.col("minute") * MINUTE)
    end = f.least("to", (f.col("minute") + 1) * MINUTE)
    over = f.col("ended").isNotNull() | ((f.col("minute") + 1) * MINUTE <= f.col("last"))
    return shape_frame(
        rows.where(over & (start < end)),
        {
            "start": start / 1000,
            "end": end / 1000,
            "evidence": f.lit("tasks"),
            "key": f.concat_ws("/", "app", f.lit("executor"), "executor", "minute"),
            "replicas": f.col("slots"),
        },
    )


def find_stretches(events: DataFrame, context: LogContext) -> DataFrame:
    """From when to when each executor works for each operator."""
    from pyspark.sql import functions as f

    over = f.when(f.col("kind") == "end", f.col("time"))
    logs = events.groupBy("log").agg(f.greatest(f.max("end"), f.max("time")).alias("last"), f.max(over).alias("ended"))
    jobs = context.stages.groupBy("log", "operator", "profile", "application", "app")
    used = jobs.agg(f.min("submitted").alias("first"), f.max("submitted").alias("final"))
    minute_of_final = (f.floor(f.col("final") / MINUTE) + 1) * MINUTE
    return (
        f.broadcast(context.executors)
        .join(used, ["log", "profile"])
        .join(f.broadcast(logs), "log")
        .withColumn("from", f.greatest("since", "first"))
        .withColumn("to", f.least("until", "ended", "last", minute_of_final))
    )
