"""Run a stateful count of a rising stream, scaled as a setup states, and record all that it did.

The driver of the proofs, a process of its own:  python -m tests.live.proof_stream FOLDER

FOLDER/setup.json says what to run (see `Setup`). It leaves at.json (what it is at), batches.jsonl (what each batch had
answered by when), replicas.jsonl (executors that served, by node type), decisions.jsonl, totals.json. Started again on
the same folder it goes on from its checkpoints.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

import scaler
from scaler.acting.executors import Executors
from scaler.acting.gateway import Gateway
from scaler.model.files import write_whole
from scaler.model.nodes import NodeType
from scaler.timing import ServiceTimer
from tests.live.proof_source import Levels, Rising
from tests.live.proof_watch import Watch, append, find_memory, find_work
from tuner.demo.cluster import SPEED
from tuner.demo.stream import BRIEF, PINNED
from tuner.pipeline.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from scaler.acting.profiles import Pinned
    from scaler.agent.attachment import Attachment
    from scaler.model.decision import Decision
    from scaler.model.kernel import Floats
    from scaler.sensing.reading import Reading

Batches = Iterator[pd.DataFrame]
APP, OPERATOR = "proof", "count"
KEYS = 17
SCV = 0.5  # of what a record costs
TABLE = 1000  # costs repeat after so many records, so that their mean is known and not estimated
PARTS = "key long, n long"
OURS, WATCHED, STATIC, SPARKS = "ours", "watched", "static", "spark's"  # who scales; watched by ours: nobody
SPARK = {
    **PINNED,
    **BRIEF,
    "spark.app.name": APP,
    "spark.task.maxFailures": "10",
}
SPARKS_OWN = {  # of dynamic allocation, as Spark has them where nobody says otherwise
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.executorIdleTimeout": "60s",
}


@dataclass(frozen=True, slots=True)
class Setup:
    """What one run is: the stream, its machines, and who scales it."""

    master: str
    page: str
    levels: tuple[tuple[float, float], ...]  # seconds, records per second
    mean: float  # seconds that a record costs on a node of speedup 1
    nodes: tuple[tuple[str, float, float], ...]  # name, speedup, price
    first: Mapping[str, int]  # replicas at the start
    scaled: str = OURS
    k_max: int = 4
    slot_s: float = 5.0
    trigger_s: float = 3.0
    most: int = 2000  # records of a batch
    piece: int = 8  # records of a task
    tasks: int = 0  # of a batch, as a topic's partitions; 0: a task for each piece
    manager: str | None = None
    token: str | None = None
    measured: bool = False  # how long a replica takes to come is measured before the stream begins
    restful: float = 2.0  # seconds from the start of the query to the first record, at least
    toggles: int = 0  # the scaler is attached and detached so often, and then the run is over
    toggle_s: float = 20.0
    linger_s: float = 0.0  # after the last record, at most, until one replica is left
    conf: Mapping[str, str] = field(default_factory=dict)

    def placed(self, master: str, page: str) -> Setup:
        return replace(self, master=master, page=page)

    def node_types(self) -> tuple[NodeType, ...]:
        return tuple(NodeType(*node) for node in self.nodes)


def write_setup(setup: Setup, folder: Path) -> None:
    (folder / "setup.json").write_text(json.dumps(asdict(setup)))


def read_setup(folder: Path) -> Setup:
    told = json.loads((folder / "setup.json").read_text())
    tables = {name: tuple(tuple(row) for row in told[name]) for name in ("levels", "nodes")}
    return Setup(**{**told, **tables})


def list_costs(mean: float) -> Floats:
    """Seconds on a node of speedup 1 of records 0, 1, ..., of exactly this mean."""
    drawn = np.random.default_rng(7).gamma(1.0 / SCV, 1.0, TABLE)
    costs: Floats = drawn * (mean / drawn.mean())
    return costs


def make_work(timer: ServiceTimer, mean: float) -> Callable[[Batches], Batches]:
    """Sums of a part of a batch, each record served at its known cost; those of all so far are Spark's state."""

    def work(batches: Batches) -> Batches:
        costs = list_costs(mean) / float(os.environ[SPEED])
        for batch in batches:
            parts, deadline = Counter[int](), time.perf_counter()
            for number in timer.each(batch["id"].tolist()):
                deadline += float(costs[number % TABLE])  # what a sleep overshoots is taken off the next
                time.sleep(max(0.0, deadline - time.perf_counter()))
                parts[number % KEYS] += 1
            yield pd.DataFrame(sorted(parts.items()), columns=["key", "n"])

    return work


def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pins the stage that keeps the state, too."""
    yield from batches


class Totals:
    """What the stateful count put out last of each key; it outlives the driver."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "totals.json"
        self.counts: dict[str, int] = json.loads(self.file.read_text()) if self.file.exists() else {}

    def keep(self, frame: DataFrame, batch: int) -> None:
        self.counts.update({str(row.key): int(row.n) for row in frame.collect()})
        write_whole(self.file, json.dumps(self.counts))
        append(self.folder / "batches.jsonl", {"batch": batch, "end": self.sum(), "time": time.time()})

    def sum(self) -> int:
        return sum(self.counts.values())


def start_query(
    spark: SparkSession, setup: Setup, folder: Path, pinned: Pinned, timer: ServiceTimer, began: float, totals: Totals
) -> StreamingQuery:
    options = {"levels": json.dumps(setup.levels), "began": repr(began), "most": setup.most}
    options |= {"piece": setup.piece, "tasks": setup.tasks}
    records = spark.readStream.format("rising").options(**options).load()
    parts = records.mapInPandas(timer.whole(make_work(timer, setup.mean)), PARTS, profile=pinned.profile)
    counts = parts.groupBy("key").sum("n").withColumnRenamed("sum(n)", "n")
    counts = counts.mapInArrow(pass_on, PARTS, profile=pinned.profile)
    writer = counts.writeStream.queryName(OPERATOR).outputMode("update").foreachBatch(totals.keep)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query: StreamingQuery = writer.trigger(processingTime=f"{setup.trigger_s} seconds").start()
    return query


def warm_up(spark: SparkSession, pinned: Pinned) -> None:
    """Have the executor's Python, and Spark's code of such a plan, loaded before the first record comes."""

    def idle(batches: Batches) -> Batches:
        for batch in batches:
            yield pd.DataFrame({"key": batch["id"] % KEYS, "n": 1})

    parts = spark.range(0, 40, 1, 1).mapInPandas(idle, PARTS, profile=pinned.profile)
    parts.groupBy("key").sum("n").mapInArrow(pass_on, "key long, n long", profile=pinned.profile).collect()


def await_replicas(actuator: Executors, target: Mapping[str, int], seconds: float = 90.0) -> float:
    """How long it took until these served."""
    began = time.monotonic()
    while {n: k for n, k in (actuator.deployed(OPERATOR) or {}).items() if k} != {n: k for n, k in target.items() if k}:
        if time.monotonic() > began + seconds:
            raise RuntimeError(f"{target} were asked for, and {actuator.deployed(OPERATOR)} are there")
        time.sleep(0.1)
    return time.monotonic() - began


def measure_start(spark: SparkSession, actuator: Executors, pinned: Pinned, first: Mapping[str, int]) -> float:
    """Seconds from asking for one more replica to its having run a first task."""
    name = next(iter(pinned.types))
    more = {**first, name: first.get(name, 0) + 1}
    actuator.apply(OPERATOR, more)
    took, began = await_replicas(actuator, more), time.monotonic()
    spark.range(0, 8, 1, 4).mapInArrow(pass_on, "id long", profile=pinned.profile).collect()
    took += time.monotonic() - began
    actuator.apply(OPERATOR, first)
    await_replicas(actuator, first)
    return took


def find_beginning(setup: Setup, folder: Path) -> float:
    """When the first record comes: at the start of a slot, and once for all runs of this folder."""
    file = folder / "began"
    if not file.exists():
        file.write_text(repr(((time.time() + setup.restful) // setup.slot_s + 1.0) * setup.slot_s))
    return float(file.read_text())


def tell(folder: Path, what: str, **more: Any) -> None:
    write_whole(folder / "at.json", json.dumps({"at": what, "time": time.time(), "pid": os.getpid(), **more}))


def attach(
    spark: SparkSession, setup: Setup, folder: Path, pinned: Pinned, actuator: Executors, timer: ServiceTimer
) -> Attachment:
    def note(operator: str, decision: Decision, reading: Reading) -> None:
        line = {"operator": operator, "decision": decision.to_json(), "reading": asdict(reading), "told": time.time()}
        append(folder / "decisions.jsonl", line)

    settings = scaler.AttachSettings(
        timers={OPERATOR: timer}, nodes=setup.node_types(), actuator=actuator, folder=folder / "scalers",
        slot_s=setup.slot_s, on_decision=note,
    )  # fmt: skip
    orders = folder / "objective.json" if setup.manager is None else None
    return scaler.attach(
        spark, APP, setup.manager, setup.token, orders, [pinned], enforce=setup.scaled == OURS, settings=settings
    )  # fmt: skip


def toggle(spark: SparkSession, setup: Setup, folder: Path, pinned: Pinned, timer: ServiceTimer) -> None:
    """Attached and detached in turn, so that a noisy machine disturbs both alike; whose turn is first changes, too."""
    for turn in range(setup.toggles):
        for attached in ((False, True), (True, False))[turn % 2]:
            began, work = time.time(), find_work(spark)
            with ExitStack() as stack:
                if attached:
                    actuator = Executors(Gateway(spark), [pinned], setup.page)
                    actuator.apply(OPERATOR, setup.first)  # so that it tends what is there, as it would
                    stack.enter_context(attach(spark, setup, folder, pinned, actuator, timer))
                time.sleep(setup.toggle_s)
                ended, took = time.time(), find_work(spark) - work
                line = {"turn": turn, "attached": attached, "began": began, "ended": ended, "mib": find_memory()}
                append(folder / "toggles.jsonl", {**line, "cores": took / (ended - began)})


def run(spark: SparkSession, setup: Setup, folder: Path) -> dict[str, Any]:
    spark.dataSource.register(Rising)
    pinned = scaler.pin(spark, OPERATOR, [name for name, _, _ in setup.nodes])
    told: dict[str, Any] = {}
    with ExitStack() as stack:
        if setup.scaled != SPARKS:
            actuator = Executors(Gateway(spark), [pinned], setup.page)
            actuator.apply(OPERATOR, setup.first)
            await_replicas(actuator, setup.first)
        warm_up(spark, pinned)
        if setup.measured:
            told["start_s"] = measure_start(spark, actuator, pinned, setup.first)
        timer = ServiceTimer(spark, APP, OPERATOR, folder / "timings", period=2.0)
        stack.callback(timer.close)
        stack.callback(Watch(spark, pinned, folder).close)
        began, totals, levels = find_beginning(setup, folder), Totals(folder), Levels(setup.levels)
        query = start_query(spark, setup, folder, pinned, timer, began, totals)
        stack.callback(query.stop)
        if setup.scaled in (OURS, WATCHED) and not setup.toggles:
            stack.enter_context(attach(spark, setup, folder, pinned, actuator, timer))
        tell(folder, "streaming", began=began, **told)
        if setup.toggles:
            actuator.close()
            toggle(spark, setup, folder, pinned, timer)
            return {"began": began, **told}
        while totals.sum() < levels.count(levels.seconds) or time.time() < began + levels.seconds:
            if query.exception() is not None:
                raise RuntimeError(f"the stream failed: {query.exception()}")
            time.sleep(0.2)
        limit = time.monotonic() + setup.linger_s
        while time.monotonic() < limit and sum((actuator.deployed(OPERATOR) or {}).values()) > 1:
            time.sleep(0.2)
        time.sleep(1.5)  # so that the watch, which looks once a second, sees it
    return {"began": began, **told}


def main(folder: Path) -> None:
    setup = read_setup(folder)
    tell(folder, "starting")
    own = {**SPARKS_OWN, "spark.dynamicAllocation.maxExecutors": str(setup.k_max)} if setup.scaled == SPARKS else {}
    spark = start_session(setup.master, {**SPARK, **own, **setup.conf})
    try:
        tell(folder, "done", **run(spark, setup, folder))
    finally:
        spark.stop()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    main(Path(sys.argv[1]))
