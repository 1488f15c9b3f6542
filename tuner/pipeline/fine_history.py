"""History of fine samples on disk, a part for each ingest; read by days.

    ROOT/application=NAME/part=ID/day=YYYY-MM-DD/*.parquet

A part counts once the database names it (`HistoryPart` in the application's mark), which is the last thing that an
ingest does: a part that was begun and never named is swept away by the next one. Each row has the ingest that it came
from in `ingest`, because of two versions of a sample the later read one holds.
"""

from __future__ import annotations

import fcntl
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from scaler.model.errors import BadInput, Retry
from tuner.pipeline.fold import FAULTS, INGEST, drop_repeated, identify, select_sound
from tuner.pipeline.read_marks import HistoryPart
from tuner.pipeline.sources.sample_schema import COLUMNS, ddl

DAY_S = 86_400.0
MANY_PARTS = 32
LARGE_PART = 5_000_000  # rows; parts beyond it are not written again to join others
HISTORY_DDL = f"{ddl()}, {INGEST} string"  # the columns of a sample, and the reading that it came from


def place_history(root: Path, application: str) -> Path:
    return root / f"application={quote(application, safe='')}"


def name_part(now: float, known: Iterable[HistoryPart] = ()) -> str:
    """A name of its own that sorts after those of the parts before, even if the clock was set back."""
    after = max((int(part.id.partition("-")[0]) for part in known), default=0)
    return f"{max(int(now * 1e6), after + 1):018d}-{secrets.token_hex(4)}"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One ingest of an application at a time on this machine; a killed one holds nothing up."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("a")
    except OSError as error:
        raise BadInput(f"{folder} cannot be written ({error.strerror}); name another folder with --history") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Retry(f"another ingest is at work in {folder}; run this again when it has ended") from None
        yield


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
    paths = [str(folder / f"part={part.id}") for part in parts]
    missing = [path for path in paths if not Path(path).is_dir()]
    if missing:
        raise BadInput(
            f"the history lacks {missing[0]}, which the database counts on; put it back, or start over with --forget"
        )
    if not paths:
        return spark.createDataFrame([], HISTORY_DDL)
    rows = spark.read.schema(f"{HISTORY_DDL}, day string").option("basePath", str(folder)).parquet(*paths)
    if since is not None:
        rows = rows.where(F.col("day") >= day_of(F.lit(since)))
    if until is not None:
        rows = rows.where(F.col("day") <= day_of(F.lit(until)))
    return rows.drop("day", "part")


def sweep(folder: Path, ids: Iterable[str]) -> None:
    """Delete parts that are not named."""
    for id in ids:
        shutil.rmtree(folder / f"part={id}", ignore_errors=True)


def join_parts(spark: SparkSession, folder: Path, parts: Sequence[HistoryPart], id: str) -> HistoryPart:
    """Write the samples of these parts as one, without the versions that no longer hold."""
    kept = drop_repeated(read_parts(spark, folder, parts), keep_ingest=True)
    days = kept.withColumn("day", day_of("start")).hint("rebalance", "day")
    days.write.partitionBy("day").parquet(str(folder / f"part={id}"))
    rows = read_parts(spark, folder, [HistoryPart(id, 0, 0.0, 0.0, 0.0)]).count()
    return HistoryPart(id, rows, min(p.first for p in parts), max(p.last for p in parts), max(p.longest for p in parts))
