"""One sample of every task, and one a minute of every executor, under their operators.

task_* and tuples are those of tasks at the operator's entry (see `event_lines`). busy is of all its tasks, also of
those that failed, were killed or ran for speculation: they kept a replica from other work, but what they took in is
counted where they succeeded. Records are those read from the input, or from a shuffle where a stage reads one. Where an
operator is several stages without a profile, the fit of task_* is of the first: compare task_time with busy.

Replicas are the executors of the operator's profile, `cores / cpus a task` each, from its first job in this profile to
the last. Only minutes that were over when the log was read have a sample, so that a row never changes once it was
there. Where queries share a profile, each has all of its executors: they are what it may use.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from tuner.pipeline.sources.context import LogContext, of_kind
from tuner.pipeline.sources.sample_schema import shape_frame


def make_task_samples(events: DataFrame, context: LogContext) -> DataFrame:
    columns = ("stage", "attempt", "task", "executor", "success", "time", "end", "run_ms")
    rows = of_kind(events, "task", *columns, "records", "shuffled", "written", "shuffle_written")
    of = f.broadcast(context.executors.select("log", "executor", "node_type"))
    joined = rows.join(context.stages, ["log", "stage"]).join(of, ["log", "executor"], "left")
    taken = f.when(f.col("success") & f.col("entry"), more(f.col("records"), f.col("shuffled")))
    n = f.when(taken > 0, taken)
    t = f.when(n.isNotNull() & f.col("run_ms").isNotNull(), f.col("run_ms") / 1000)
    out = more(f.col("written"), f.col("shuffle_written"))
    return shape_frame(
        joined,
        {
            "start": f.col("time") / 1000,
            "end": f.greatest(f.col("end"), f.col("time") + 1) / 1000,
            "evidence": f.lit("tasks"),
            "key": f.concat_ws("/", "app", "stage", "attempt", "task"),
            "tuples_in": taken,
            "tuples_out": f.when(f.col("success") & f.col("leaving") & (out > 0), out),
            "task_n": f.when(t.isNotNull(), 1),
            "task_records": f.when(t.isNotNull(), n),
            "task_time": t,
            "task_inverse": f.when(t.isNotNull(), 1 / n),
            "task_rates": t / n,
            "task_squares": t * t / n,
            "busy": f.coalesce("run_ms", f.col("end") - f.col("time")) / 1000,
        },
    )


def more(first: Column, second: Column) -> Column:
    """The first count unless it is zero or unknown."""
    return f.when(first > 0, first).otherwise(f.coalesce(second, first))


MINUTE = 60_000  # ms


def make_replica_samples(events: DataFrame, context: LogContext) -> DataFrame:
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
