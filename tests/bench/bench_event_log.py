"""What reading an event log costs, beside Spark's own ways to read one; and how time and the driver's memory grow.

python -m tests.bench.bench_event_log [MB ...]     (100 and 1000 without an argument)
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.pipeline import logs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_END = '{"Event":"SparkListenerTaskEnd"'
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Way:
    name: str
    run: Callable[[SparkSession, str], DataFrame]


def scan(spark: SparkSession, path: str) -> DataFrame:
    """The lines of ended tasks, untouched: no reader of the text can be faster."""
    lines = spark.read.text(path)
    return lines.where(lines.value.startswith(TASK_END))


def parse_whole(spark: SparkSession, path: str) -> DataFrame:
    """Spark's JSON reader with the whole schema."""
    return spark.read.schema(SCHEMAS[path]).json(path).where(f"Event = '{TASK_END[10:-1]}'")


def read_tasks(spark: SparkSession, path: str) -> DataFrame:
    """Our pass over the file, to typed columns."""
    from tuner.pipeline.sources.event_log import map_pieces
    from tuner.pipeline.sources.found import detect
    from tuner.pipeline.sources.log_file import read_piece
    from tuner.pipeline.sources.pieces import cut_pieces

    bundles = cut_pieces(detect(path), spark.sparkContext.defaultParallelism)
    return map_pieces(spark, bundles, read_piece).where("kind = 'task'")


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds."""

    wall: float
    cpu: float


WAYS = (
    Way("bare filtered text scan", scan),
    Way("our reading of tasks", read_tasks),
    Way("JSON with the full schema", parse_whole),
)
HERE, READ_BY_SPARK = "our ingestion, end to end", "the same, logs read by Spark"  # to windows in a database
SCHEMAS: dict[str, Any] = {}


def ingest_whole(spark: SparkSession, path: str, here: bool) -> Cost:
    """From the log to windows in a database and fine samples on disk, as `tuner ingest` does it, warm."""
    from tuner.pipeline.engines.choose_engine import start_engine
    from tuner.pipeline.ingest import IngestTarget, ingest
    from tuner.pipeline.sources.found import detect
    from tuner.store.connection import open_store

    with tempfile.TemporaryDirectory() as folder, closing(open_store(Path(folder, "tuner.db"))) as store:
        place = IngestTarget(store, "bench", Path(folder, "history"))
        began, spent = time.perf_counter(), count_cpu()
        ingest(
            lambda fresh, rows: start_engine(fresh, rows, "local[2]", "bench", True, lambda: spark, here),
            place,
            detect(path),
        )
        wall, now = time.perf_counter() - began, count_cpu()
    return Cost(wall, sum(cpu - spent.get(process, 0.0) for process, cpu in now.items()))


def find_schema(spark: SparkSession, path: str) -> Any:
    lines = spark.read.text(path).where("value like '%\"SparkListener%'").limit(3000)
    return spark.read.json(lines.rdd.map(lambda row: row.value)).schema


def measure(spark: SparkSession, path: str) -> dict[str, Cost]:
    """The least of each way; the ways take turns, so that what else the machine does meets all of them."""
    best = {way.name: Cost(float("inf"), float("inf")) for way in WAYS}
    for _ in range(ROUNDS):
        for way in WAYS:
            began, spent = time.perf_counter(), count_cpu()
            way.run(spark, path).write.format("noop").mode("overwrite").save()
            wall, now = time.perf_counter() - began, count_cpu()
            cost = Cost(wall, sum(cpu - spent.get(process, 0.0) for process, cpu in now.items()))
            best[way.name] = least(best[way.name], cost)
        for name in (HERE, READ_BY_SPARK):
            best[name] = least(
                best.get(name, Cost(float("inf"), float("inf"))), ingest_whole(spark, path, name == HERE)
            )
    return best


def least(one: Cost, other: Cost) -> Cost:
    return Cost(min(one.wall, other.wall), min(one.cpu, other.cpu))


def count_cpu() -> dict[int, float]:
    """CPU seconds of this process and of all below it, the JVM and its Python; none where there is no /proc."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        parents[int(each.parent.name)] = int(fields[1])
        spent[int(each.parent.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def is_ours(process: int) -> bool:
        return process == os.getpid() or (process in parents and is_ours(parents[process]))

    return {process: cpu for process, cpu in spent.items() if is_ours(process)}


def peak_heap(spark: SparkSession) -> float:
    """MB in use in the driver's JVM after a collection, and the most that this Python ever held."""
    runtime = spark._jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]
    spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
    return float(runtime.totalMemory() - runtime.freeMemory()) / 1e6


def main(sizes: list[int]) -> None:
    from tuner.pipeline.session import start_session

    with tempfile.TemporaryDirectory() as folder:
        spark = start_session("local[2]", {"spark.driver.memory": "2g", "spark.local.dir": folder})
        costs: dict[int, dict[str, Cost]] = {}
        for size in sizes:
            path = str(logs.write(Path(folder, f"app-{size}"), logs.large(size)))
            SCHEMAS[path] = find_schema(spark, path)
            costs[size] = measure(spark, path)
            print_size(size, Path(path).stat().st_size / 1e6, costs[size])
            python = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
            print(f"  driver: {peak_heap(spark):.0f} MB of heap in use, Python's peak {python:.0f} MB")
        for smaller, larger in pairwise(sizes):
            for way in WAYS:
                wall = costs[larger][way.name].wall / costs[smaller][way.name].wall
                cpu = costs[larger][way.name].cpu / costs[smaller][way.name].cpu
                print(
                    f"{larger / smaller:.0f} times the log: {wall:5.1f} times the wall, {cpu:5.1f} the CPU: {way.name}"
                )
        spark.stop()


def print_size(size: int, megabytes: float, costs: dict[str, Cost]) -> None:
    print(f"{size} MB of raw log, local[2], the least of {ROUNDS} rounds; wall, then CPU of Spark and its Python")
    bare, full = costs[WAYS[0].name], costs[WAYS[2].name]
    for name in (*(way.name for way in WAYS), HERE, READ_BY_SPARK):
        cost = costs[name]
        wall = f"{cost.wall:6.2f} s {megabytes / cost.wall:6.0f} MB/s {cost.wall / bare.wall:5.2f} x scan"
        cpu = f"{cost.cpu:6.2f} s {cost.cpu / bare.cpu:5.2f} x scan"
        faster = f"{full.wall / cost.wall:5.2f}, {full.cpu / cost.cpu:5.2f} times as fast as JSON"
        print(f"  {name:28} {wall}; {cpu}; {faster}")


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [100, 1000])
