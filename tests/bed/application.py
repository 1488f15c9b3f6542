"""Run a word count of two operators on a cluster by a plan, and leave its monitoring behind.

The driver of the test bed, a process of its own:  python -m tests.bed.application MASTER FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark import TaskContext
from pyspark.resource import ExecutorResourceRequests, ResourceProfile, ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql.streaming.listener import StreamingQueryListener

from scaler.timing import NODE_RESOURCE, ServiceTimer
from tests.bed.plan import SPEEDS, Cost, Plan, first_word, read_plan
from tests.bed.source import Replay
from tests.bed.truth import count_answered
from tuner.demo.cluster import SPEED
from tuner.pipeline.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Batches = Iterator[pd.DataFrame]
WORDS = "id long, line long, arrived double, word string"
COUNTS = "word string, n long"

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.executor.memory": "512m",
    "spark.cores.max": "4",
    # On, so that profiles get their executors; inert, so that nothing takes them away.
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "100000s",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "1",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    # One task a batch: a replica is one core.
    "spark.default.parallelism": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.streaming.fileSink.log.compactInterval": "100000",  # so that each commit is a file of its own
    "spark.sql.streaming.fileSource.log.compactInterval": "1000",
    "spark.eventLog.enabled": "true",
}


@contextmanager
def undisturbed() -> Iterator[None]:
    """Wake up from sleep on time even on a busy machine, where the system lets this process ask for it."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except (AttributeError, OSError):
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


class Pace:
    """Serves records at their known cost by sleeping.

    Each deadline follows the one before, so that what a sleep overshoots is taken off the next and the sum stays right.
    """

    def __init__(self, cost: Cost) -> None:
        self.speed = float(os.environ[SPEED])
        self.costs = cost.table() / self.speed
        self.deadline = time.perf_counter()
        self.passed: list[tuple[int, float]] = []  # record, and what it really took
        self.last = self.deadline

    def serve(self, record: int) -> None:
        self.deadline += float(self.costs[record % len(self.costs)])
        rest = self.deadline - time.perf_counter()
        if rest > 0:
            time.sleep(rest)
        now = time.perf_counter()
        self.passed.append((record, now - self.last))
        self.last = now

    def tell(self, operator: str, folder: Path) -> None:
        """Append what really happened in this batch, for tests to compare with what the pipeline makes of it."""
        task = TaskContext.get()
        batch = task.getLocalProperty("streaming.sql.batchId") if task else None
        if batch is None or not self.passed:
            return
        ids, spent = zip(*self.passed, strict=True)
        told = {"batch": int(batch), "speed": self.speed, "ids": ids, "spent": spent}
        with (folder / "truth" / f"{operator}.jsonl").open("a") as file:
            file.write(json.dumps(told) + "\n")


def make_split(cost: Cost, folder: Path, timer: ServiceTimer) -> Callable[[Batches], Batches]:
    def split(batches: Batches) -> Batches:
        for batch in batches:
            pace = Pace(cost)
            words: list[tuple[int, int, float, str]] = []
            with undisturbed():
                for row in timer.each(batch.itertuples(index=False)):
                    pace.serve(row.id)
                    first = first_word(row.id)
                    words.extend((first + i, row.id, row.arrived, word) for i, word in enumerate(row.line.split()))
            pace.tell("split", folder)
            yield pd.DataFrame(words, columns=["id", "line", "arrived", "word"])

    return split


def make_count(cost: Cost, folder: Path, timer: ServiceTimer) -> Callable[[Batches], Batches]:
    def count(batches: Batches) -> Batches:
        for batch in batches:
            pace, counts = Pace(cost), Counter[str]()
            with undisturbed():
                for row in timer.each(batch.itertuples(index=False)):
                    pace.serve(row.id)
                    counts[row.word] += 1
            pace.tell("count", folder)
            yield pd.DataFrame(sorted(counts.items()), columns=["word", "n"])

    return count


def profile_of(node_type: str) -> ResourceProfile:
    """One core of a worker of this node type."""
    kind = NODE_RESOURCE + node_type
    executor = ExecutorResourceRequests().cores(1).memory("512m").resource(kind, 1)
    task = TaskResourceRequests().cpus(1).resource(kind, 1)
    return ResourceProfileBuilder().require(executor).require(task).build


class Recorder(StreamingQueryListener):
    """Writes every progress report down as it came; the names are Spark's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        with (self.folder / "progress" / f"{event.progress.name}.jsonl").open("a") as file:
            file.write(json.dumps(json.loads(event.progress.json)) + "\n")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


def warm_up(spark: SparkSession, profile: ResourceProfile) -> None:
    """Have the profile's executor and its Python started before the first record comes."""

    def pass_on(batches: Batches) -> Batches:
        yield from batches

    spark.range(1).mapInPandas(pass_on, "id long", profile=profile).collect()


def start_query(frame: DataFrame, name: str, folder: Path, interval: float) -> StreamingQuery:
    writer = frame.writeStream.queryName(name).format("parquet").option("path", str(folder / "channel" / name))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint" / name))
    return writer.trigger(processingTime=f"{interval} seconds").start()


def start_queries(
    spark: SparkSession, plan: Plan, folder: Path, began: float, timers: dict[str, ServiceTimer],
    profiles: dict[str, ResourceProfile],
) -> list[StreamingQuery]:  # fmt: skip
    """Both operators, from where they stopped before; upstream first."""
    costs = plan.costs()
    replay = spark.readStream.format("replay").option("plan", str(folder / "plan.json")).option("began", repr(began))
    split = timers["split"].whole(make_split(costs["split"], folder, timers["split"]))
    words = replay.load().mapInPandas(split, WORDS, profile=profiles["split"])
    count = timers["count"].whole(make_count(costs["count"], folder, timers["count"]))
    channel = spark.readStream.schema(WORDS).parquet(str(folder / "channel" / "split"))
    counts = channel.mapInPandas(count, COUNTS, profile=profiles["count"])
    frames = {"split": words, "count": counts}
    return [start_query(frames[name], name, folder, s) for name, s in zip(frames, plan.intervals, strict=True)]


def drain(queries: list[StreamingQuery], plan: Plan, folder: Path, patience: float = 120.0) -> None:
    """Wait until all records are answered; a query may say that nothing is left just as upstream commits more."""
    words, limit = first_word(len(plan.arrivals())), time.monotonic() + patience
    for query in queries:
        query.processAllAvailable()
    while count_answered(folder, "count") < words and time.monotonic() < limit:
        queries[-1].processAllAvailable()
        time.sleep(0.1)


def run(spark: SparkSession, plan: Plan, folder: Path) -> None:
    profiles = {node_type: profile_of(node_type) for node_type in SPEEDS}
    for profile in profiles.values():
        warm_up(spark, profile)
    spark.streams.addListener(Recorder(folder))
    spark.dataSource.register(Replay)
    timers = {name: ServiceTimer(spark, "bed", name, folder / "timings", period=2.0) for name in plan.costs()}
    began = time.time() + 1.0
    (folder / "truth" / "began").write_text(repr(began))
    for placement, until in plan.placements():
        placed = {operator: profiles[node_type] for operator, node_type in placement.items()}
        queries = start_queries(spark, plan, folder, began, timers, placed)
        time.sleep(max(0.0, began + until - time.time()))
        if until == plan.levels()[-1][1]:
            drain(queries, plan, folder)
        for query in queries:
            query.stop()
    for timer in timers.values():
        timer.close()


def main(master: str, folder: Path) -> None:
    for name in ("eventlog", "progress", "timings", "truth", "channel/split"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    log = {"spark.eventLog.dir": (folder / "eventlog").as_uri(), "spark.app.name": "bed"}
    spark = start_session(master, {**SETTINGS, **log})
    try:
        run(spark, read_plan(folder / "plan.json"), folder)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
