"""The driver of the live demo: a stream of two operators with agents attached.

A process of its own:

    python -m tuner.demo.stream MASTER PAGE MANAGER TOKEN_FILE FOLDER PLAN

PLAN is a `Plan` as JSON. FOLDER/at.json has its stage, and its totals at the end.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import scaler
from scaler.acting.executors import SETTINGS, Executors
from scaler.acting.gateway import Gateway
from scaler.acting.profiles import Pinned
from scaler.model.errors import Retry
from scaler.model.files import write_whole
from scaler.timing import ServiceTimer
from tuner.demo.cluster import SPEED
from tuner.demo.demo_plan import (
    APP,
    COUNT,
    NODES,
    OPERATORS,
    PARSE,
    PIECE_S,
    SLOT_S,
    TRIGGER_S,
    WARM_UP_S,
    Plan,
    list_costs,
    write_line,
)
from tuner.pipeline.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Batches = Iterator[pa.RecordBatch]
LINES = "id long, arrived double, line string"
PARTS = "word string, n long"
PATIENCE_S = 180.0  # for what is left when the replay is over
IDLE_S = 5.0 * TRIGGER_S  # without anything to do, after which nothing is left
PINNED = {  # of a small application on loopback, every stage of which is pinned to an operator
    **SETTINGS,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.executor.memory": "512m",
    "spark.dynamicAllocation.minExecutors": "0",  # so that nothing waits for the default profile
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.locality.wait": "0s",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
LEAN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
BRIEF = {  # batches are small and the run is short: compiling for long runs would take the cores from it
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": LEAN,
    "spark.executor.extraJavaOptions": LEAN,
}
SPARK = {
    **PINNED,
    **BRIEF,
    "spark.app.name": APP,
    # A file is a task, and there are as many as a batch has files: replicas share them.
    "spark.sql.files.openCostInBytes": "1048576",
    "spark.sql.files.maxPartitionBytes": "1048576",
}


class Pace:
    """Serves records at their known cost by sleeping.

    Each deadline follows the one before, so that what a sleep overshoots is taken off the next and the sum stays right.
    """

    def __init__(self, operator: str) -> None:
        self.costs = list_costs(operator) / float(os.environ[SPEED])
        self.deadline = time.perf_counter()

    def serve(self, record: int) -> None:
        self.deadline += float(self.costs[record % len(self.costs)])
        time.sleep(max(0.0, self.deadline - time.perf_counter()))


def make_parse(timer: ServiceTimer) -> Callable[[Batches], Batches]:
    def parse(batches: Batches) -> Batches:
        for batch in batches:
            pace, words = Pace(PARSE), list[dict[str, Any]]()
            for row in timer.each(batch.to_pylist()):
                pace.serve(row["id"])
                words.extend({"id": row["id"] * 10 + i, "word": word} for i, word in enumerate(row["line"].split()))
            yield pa.RecordBatch.from_pylist(words, pa.schema({"id": pa.int64(), "word": pa.string()}))

    return parse


def make_count(timer: ServiceTimer) -> Callable[[Batches], Batches]:
    """Sums of a part of a batch; those of all so far are Spark's state."""

    def count(batches: Batches) -> Batches:
        for batch in batches:
            pace, parts = Pace(COUNT), Counter[str]()
            for row in timer.each(batch.to_pylist()):
                pace.serve(row["id"])
                parts[row["word"]] += 1
            rows = [{"word": word, "n": n} for word, n in sorted(parts.items())]
            yield pa.RecordBatch.from_pylist(rows, pa.schema({"word": pa.string(), "n": pa.int64()}))

    return count


def pass_on(batches: Batches) -> Batches:
    """Pins the stage that keeps the state, too."""
    yield from batches


class Source:
    """Replays the plan into a folder, a file a piece, and keeps the tally of all words that it wrote."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder, self.tally, self.lines = plan, folder, Counter[str](), 0
        self.began = 0.0
        self.thread = threading.Thread(target=self.write, daemon=True)
        folder.mkdir()

    def start(self) -> None:
        self.began = time.time()
        self.thread.start()

    def write(self) -> None:
        for number, lines in enumerate(self.plan.pieces()):
            time.sleep(max(0.0, self.began + (number + 1) * PIECE_S - time.time()))
            if lines:
                self.drop(number, lines)

    def drop(self, number: int, lines: int) -> None:
        texts = [write_line(self.lines + i) for i in range(lines)]
        rows = [{"id": self.lines + i, "arrived": time.time(), "line": text} for i, text in enumerate(texts)]
        part = self.folder.parent / "part.json"
        part.write_text("".join(json.dumps(row) + "\n" for row in rows))
        part.rename(self.folder / f"{number:06d}.json")
        self.lines += lines
        self.tally.update(word for text in texts for word in text.split())


def start_parse(spark: SparkSession, folder: Path, pinned: Pinned, timer: ServiceTimer) -> StreamingQuery:
    lines = spark.readStream.schema(LINES).json(str(folder / "lines"))
    words = lines.mapInArrow(timer.whole(make_parse(timer)), "id long, word string", profile=pinned.profile)
    writer = words.writeStream.queryName(PARSE).format("parquet").option("path", str(folder / "channel"))
    return start_query(writer, folder)


def start_count(
    spark: SparkSession, folder: Path, pinned: Pinned, timer: ServiceTimer, totals: dict[str, int]
) -> StreamingQuery:
    """`totals`: what the stateful count put out last of each word, from now on."""

    def keep(frame: DataFrame, batch: int) -> None:
        totals.update({row.word: int(row.n) for row in frame.collect()})

    words = spark.readStream.schema("id long, word string").parquet(str(folder / "channel"))
    parts = words.mapInArrow(timer.whole(make_count(timer)), PARTS, profile=pinned.profile)
    counts = parts.groupBy("word").sum("n").withColumnRenamed("sum(n)", "n")
    counts = counts.mapInArrow(pass_on, PARTS, profile=pinned.profile)
    return start_query(counts.writeStream.queryName(COUNT).outputMode("update").foreachBatch(keep), folder, COUNT)


def start_query(writer: Any, folder: Path, name: str = PARSE) -> StreamingQuery:
    writer = writer.option("checkpointLocation", str(folder / "checkpoint" / name))
    query: StreamingQuery = writer.trigger(processingTime=f"{TRIGGER_S} seconds").start()
    return query


def await_first(actuator: Executors, seconds: float = 90.0) -> None:
    """The first replicas of all operators; scalers have nothing to go by before there are any."""
    limit = time.monotonic() + seconds
    for operator, one in actuator.pinned.items():
        actuator.apply(operator, {next(iter(one.types)): 1})
    while any(sum((actuator.deployed(operator) or {}).values()) < 1 for operator in OPERATORS):
        if time.monotonic() > limit:
            raise Retry(f"the first executors did not come in {seconds:g} s")
        time.sleep(0.1)


def drain(queries: Mapping[str, StreamingQuery], source: Source, totals: Mapping[str, int]) -> bool:
    """Wait until every word is counted, or nothing is left to do; whether the stream ended in time."""
    limit, busy = time.monotonic() + PATIENCE_S, time.monotonic()
    while time.monotonic() < limit:
        for query in queries.values():
            if query.exception() is not None:
                raise RuntimeError(f"operator {query.name} failed: {query.exception()}")
        if totals == source.tally or time.monotonic() - busy > IDLE_S:
            return True
        if any(query.status["isTriggerActive"] or query.status["isDataAvailable"] for query in queries.values()):
            busy = time.monotonic()
        time.sleep(0.2)
    return False


def run(spark: SparkSession, plan: Plan, page: str, manager: str, token: Path, folder: Path) -> dict[str, Any]:
    pinned = {operator: scaler.pin(spark, operator, plan.node_types(operator)) for operator in OPERATORS}
    actuator = Executors(Gateway(spark), list(pinned.values()), page)
    await_first(actuator)
    for one in pinned.values():  # starts the executor's Python before the first record comes
        spark.range(1).mapInArrow(pass_on, "id long", profile=one.profile).collect()
    timers = {name: ServiceTimer(spark, APP, name, folder / "timings", period=2.0) for name in OPERATORS}
    source, totals = Source(plan, folder / "lines"), dict[str, int]()
    (folder / "channel").mkdir()
    queries = {
        PARSE: start_parse(spark, folder, pinned[PARSE], timers[PARSE]),
        COUNT: start_count(spark, folder, pinned[COUNT], timers[COUNT], totals),
    }
    live = scaler.attach(
        spark, APP, manager, token, pinned=list(pinned.values()), enforce=True,
        settings=scaler.AttachSettings(
            timers=timers, nodes=NODES, actuator=actuator, folder=folder / "scalers", slot_s=SLOT_S
        ),
    )  # fmt: skip
    with live:
        source.start()
        day = source.began + WARM_UP_S
        tell(folder, "warming up, then streaming", began=day, until=day + plan.seconds)
        source.thread.join()
        tell(folder, "draining")
        ended = drain(queries, source, totals)
    (folder / "progress").mkdir(exist_ok=True)
    for name, query in queries.items():  # for `tuner ingest`; Spark has the last hundred reports
        lines = (json.dumps(json.loads(report.json)) + "\n" for report in query.recentProgress)
        (folder / "progress" / f"{name}.jsonl").write_text("".join(lines))
        query.stop()
    for timer in timers.values():
        timer.close()
    return {"lines": source.lines, "words": sum(source.tally.values()), "counted": sum(totals.values()),
            "exact": totals == source.tally, "ended": ended}  # fmt: skip


def tell(folder: Path, what: str, **more: Any) -> None:
    write_whole(folder / "at.json", json.dumps({"at": what, "time": time.time(), **more}))


def main(master: str, page: str, manager: str, token_file: Path, folder: Path, plan: Plan) -> None:
    tell(folder, "starting Spark")
    spark = start_session(master, SPARK)
    try:
        tell(folder, "starting the first executors")
        totals = run(spark, plan, page, manager, token_file, folder)
        tell(folder, "done", **totals)
    finally:
        spark.stop()


if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    master, page, manager, token_file, folder, plan = sys.argv[1:]
    main(master, page, manager, Path(token_file), Path(folder), Plan(**json.loads(plan)))
