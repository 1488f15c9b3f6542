"""Run a stream that is scaled as the README describes, nothing done by hand.

The driver of tests/live/test_plain_driver.py, a process of its own: python -m tests.live.plain_driver MASTER FOLDER S
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession

import scaler
from scaler.acting.executors import SETTINGS

COST_S = 0.1  # of a record
RATE = 14  # records per second: more than one replica can serve


def main(master: str, folder: Path, seconds: float) -> None:
    spark = SparkSession.builder.master(master).config(map=SETTINGS).getOrCreate()
    parse = scaler.pin(spark, "parse", ["small"])
    timer = scaler.ServiceTimer(spark, app="shop", operator="parse", folder=folder / "timings")

    def work(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            for _ in timer.each(batch.itertuples()):
                time.sleep(COST_S)
            yield batch

    options = {"rowsPerSecond": RATE, "numPartitions": 8}
    records = spark.readStream.format("rate").options(**options).load()
    frame = records.mapInPandas(timer.whole(work), records.schema, profile=parse.profile)
    query = frame.writeStream.queryName("parse").format("noop").option("checkpointLocation", str(folder / "state"))
    running = query.start()
    live = scaler.attach(
        spark, app="shop", orders=folder / "objective.json", pinned=[parse], enforce=True,
        settings=scaler.AttachSettings(timers={"parse": timer}, folder=folder / "scaler", slot_s=5.0),
    )  # fmt: skip
    with live:
        running.awaitTermination(seconds)
        if running.exception() is not None:
            raise RuntimeError(str(running.exception()))
    running.stop()
    timer.close()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
