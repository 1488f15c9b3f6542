"""Run a counted stream again and again in one Spark session, scaled as each run's setup states.

The driver of bench_fidelity, a process of its own:  python -m tests.bench.fidelity_stream FOLDER

It does the runs that appear in FOLDER/runs, by name, each a folder with what tests/live/proof_stream.py reads and
leaves, and script.json: replicas to apply at seconds of the run. It ends when FOLDER/end appears.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scaler
from scaler.acting.executors import Executors
from scaler.acting.gateway import Gateway
from scaler.timing import ServiceTimer
from tests.bench.fidelity_work import make_work, pass_on
from tests.live.proof_source import Levels, Rising
from tests.live.proof_stream import (
    APP,
    OPERATOR,
    OURS,
    PARTS,
    SPARK,
    WATCHED,
    Setup,
    Totals,
    attach,
    await_replicas,
    find_beginning,
    list_costs,
    read_setup,
    tell,
)
from tests.live.proof_watch import Watch, append
from tuner.pipeline.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from scaler.acting.profiles import Pinned

LOOK_S = 0.25  # between two counts of the replicas
DRAIN_S = 30.0  # after the last record came, at most


def play(spark: SparkSession, setup: Setup, pinned: Pinned, folder: Path) -> dict[str, Any]:
    """One run, from first replicas that serve to the last record."""
    levels = Levels(setup.levels)
    with ExitStack() as stack:
        actuator = Executors(Gateway(spark), [pinned], setup.page)
        stack.callback(actuator.close)
        anew = [{}] if sum(setup.first.values()) > 1 else []  # ordered at once, they go to different workers
        for target in (*anew, setup.first):
            actuator.apply(OPERATOR, target)
            await_replicas(actuator, target)
        warm_up(spark, pinned, sum(setup.first.values()))
        timer = ServiceTimer(spark, APP, OPERATOR, folder / "timings", period=2.0)
        stack.callback(timer.close)
        stack.callback(Watch(spark, pinned, folder, LOOK_S).close)
        began, totals = find_beginning(setup, folder), Totals(folder)
        query = start_query(spark, setup, folder, pinned, timer, began, totals)
        stack.callback(query.stop)
        stack.callback(
            lambda: (folder / "progress.json").write_text(
                json.dumps([json.loads(report.json) for report in query.recentProgress])
            )
        )
        if setup.scaled in (OURS, WATCHED):
            stack.enter_context(attach(spark, setup, folder, pinned, actuator, timer))
        tell(folder, "streaming", began=began)
        script = json.loads((folder / "script.json").read_text())
        threading.Thread(target=follow, args=(script, began, actuator, folder), daemon=True).start()
        limit = began + levels.seconds
        while time.time() < limit or (totals.sum() < levels.count(levels.seconds) and time.time() < limit + DRAIN_S):
            if query.exception() is not None:
                raise RuntimeError(f"the stream failed: {query.exception()}")
            time.sleep(0.1)
    return {"began": began}


def start_query(
    spark: SparkSession, setup: Setup, folder: Path, pinned: Pinned, timer: ServiceTimer, began: float, totals: Totals
) -> StreamingQuery:
    options = {"levels": json.dumps(setup.levels), "began": repr(began), "most": setup.most}
    options |= {"piece": setup.piece, "tasks": setup.tasks}
    records = spark.readStream.format("rising").options(**options).load()
    work = make_work(timer, list_costs(setup.mean).tolist())
    parts = records.mapInArrow(timer.whole(work), PARTS, profile=pinned.profile)
    counts = parts.groupBy("key").sum("n").withColumnRenamed("sum(n)", "n")
    counts = counts.mapInArrow(pass_on, PARTS, profile=pinned.profile)
    writer = counts.writeStream.queryName(OPERATOR).outputMode("update").foreachBatch(totals.keep)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(processingTime=f"{setup.trigger_s} seconds").start()


def warm_up(spark: SparkSession, pinned: Pinned, replicas: int) -> None:
    """Have the executors' Python, and Spark's code of such a plan, loaded before the first record comes."""
    parts = spark.range(0, 40, 1, 4 * replicas).selectExpr("id as key", "id as n")
    parts = parts.mapInArrow(pass_on, PARTS, profile=pinned.profile)
    parts.groupBy("key").sum("n").withColumnRenamed("sum(n)", "n").mapInArrow(
        pass_on, PARTS, profile=pinned.profile
    ).collect()


def follow(script: list[tuple[float, dict[str, int]]], began: float, actuator: Executors, folder: Path) -> None:
    """Apply what the script states when it is due, and record when it was."""
    for second, replicas in script:
        time.sleep(max(0.0, began + second - time.time()))
        append(folder / "orders.jsonl", {"time": time.time(), "replicas": replicas})
        actuator.apply(OPERATOR, replicas)


def main(folder: Path) -> None:
    runs, first = folder / "runs", None
    while not (folder / "end").exists():
        waiting = sorted(
            one for one in runs.iterdir() if (one / "script.json").exists() and not (one / "at.json").exists()
        )
        if not waiting:
            time.sleep(0.1)
            continue
        here = waiting[0]
        setup = read_setup(here)
        tell(here, "starting")
        if first is None:
            spark = start_session(setup.master, {**SPARK, **setup.conf})
            spark.dataSource.register(Rising)
            first = scaler.pin(spark, OPERATOR, [name for name, _, _ in setup.nodes])
        try:
            tell(here, "done", **play(spark, setup, first, here))
        except Exception as error:
            logging.exception("run %s failed", here.name)
            tell(here, "failed", why=str(error))
    if first is not None:
        spark.stop()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    main(Path(sys.argv[1]))
