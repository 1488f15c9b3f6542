"""A stateless query on so many executors whose equal records are served by sleeping, until it has run some batches.

A process of its own:  python -m tests.bench.sleeping_stream MASTER FOLDER EXECUTORS BATCHES TRIGGER_S

The event log is in FOLDER.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tuner.demo.stream import LEAN
from tuner.pipeline.session import start_session

RATE = 12  # records per second
TASKS = 12  # of a batch
COST_MS = 70  # of a record, slept by the JVM: a Python worker for each executor would take CPU that a run then lacks
PATIENCE_S = 300.0
SETTINGS = {
    "spark.app.name": "sleeping",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    "spark.driver.extraJavaOptions": LEAN,
    "spark.executor.extraJavaOptions": LEAN,
    "spark.eventLog.enabled": "true",
}


def main(master: str, folder: Path, executors: int, batches: int, trigger_s: float) -> None:
    (folder / "log").mkdir(parents=True)
    own = {"spark.cores.max": str(executors), "spark.eventLog.dir": (folder / "log").as_uri()}
    spark = start_session(master, {**SETTINGS, **own})
    try:
        source = spark.readStream.format("rate").option("rowsPerSecond", RATE).option("numPartitions", TASKS)
        served = source.load().selectExpr("value", f"reflect('java.lang.Thread', 'sleep', {COST_MS}L) AS slept")
        writer = served.writeStream.format("noop").queryName("sleeping")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(processingTime=f"{trigger_s} seconds").start()
        limit = time.monotonic() + PATIENCE_S
        while (query.lastProgress or {"batchId": -1})["batchId"] < batches and time.monotonic() < limit:
            if query.exception() is not None:
                raise RuntimeError(f"the stream failed: {query.exception()}")
            time.sleep(0.2)
        query.stop()
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
