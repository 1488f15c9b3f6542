"""Record the event log that `tuner demo` reads: a real stream of one query on one core, its load up and down again.

python -m tests.bed.record_demo FILE    (ten minutes; FILE is tuner/demo/recorded/eventlog.zstd)

Records cost what sleeping costs, so that a busy machine changes little. Of the log only lines are kept that a reader of
logs looks at, as Spark wrote them: plans of SQL and the starts of tasks are most of its text.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import zstandard

from tests.bed.plan import Plan, write_plan
from tests.bed.source import Replay
from tuner.pipeline.session import start_session
from tuner.pipeline.sources.event_lines import EVENTS
from tuner.pipeline.sources.found import detect
from tuner.pipeline.sources.log_file import OPENING, FilePiece, read_blocks

if TYPE_CHECKING:
    import pandas as pd

LOADS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.7, 0.55, 0.4, 0.25)
PLAN = Plan(loads=LOADS, seconds=50.0, rest=20.0, split_mean=0.008)
APP, QUERY = "clicks", "parse"
SETTINGS = {"spark.app.name": APP, "spark.eventLog.enabled": "true", "spark.eventLog.rolling.enabled": "false"}
LEVEL = 19  # of the compression


def run_stream(folder: Path) -> None:
    """Run the plan to its end; the log is in `folder`/log."""
    (folder / "log").mkdir()
    write_plan(PLAN, folder / "plan.json")
    costs = (PLAN.costs()["split"].table()).tolist()
    spark = start_session("local[1]", {**SETTINGS, "spark.eventLog.dir": (folder / "log").as_uri()})
    spark.dataSource.register(Replay)

    def work(batches: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        deadline = time.perf_counter()
        for batch in batches:
            for number in batch["id"]:
                deadline += costs[number % len(costs)]
                time.sleep(max(0.0, deadline - time.perf_counter()))
            yield batch[["id"]]

    began = time.time() + 5.0
    replay = spark.readStream.format("replay").option("plan", str(folder / "plan.json")).option("began", repr(began))
    writer = replay.load().mapInPandas(work, "id long").writeStream.queryName(QUERY).format("noop")
    query = (
        writer.option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="500 milliseconds")
        .start()
    )
    time.sleep(max(0.0, began + PLAN.levels()[-1][1] + 2.0 - time.time()))
    query.stop()
    spark.stop()


def list_lines(log: Path) -> Iterator[bytes]:
    """Lines that a reader looks at."""
    for file in detect(log):
        for block in read_blocks(FilePiece(file.log, file.path, file.codec)):
            for line in block.split(b"\n"):
                if line.startswith(OPENING) and line[len(OPENING) : line.index(b'"', len(OPENING))] in EVENTS:
                    yield line


def main(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_stream(Path(folder))
        text = b"".join(line + b"\n" for line in list_lines(Path(folder, "log")))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zstandard.ZstdCompressor(level=LEVEL).compress(text))
    print(f"{path}: {len(text) / 1e6:.1f} MB of text in {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
