"""Stream 40 files a batch through a pinned stage; Spark lists so many by a job of the default resource profile.

The driver of tests/live/test_listing.py, a process of its own:  python -m tests.live.drive_listing MASTER FOLDER
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import scaler
from tuner.demo.stream import BRIEF, PINNED
from tuner.pipeline.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILES, BATCHES = 40, 3
PATIENCE_S = 60.0


def write_files(folder: Path, batch: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(batch * FILES, (batch + 1) * FILES):
        part = folder.parent / "part.json"
        part.write_text(json.dumps({"id": number}) + "\n")
        part.rename(folder / f"{number:04d}.json")


def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def main(master: str, folder: Path) -> None:
    spark = start_session(master, {**PINNED, **BRIEF, "spark.app.name": "listing"})
    write_files(folder / "records", 0)
    count = scaler.pin(spark, "count", ["small"])
    seen: list[int] = []

    def keep(frame: DataFrame, batch: int) -> None:
        seen.extend(row.id for row in frame.collect())

    records = spark.readStream.schema("id long").json(str(folder / "records"))
    frame = records.mapInArrow(work, "id long", profile=count.profile)
    writer = frame.writeStream.queryName("count").foreachBatch(keep)
    live = scaler.attach(
        spark, app="listing", orders=folder / "objective.json", pinned=[count], enforce=True,
        settings=scaler.AttachSettings(folder=folder / "scaler", slot_s=5.0),
    )  # fmt: skip
    took = []
    with live:
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        for batch in range(BATCHES):
            if batch:
                write_files(folder / "records", batch)
            began = time.monotonic()
            while len(seen) < (batch + 1) * FILES and time.monotonic() < began + PATIENCE_S:
                time.sleep(0.1)
            took.append(time.monotonic() - began)
            if len(seen) < (batch + 1) * FILES:
                break
        time.sleep(2.0)
        served = live.actuator.deployed("count")
    query.stop()
    told = {"seen": sorted(seen), "took": took, "served": served}
    (folder / "told.json").write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    main(sys.argv[1], Path(sys.argv[2]))
