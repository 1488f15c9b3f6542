"""Ingest by Spark: samples read, checked, written to the history and folded by a cluster or the cores of a machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tuner.pipeline import fold
from tuner.pipeline.engine import WrittenSamples
from tuner.pipeline.fine_history import place_parts
from tuner.pipeline.fold import drop_repeated, identify, select_sound
from tuner.pipeline.read_marks import HistoryPart, Ledger
from tuner.pipeline.sources.found import InputFile
from tuner.pipeline.sources.sample_schema import COLUMNS, SourceResult, ddl
from tuner.pipeline.windows import FAULTS, INGEST

Read = Callable[[SparkSession, Sequence[InputFile]], SourceResult]
HISTORY_DDL = f"{ddl()}, {INGEST} string"  # the columns of a sample, and the reading that it came from


def leave_out(samples: DataFrame, known: DataFrame) -> DataFrame:
    """Drop samples that are known unchanged; one that is known otherwise stays, being a later version."""
    digest = F.xxhash64(*COLUMNS)
    place = {"same": identify(), "digest": digest}
    told = known.withColumns(place).select("operator", "evidence", "same", "digest")
    rest = samples.withColumns(place).join(told, ["operator", "evidence", "same", "digest"], "left_anti")
    return rest.select(*COLUMNS)


def write_part(judged: DataFrame, folder: Path, id: str) -> tuple[HistoryPart | None, dict[str, int]]:
    """Write what is sound of judged samples as a part, in one pass that counts the faults too; None: nothing was."""
    sound = F.col("fault").isNull() | (F.col("fault") == "turned")
    start = F.when(sound, F.least("start", "end"))
    seen = Observation()
    placed = judged.withColumns({INGEST: F.lit(id), "day": day_of(start)})
    observed = placed.hint("rebalance", "day").observe(
        seen,
        F.count_if(sound).alias("rows"),
        F.min(start).alias("first"),
        F.max(F.when(sound, F.greatest("start", "end"))).alias("last"),
        F.max(F.when(sound, F.abs(F.col("end") - F.col("start")))).alias("longest"),
        *(F.count_if(F.coalesce(F.col("fault") == name, F.lit(False))).alias(name) for name in FAULTS),
    )
    select_sound(observed).write.partitionBy("day").parquet(str(folder / f"part={id}"))
    try:
        counts = seen.get
    except Py4JJavaError:  # without any row, for then Spark plans the observation away
        counts = {}
    faults = {name: counts[name] for name in FAULTS if counts.get(name)}
    if not counts.get("rows"):
        return None, faults
    return HistoryPart(id, counts["rows"], counts["first"], counts["last"], counts["longest"]), faults


def day_of(seconds: Column | str) -> Column:
    return F.date_format(F.timestamp_seconds(seconds), "yyyy-MM-dd")


def read_parts(
    spark: SparkSession,
    folder: Path,
    parts: Sequence[HistoryPart],
    since: float | None = None,
    until: float | None = None,
) -> DataFrame:
    """All samples of these parts that lie in the days from `since` to `until`, with all versions of each."""
    paths = [str(path) for path in place_parts(folder, parts)]
    if not paths:
        return spark.createDataFrame([], HISTORY_DDL)
    rows = spark.read.schema(f"{HISTORY_DDL}, day string").option("basePath", str(folder)).parquet(*paths)
    if since is not None:
        rows = rows.where(F.col("day") >= day_of(F.lit(since)))
    if until is not None:
        rows = rows.where(F.col("day") <= day_of(F.lit(until)))
    return rows.drop("day", "part")


def join_parts(spark: SparkSession, folder: Path, parts: Sequence[HistoryPart], id: str) -> HistoryPart:
    """Write the samples of these parts as one, without the versions that no longer hold."""
    kept = drop_repeated(read_parts(spark, folder, parts), keep_ingest=True)
    days = kept.withColumn("day", day_of("start")).hint("rebalance", "day")
    days.write.partitionBy("day").parquet(str(folder / f"part={id}"))
    rows = read_parts(spark, folder, [HistoryPart(id, 0, 0.0, 0.0, 0.0)]).count()
    return HistoryPart(id, rows, min(p.first for p in parts), max(p.last for p in parts), max(p.longest for p in parts))


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Ingest in a Spark session; `read` turns files into samples."""

    spark: SparkSession
    read: Read

    def add_part(
        self, fresh: Sequence[InputFile], folder: Path, known: Sequence[HistoryPart], since: float | None, id: str,
        now: float,
    ) -> WrittenSamples:  # fmt: skip
        reading = self.read(self.spark, fresh)
        samples = reading.samples
        if since is not None:
            samples = leave_out(samples, drop_repeated(read_parts(self.spark, folder, known, since)))
        part, faults = write_part(fold.check_samples(samples, now), folder, id)
        links = {(row["upstream"], row["downstream"]) for row in reading.links.collect()}
        return WrittenSamples((part,) if part else (), tuple(sorted(links)), faults, reading.notes)

    def fold_all(self, folder: Path, ledger: Ledger, scratch: Path) -> None:
        rows = read_parts(self.spark, folder, ledger.parts)
        fold.write_windows(fold.fold(rows, ledger.window_s), None, ledger.window_s, scratch)

    def fold_touched(
        self, folder: Path, parts: Sequence[HistoryPart], window_s: float, added: HistoryPart, reach: float,
        scratch: Path,
    ) -> None:  # fmt: skip
        rows = read_parts(self.spark, folder, parts, added.first - reach, added.last + reach)
        touched = fold.find_touched(rows, added.id, window_s).persist()
        try:
            fold.write_windows(fold.fold(rows, window_s, touched), touched, window_s, scratch)
        finally:
            touched.unpersist()

    def join_parts(self, folder: Path, parts: Sequence[HistoryPart], id: str) -> HistoryPart:
        return join_parts(self.spark, folder, parts, id)
