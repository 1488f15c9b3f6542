"""A master without workers flows in; how workers came with their executors and went, as JSON in a folder, flows out.

The driver of tests/live/test_workers.py, a process of its own:  python -m tests.live.drive_workers MASTER FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaler.acting import Site, build_actuator
from scaler.acting.profiles import pin
from tests.live.drive import SPARK, await_true, run_somewhere
from tuner.pipeline.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def drive(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Moves an operator from one node type to the other, and then away; nothing is there before."""
    count = pin(spark, "count", ["small", "large"])
    settings = {"kinds": json.loads((folder / "kinds.json").read_text()), "folder": str(folder / "workers")}
    settings |= {"linger": 2.0, "patience": 20.0, "period": 0.3}
    workers = build_actuator("workers", Site("live", spark, (count,)), settings)
    told: dict[str, Any] = {"before": workers.deployed("count"), "took": {}}

    def move(name: str, target: dict[str, int]) -> None:
        began = time.monotonic()
        workers.ask("count", target)
        await_true(lambda: workers.deployed("count") == {"small": 0, "large": 0, **target}, 60.0)
        told["took"][name] = time.monotonic() - began

    move("a worker and its executor", {"small": 1})
    told["ran on"] = run_somewhere(spark, count)
    move("one of another type, the first one's executor gone", {"large": 1})
    told["then on"] = run_somewhere(spark, count)
    move("none", {})
    began = time.monotonic()
    left = (folder / "workers").glob
    await_true(lambda: not list(left("*.process.json")), 60.0)
    told["took"]["workers gone"] = time.monotonic() - began
    told["workers at the end"] = [path.name for path in left("*.process.json")]
    workers.close()
    return told


def main(master: str, folder: Path) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # No executor but the operator's: nothing here runs in a stage that is not pinned.
    spark = start_session(master, {**SPARK, "spark.dynamicAllocation.minExecutors": "0"})
    try:
        (folder / "told.json").write_text(json.dumps(drive(spark, folder), indent=1))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
