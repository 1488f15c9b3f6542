"""Tables of a log's queries, stages and executors, by which a task's operator and node type are known.

queries      a row a query of a log: the operator's name, the application's, what tells runs of the application apart
stages       a row a stage: its operator, and where in it the stage stands
executors    a row an executor: its node type, how many replicas it is, since and until when
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f


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
