"""Fold fine samples of any length into one sample per operator, node type and window of an equal grid.

Samples are checked first. A row with a `fault` in REFUSED is left out; one that ends before it begins (a clock was set
back under it) is kept as a point at its earlier end, because what it counted did happen.

A window in which nothing was seen has no row: missing is not zero. Zeros come from sources that say zero. Sources that
saw the same window are never added up: each block of columns comes whole from one kind of evidence, the most exact; for
what counts everything that happened, from one that saw (in tenths) as much of the window as any.

The rows of node types and the one without a type (of sources that do not know it) stay apart, and overlap:
`merge_types` makes one of them.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from pathlib import Path

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from scaler.model.sample import EVIDENCE
from tuner.pipeline.sources.sample_schema import AT_THE_END, BLOCKS, MEASURED, SKETCH, SPREAD, STATE_LEVELS, SUMS
from tuner.pipeline.sources.sketch_columns import merge_sketch_column, read_sketch
from tuner.pipeline.windows import AHEAD_S, FAULTS, INGEST, LONGEST_S, WINDOW_S, check_window


def check_samples(samples: DataFrame, now: float) -> DataFrame:
    """Add a column `fault`, null where there is none; `now` is in seconds since 1970."""
    start, end = F.col("start"), F.col("end")
    wrong: dict[str, Column] = {
        "unnamed": F.coalesce(F.col("application"), F.lit("")).eqNullSafe("")
        | F.coalesce(F.col("operator"), F.lit("")).eqNullSafe(""),
        "untimed": ~(sound(start) & sound(end)),
        "future": F.least(start, end) > now + AHEAD_S,
        "long": end - start > LONGEST_S,
        "evidence": ~F.coalesce(F.col("evidence"), F.lit("")).isin(*EVIDENCE),
        "negative": reduce(or_, (F.col(column).isNotNull() & ~sound(F.col(column)) for column in MEASURED)),
        "partial": ~(sound(F.col("completeness")) & (F.col("completeness") <= 1.0)),
        "turned": end < start,
    }
    return samples.withColumn("fault", F.coalesce(*(F.when(wrong[name], name) for name in FAULTS)))


def select_sound(judged: DataFrame) -> DataFrame:
    """Drop samples that cannot be used, and place the others in time."""
    usable = judged.where(F.col("fault").isNull() | (F.col("fault") == "turned"))
    return usable.drop("fault").withColumn("start", F.least("start", "end"))


def sound(value: Column) -> Column:
    """Whether it is a finite number of 0 or more; Spark holds NaN to be the greatest of all."""
    return F.coalesce((value >= 0.0) & (value < float("inf")), F.lit(False))


def fold(samples: DataFrame, window_s: float = WINDOW_S, touched: DataFrame | None = None) -> DataFrame:
    """Put sound samples on the grid of windows at multiples of `window_s` since 1970, only the `touched` if given."""
    check_window(window_s)
    pieces = cut(drop_repeated(samples), window_s)
    if touched is not None:
        pieces = pieces.join(touched, ["operator", "slot"], "left_semi")
    merged = merge_evidence(add_up(measure_cover(pieces), window_s))
    start = F.col("slot") * F.lit(window_s)
    return merged.select(
        "application",
        "operator",
        start.alias("start"),
        ((F.col("slot") + 1) * F.lit(window_s)).alias("end"),
        "evidence",
        F.lit(None).cast("string").alias("key"),
        "node_type",
        *MEASURED,
        F.to_json(SKETCH).alias(SKETCH),
        "completeness",
    )


def drop_repeated(samples: DataFrame, keep_ingest: bool = False) -> DataFrame:
    """Keep one row per key: the most complete, of these the last read, and then by value: order never matters."""
    reading = [INGEST] if INGEST in samples.columns else []
    order = ["completeness", *reading, "end", "start", "node_type", *MEASURED, SKETCH]
    same = Window.partitionBy("application", "operator", "evidence", "same").orderBy(
        *(F.col(column).desc_nulls_last() for column in order)
    )
    ranked = samples.withColumn("same", identify()).withColumn("rank", F.row_number().over(same))
    return ranked.where("rank = 1").drop("rank", "same", *([] if keep_ingest else [INGEST]))


def find_touched(samples: DataFrame, ingest: str, window_s: float) -> DataFrame:
    """Operator and slot of every window in which a sample of this reading lies, or did in an earlier version of it."""
    same = ["operator", "evidence", "same"]
    keyed = samples.withColumn("same", identify())
    fresh = keyed.where(F.col(INGEST) == ingest).select(*same).distinct()
    return cut(keyed.join(fresh, same, "left_semi"), window_s).select("operator", "slot").distinct()


def identify() -> Column:
    """Identity of a sample within its kind of evidence: the key, else node type, start and end."""
    return F.coalesce("key", F.concat_ws(" ", F.coalesce("node_type", F.lit("")), F.col("start"), F.col("end")))


def cut(samples: DataFrame, window_s: float) -> DataFrame:
    """Cut samples at the edges of windows: sums in proportion to time, levels whole."""
    start, end, width = F.col("start"), F.col("end"), F.lit(window_s)
    first = F.floor(start / width).cast("long")
    last = F.greatest(first, F.ceil(end / width).cast("long") - 1)
    pieces = samples.withColumns({"first": first, "last": last})
    pieces = pieces.withColumn("slot", F.explode(F.sequence("first", "last")))
    begin = F.greatest(start, F.col("slot") * width)
    finish = F.least(end, (F.col("slot") + 1) * width)
    share = F.when(F.col("first") == F.col("last"), 1.0).otherwise((finish - begin) / (end - start))
    at_the_end = F.col("slot") == F.col("last")
    parts: dict[str, Column] = {column: F.col(column) * share for column in SPREAD}
    parts[SKETCH] = read_sketch(F.col(SKETCH), share)
    parts |= {column: F.when(at_the_end, F.col(column)) for column in (*AT_THE_END, "backlog", *STATE_LEVELS)}
    return pieces.withColumns({**parts, "begin": begin, "finish": F.greatest(begin, finish), "until": end})


def measure_cover(pieces: DataFrame) -> DataFrame:
    """What each piece is the first to cover of its window, in order of time: in all, and where replicas are known."""
    whole = Window.partitionBy("application", "operator", "slot", "node_type", "evidence")
    before = whole.orderBy("begin", F.desc("completeness"), "finish").rowsBetween(Window.unboundedPreceding, -1)
    begin, finish = F.col("begin"), F.col("finish")
    known = F.col("replicas").isNotNull()
    told = F.when(F.col("backlog").isNotNull(), F.col("until"))

    def fresh(seen: Column) -> Column:
        return F.greatest(F.lit(0.0), finish - F.greatest(begin, F.coalesce(F.max(seen).over(before), begin)))

    placed = pieces.repartition("application", "operator", "slot")  # all that follows is grouped by these and more
    return placed.withColumns(
        {
            "cover": fresh(finish) * F.col("completeness"),
            "replica_cover": F.when(known, fresh(F.when(known, finish))),
            "replica_seconds": F.col("replicas") * (finish - begin),
            "backlog": F.when(told == F.max(told).over(whole), F.col("backlog")),
        }
    )


def add_up(pieces: DataFrame, window_s: float) -> DataFrame:
    """One row per window and kind of evidence; `completeness` is the share of the window that it covers."""
    covered = F.sum("replica_cover")
    replicas = F.when(covered > 0.0, F.sum("replica_seconds") / covered).otherwise(F.max("replicas"))
    return pieces.groupBy("application", "operator", "slot", "node_type", "evidence").agg(
        *(F.sum(column).alias(column) for column in SUMS),
        F.max("backlog").alias("backlog"),
        *(F.max(column).alias(column) for column in STATE_LEVELS),
        merge_sketch_column(SKETCH).alias(SKETCH),
        replicas.alias("replicas"),
        F.least(F.lit(1.0), F.sum("cover") / F.lit(window_s)).alias("completeness"),
    )


def merge_evidence(rows: DataFrame) -> DataFrame:
    """One row per window: each block of columns from the kind of evidence that knows it best."""
    ranks = (F.when(F.col("evidence") == name, i) for i, name in enumerate(EVIDENCE))
    rank = F.coalesce(*ranks, F.lit(len(EVIDENCE)))  # 0 for the most exact kind
    picks = []
    for block in BLOCKS:
        guessed = F.lit(0) if block.guess is None else (F.col("evidence") == block.guess).cast("int")
        order = rank + guessed * len(EVIDENCE)
        fullest = order - F.round(F.col("completeness") * 10.0) * 10.0 if block.total else order
        best = F.when(F.coalesce(*block.columns).isNotNull(), fullest)
        picks += [F.min_by(column, best).alias(column) for column in block.columns]
    return rows.groupBy("application", "operator", "slot", "node_type").agg(
        *picks, F.min_by("evidence", rank).alias("evidence"), F.max("completeness").alias("completeness")
    )


def write_windows(folded: DataFrame, touched: DataFrame | None, window_s: float, scratch: Path) -> None:
    """Write windows to a scratch folder, the rows of each together in one file."""
    rows = folded
    if touched is not None:
        width = F.lit(window_s)
        start, end = F.col("slot") * width, (F.col("slot") + 1) * width
        named = touched.select("operator", start.alias("start"), end.alias("end"))
        rows = named.join(folded, ["operator", "start", "end"], "left").select(*folded.columns)
    together = rows.repartition("operator", "start").sortWithinPartitions("operator", "start", "node_type")
    together.drop("key").write.parquet(str(scratch))
