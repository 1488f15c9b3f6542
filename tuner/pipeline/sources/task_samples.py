"""Events of logs flow in; a sample a task flows out, under its operator.

task_* and tuples are those of tasks at the operator's entry (job.py says which these are). busy is of all its tasks,
also of those that failed, were killed or ran for speculation: they kept a replica from other work, but what they took
in is counted where they succeeded. Records are those read from the input, or from a shuffle where a stage reads one.
Where an operator is several stages without a profile, the fit of task_* is of the first: compare task_time with busy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.pipeline.sources.context import LogContext, of_kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def make_task_samples(events: DataFrame, context: LogContext) -> DataFrame:
    from pyspark.sql import functions as f

    from tuner.pipeline.sources.sample_schema import shape_frame

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
    from pyspark.sql import functions as f

    return f.when(first > 0, first).otherwise(f.coalesce(second, first))
