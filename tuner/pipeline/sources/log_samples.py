"""Make samples of tasks, executors and batches, and the links between operators, of the events of logs.

One sample of every task. task_* and tuples are those of tasks at the operator's entry (see `event_lines`). busy is of
all its tasks, also of those that failed, were killed or ran for speculation: they kept a replica from other work, but
what they took in is counted where they succeeded. Records are those read from the input, or from a shuffle where a
stage reads one. Where an operator is several stages without a profile, the fit of task_* is of the first: compare
task_time with busy.

One sample a minute of every executor. Replicas are the executors of the operator's profile, `cores / cpus a task` each,
from its first job in this profile to the last. Only minutes that were over when the log was read have a sample, so that
a row never changes once it was there. Where queries share a profile, each has all of its executors: they are what it
may use.

Two samples of every trigger:

    work      [trigger, its end)            tuples in and out, the batch and its duration, the backlog it left
    arrivals  [trigger before, trigger)     tuples that arrived, the interval

A restart is a new run: its first trigger does not say what arrived before it. A trigger that found nothing to do ran no
batch but says that nothing arrived. Arrivals are the growth of the sources' latest offsets where these count tuples,
and else the rows of the batch, which is all that arrived as long as no limit holds any back. Of a query that is several
operators, these samples are the first one's: what arrives at the query arrives there; its state is nobody's. The mean
response time is estimated where the batch left no backlog: a tuple waits half the interval before its batch begins, and
for the whole of its duration.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from tuner.pipeline.sources.sample_schema import STATE_LEVELS, shape_frame
from tuner.pipeline.sources.sketch_columns import write_span

MINUTE = 60_000  # ms
STATE = (*STATE_LEVELS, "commit_ms", "store_loads", "store_load_ms")


@dataclass(frozen=True, slots=True)
class LogContext:
    queries: DataFrame  # log, query, operator, several, entry_operator, leaving_operator, application, app
    stages: DataFrame  # log, stage, submitted, profile, entry, leaving, operator, application, app
    executors: DataFrame  # log, executor, profile, since, until, node_type, slots


def find_context(events: DataFrame, application: str | None) -> LogContext:
    queries = find_queries(events, application).localCheckpoint()
    return LogContext(queries, find_stages(events, queries), find_executors(events).localCheckpoint())


def of_kind(events: DataFrame, kind: str, *columns: str) -> DataFrame:
    return events.where(events.kind == kind).select("log", *columns)


def find_queries(events: DataFrame, application: str | None) -> DataFrame:
    """Queries of each log; a name is that of the query's start, else of its progress, else of its jobs."""

    def name(kind: str) -> Column:
        return f.max(f.when(f.col("kind") == kind, f.col("name")))

    staged = f.col("kind") == "stage"
    rows = events.where(events.kind.isin("stage", "query", "progress") & f.col("query").isNotNull())
    queries = rows.groupBy("log", "query").agg(
        f.coalesce(name("query"), name("progress"), name("stage"), f.substring("query", 1, 8)).alias("operator"),
        f.coalesce(f.max(f.when(staged, f.col("number"))) > 1, f.lit(False)).alias("several"),
        f.min_by("profile", f.when(staged, f.col("stage"))).alias("first"),  # a stage's parents have lower numbers
        f.max_by("profile", f.when(staged, f.col("stage"))).alias("last"),
    )
    several = f.col("several")
    told = of_kind(events, "application", "name", "run").groupBy("log")
    logs = told.agg(f.max("name").alias("told"), f.max("run").alias("identity"))
    base = f.element_at(f.split("log", "/"), -1)
    return queries.join(f.broadcast(logs), "log", "left").select(
        "log",
        "query",
        "operator",
        "several",
        f.when(several, name_part("first")).otherwise(f.col("operator")).alias("entry_operator"),
        f.when(several, name_part("last")).otherwise(f.col("operator")).alias("leaving_operator"),
        (f.lit(application) if application else f.coalesce("told", base)).alias("application"),
        f.coalesce("identity", base).alias("app"),
    )


def find_stages(events: DataFrame, queries: DataFrame) -> DataFrame:
    """Stages, each as the first job has it that names it."""
    facts = f.struct("time", "query", "profile", "entry", "leaving")
    rows = of_kind(events, "stage", "stage", "time", "query", "profile", "entry", "leaving")
    stages = rows.groupBy("log", "stage").agg(f.min(facts).alias("facts")).select("log", "stage", "facts.*")
    named = stages.withColumnRenamed("time", "submitted").join(f.broadcast(queries), ["log", "query"])
    operator = f.when(f.col("several"), name_part("profile")).otherwise(f.col("operator"))
    return named.withColumn("operator", operator)


def name_part(profile: str) -> Column:
    """The operator that the stages of one profile are, of a query that is several."""
    return f.concat("operator", f.lit("/profile"), profile)


def find_executors(events: DataFrame) -> DataFrame:
    gone = f.when(f.col("kind") == "removed", f.col("time"))
    added = f.when(f.col("kind") == "executor", f.col("time"))
    rows = events.where(events.kind.isin("executor", "removed"))
    lives = rows.groupBy("log", "executor").agg(
        f.coalesce(f.min("profile"), f.lit(0)).alias("profile"),
        f.min("name").alias("name"),
        f.min("number").alias("cores"),
        f.min(added).alias("since"),
        f.max(gone).alias("until"),
    )
    profiles = of_kind(events, "profile", "profile", "name", "number").groupBy("log", "profile")
    wanted = profiles.agg(f.min("name").alias("wanted"), f.min("number").alias("cpus"))
    numbered = f.when(f.col("profile") > 0, f.concat(f.lit("profile "), "profile"))
    return lives.join(f.broadcast(wanted), ["log", "profile"], "left").select(
        "log",
        "executor",
        "profile",
        "since",
        "until",
        f.coalesce("name", "wanted", numbered).alias("node_type"),
        f.floor(f.coalesce("cores", f.lit(1)) / f.coalesce("cpus", f.lit(1))).alias("slots"),
    )


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


def order_triggers(events: DataFrame) -> DataFrame:
    """Every trigger once, with the one before it in its run, and the batch before it."""
    columns = ("query", "run", "batch", "time", "run_ms", "records", "written", "executed", "latest", "backlog", *STATE)
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

    def whole(column: Column) -> Column:
        return work(f.when(f.col("several"), None).otherwise(column))

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
            "tuples_out": whole(f.col("written")),
            "backlog": work(f.col("backlog")),
            "batches": work(f.lit(1)),
            "batch_time": work(seconds),
            "batch_interval": came(f.when(f.col("executed"), interval)),
            **{column: whole(f.col(column)) for column in (*STATE_LEVELS, "store_loads")},
            "commit_time": whole(f.col("commit_ms") / 1000),
            "store_load_time": whole(f.col("store_load_ms") / 1000),
            "response_n": work(f.when(waited.isNotNull(), f.col("records"))),
            "response_sum": work(f.col("records") * waited),
            "responses": work(f.when(waited.isNotNull(), write_span(seconds, interval + seconds, f.col("records")))),
        },
    )


def make_links(events: DataFrame, queries: DataFrame) -> DataFrame:
    """Links between operators by a path or topic that sink and source share; inside a query, by its stages."""
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
