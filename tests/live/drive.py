"""Order, drain and kill executors of a standalone master; what they did goes to a folder as JSON.

The driver of tests/live/test_executors.py, a process of its own:  python -m tests.live.drive MASTER PAGE FOLDER
Operator `split` has a stage on small nodes, `count` a stateful one on small and large ones. Words come as files all the
while, so that what is counted at the end can be held against what was written.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from scaler.acting.executors import SETTINGS, Executors
from scaler.acting.gateway import Gateway
from scaler.acting.profiles import Pinned, join, pin
from scaler.model.errors import Retry
from tests.bed.application import profile_of
from tests.bed.plan import SPEEDS, TEXT
from tuner.demo.cluster import SPEED
from tuner.pipeline.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TYPES = {repr(speed): name for name, speed in SPEEDS.items()}
SPARK = {
    **SETTINGS,
    "spark.app.name": "live",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "4",
    "spark.locality.wait": "100ms",
}


def run_somewhere(spark: SparkSession, pinned: Pinned) -> dict[str, int]:
    """Node types on which the tasks of a stage pinned to the operator's profile ran."""

    def tell(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            time.sleep(0.7)
            yield pd.DataFrame({"speed": [os.environ[SPEED]] * len(batch)})

    rows = spark.range(0, 4, 1, 4).mapInPandas(tell, "speed string", profile=pinned.profile).collect()
    return dict(Counter(TYPES[row.speed] for row in rows))


class Writer:
    """Drops a file of words a third of a second, and keeps the tally."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tally, self.over = folder, Counter[str](), threading.Event()
        self.thread = threading.Thread(target=self.write, daemon=True)
        folder.mkdir()

    def write(self) -> None:
        number = 0
        while not self.over.wait(0.33):
            words = [TEXT[(number * 40 + i) % len(TEXT)] for i in range(40)]
            part = self.folder.parent / "part.txt"
            part.write_text("\n".join(words))
            part.rename(self.folder / f"{number:05d}.txt")
            self.tally.update(words)
            number += 1

    def stop(self) -> None:
        self.over.set()
        self.thread.join()


def start_count(spark: SparkSession, folder: Path, pinned: Pinned, seen: dict[str, Any]) -> StreamingQuery:
    """Counts of all words so far, the stateful stage pinned to the operator's profile."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def keep(frame: DataFrame, batch: int) -> None:
        seen["counts"] = {row.value: row.n for row in frame.collect()}
        seen["batches"] = batch + 1

    words = spark.readStream.text(str(folder / "words")).groupBy("value").count().withColumnRenamed("count", "n")
    counts = words.mapInArrow(pass_on, "value string, n long", profile=pinned.profile)
    writer = counts.writeStream.outputMode("complete").queryName("count").foreachBatch(keep)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(processingTime="1 second").start()


def await_deployed(actuator: Executors, operator: str, target: dict[str, int], seconds: float = 60.0) -> float:
    """How long it took until exactly these served."""
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        if actuator.deployed(operator) == target:
            return time.monotonic() - began
        time.sleep(0.05)
    raise RuntimeError(f"{operator}: {target} were asked for, and {actuator.deployed(operator)} are there")


def await_true(ask: Callable[[], bool], seconds: float = 60.0) -> None:
    limit = time.monotonic() + seconds
    while not ask():
        if time.monotonic() > limit:
            raise RuntimeError("what was waited for did not come")
        time.sleep(0.1)


def await_batches(seen: dict[str, Any], more: int) -> None:
    aim = seen.get("batches", 0) + more
    await_true(lambda: seen.get("batches", 0) >= aim)


def kill_executor(name: str) -> None:
    """Without a word, as a machine that dies; `name` is Spark's number of it in this application."""
    told = subprocess.run(["pgrep", "-f", f"executor-id {name} .*app-id"], capture_output=True, text=True, check=True)
    for process in told.stdout.split():
        arguments = Path("/proc", process, "cmdline").read_bytes()
        if os.environ["LIVE_APP"].encode() in arguments and b"CoarseGrainedExecutorBackend" in arguments:
            os.kill(int(process), signal.SIGKILL)


def drive(spark: SparkSession, page: str, folder: Path) -> dict[str, Any]:
    os.environ["LIVE_APP"] = spark.sparkContext.applicationId
    split, count = join(spark, "split", profile_of("small"), ["small"]), pin(spark, "count", ["small", "large"])
    gateway = Gateway(spark)
    actuator = Executors(gateway, [split, count], page)
    took: dict[str, float] = {}
    told: dict[str, Any] = {"took": took, "at first": actuator.deployed("count")}
    seen: dict[str, Any] = {}

    began = time.monotonic()
    actuator.apply("split", {"small": 1})
    actuator.apply("count", {"small": 1})
    told["asking took"] = time.monotonic() - began
    await_deployed(actuator, "split", {"small": 1})
    await_deployed(actuator, "count", {"small": 1, "large": 0})
    took["both operators' first executors"] = time.monotonic() - began
    writer = Writer(folder / "words")
    writer.thread.start()
    query = start_count(spark, folder, count, seen)
    await_batches(seen, 2)

    actuator.apply("count", {"small": 1, "large": 1})
    took["scale-out of a stream by one of another type"] = await_deployed(actuator, "count", {"small": 1, "large": 1})
    told["split beside it"] = actuator.deployed("split")
    await_batches(seen, 3)
    told["count ran on"], told["split ran on"] = run_somewhere(spark, count), run_somewhere(spark, split)

    actuator.apply("count", {"small": 1, "large": 2})
    took["scale-out by one more"] = await_deployed(actuator, "count", {"small": 1, "large": 2})
    told["room on small"], told["room on large"] = (
        actuator.check_room("count", {"small": 1}).why,
        actuator.check_room("count", {"large": 1}).why,
    )
    actuator.apply("count", {"small": 1, "large": 3})
    await_batches(seen, 3)
    told["three asked of two"] = actuator.deployed("count")
    actuator.apply("count", {"small": 1, "large": 2})

    active = {executor.id for executor in gateway.executors()}
    actuator.apply("count", {"small": 1})
    took["scale-in by two, no more tasks"] = await_deployed(actuator, "count", {"small": 1, "large": 0})
    began = time.monotonic()
    listed = spark.sparkContext._jsc.sc().statusTracker
    await_true(lambda: len(listed().getExecutorInfos()) - 1 == len(active) - 2)
    took["scale-in by two, gone"] = time.monotonic() - began
    await_batches(seen, 3)

    victim = next(executor.id for executor in gateway.executors() if executor.made_for == count.types["small"])
    kill_executor(victim)
    began = time.monotonic()
    await_true(lambda: victim not in {executor.id for executor in gateway.executors()})
    took["replacement of a killed one"] = (
        time.monotonic() - began + await_deployed(actuator, "count", {"small": 1, "large": 0})
    )
    await_batches(seen, 3)

    writer.stop()
    query.processAllAvailable()
    told["counted"], told["written"], told["batches"] = seen["counts"], writer.tally, seen["batches"]
    query.stop()
    actuator.close()
    told["after closing"] = Executors(gateway, [split, count]).deployed("count")
    try:
        actuator.apply("count", {"small": 1})
    except Retry as error:
        told["asked after closing"] = str(error)
    return told


def main(master: str, page: str, folder: Path) -> None:
    spark = start_session(master, SPARK)
    try:
        (folder / "told.json").write_text(json.dumps(drive(spark, page, folder), indent=1))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
