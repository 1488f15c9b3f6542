"""Two samples of every trigger: the batch's work, and the arrivals since the trigger before.

    work      [trigger, its end)            tuples in and out, the batch and its duration, the backlog it left
    arrivals  [trigger before, trigger)     tuples that arrived, the interval

A restart is a new run: its first trigger does not say what arrived before it. A trigger that found nothing to do ran no
batch but says that nothing arrived. Arrivals are the growth of the sources' latest offsets where these count tuples,
and else the rows of the batch, which is all that arrived as long as no limit holds any back.

Of a query that is several operators, these samples are the first one's: what arrives at the query arrives there.

The mean response time is estimated where the batch left no backlog: a tuple waits half the interval before its batch
begins, and for the whole of its duration.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from tuner.pipeline.sources.context import name_part
from tuner.pipeline.sources.sample_schema import shape_frame


def order_triggers(events: DataFrame) -> DataFrame:
    """Every trigger once, with the one before it in its run, and the batch before it."""
    columns = ("query", "run", "batch", "time", "run_ms", "records", "written", "executed", "latest", "backlog")
    rows = events.where(events.kind == "progress").select("log", *columns).repartition("query", "run")
    rows = rows.dropDuplicates(["query", "run", "batch", "time"])  # where they are: partitioned by the first two
    run = Window.partitionBy("query", "run").orderBy("time", "batch")
    past = run.rowsBetween(Window.unboundedPreceding, -1)
    return rows.withColumns(
        {
            "before": f.lag("time").over(run),
            "batch_before": f.last(f.when(f.col("executed"), f.col("time")), ignorenulls=True).over(past),
            "latest_before": f.lag("latest").over(run),
        }
    )


def make_batch_samples(events: DataFrame, queries: DataFrame) -> DataFrame:
    named = order_triggers(events).join(f.broadcast(queries), ["log", "query"])
    triggers = named.withColumns({"evidence": f.lit("progress"), "operator": f.col("entry_operator")})
    works = f.col("executed") & f.col("run_ms").isNotNull()
    both = triggers.withColumn("of", f.explode(f.array(f.lit("work"), f.lit("arrivals"))))
    rows = both.where(
        ((f.col("of") == "work") & works) | ((f.col("of") == "arrivals") & (f.col("before") < f.col("time")))
    )

    def work(column: Column) -> Column:
        return f.when(f.col("of") == "work", column)

    def came(column: Column) -> Column:
        return f.when(f.col("of") == "arrivals", column)

    seconds, interval = f.col("run_ms") / 1000, (f.col("time") - f.col("batch_before")) / 1000
    waited = f.when((f.coalesce("backlog", f.lit(0)) == 0) & (f.col("records") > 0), interval / 2 + seconds)
    grown = f.col("latest") - f.col("latest_before")
    key = f.concat_ws("/", "run", "batch")
    return shape_frame(
        rows,
        {
            "start": f.coalesce(came(f.col("before")), f.col("time")) / 1000,
            "end": (f.col("time") + f.coalesce(work(f.greatest("run_ms", f.lit(1))), f.lit(0))) / 1000,
            "key": f.coalesce(came(f.concat_ws("/", key, "of", "time")), key),
            "arrived": came(f.when(grown >= 0, grown).otherwise(f.col("records"))),
            "tuples_in": work(f.col("records")),
            "tuples_out": work(f.when(f.col("several"), None).otherwise(f.col("written"))),
            "backlog": work(f.col("backlog")),
            "batches": work(f.lit(1)),
            "batch_time": work(seconds),
            "batch_interval": came(f.when(f.col("executed"), interval)),
            "response_n": work(f.when(waited.isNotNull(), f.col("records"))),
            "response_sum": work(f.col("records") * waited),
        },
    )


def make_links(events: DataFrame, queries: DataFrame) -> DataFrame:
    """Links between operators, by the path or topic that a sink and a source have in common.

    Inside a query that is several operators, by the stages.
    """
    ends = events.where(events.kind == "progress").select("log", "query", "reads", "writes").distinct()
    named = ends.join(f.broadcast(queries), ["log", "query"])
    writers = named.select("application", f.col("leaving_operator").alias("upstream"), f.col("writes").alias("place"))
    readers = named.select(
        "application", f.col("entry_operator").alias("downstream"), f.explode("reads").alias("place")
    )
    pairs = writers.join(readers, ["application", "place"]).where("upstream <> downstream")
    stages = events.where(events.kind == "stage").select("log", "query", "profile", f.explode("reads").alias("read"))
    inside = stages.distinct().join(f.broadcast(queries.where("several")), ["log", "query"])
    inner = inside.select(
        "application",
        f.concat_ws("/", "operator", "read").alias("upstream"),
        name_part("profile").alias("downstream"),
    )
    return pairs.select(*inner.columns).union(inner).distinct()
