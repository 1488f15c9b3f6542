"""Record what Spark reports of streams with known arrivals on a local session, in tests/live/recorded/.

python -m tests.live.record    a line an event: {"event": "progress", "document": {...}}
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaler.sensing.driver import Driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDED = Path(__file__).parent / "recorded"
LINES_A_FILE = 20


class Recorder:
    """Keeps every event as it came; the names are Spark's."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self.keep("started", event.json())

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.keep("progress", event.progress().json())

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self.keep("idle", event.json())

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.keep("ended", event.json())

    def keep(self, kind: str, text: str) -> None:
        self.events.append({"event": kind, "document": json.loads(text), "heard": time.time()})

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]  # noqa: RUF012


@contextmanager
def record(spark: SparkSession) -> Iterator[list[dict[str, Any]]]:
    """Events until leaving; what is told when a query ends is waited for."""
    recorder = Recorder()
    leave = Driver(spark).add_listener(recorder)
    yield recorder.events
    limit = time.monotonic() + 30.0
    while recorder.events[-1]["event"] != "ended" and time.monotonic() < limit:
        time.sleep(0.05)
    leave()


def drop_file(folder: Path, number: int, lines: int = LINES_A_FILE) -> None:
    """Whole at once, so that no reader sees half of it."""
    hidden = folder / f".{number}"
    hidden.write_text("x\n" * lines)
    hidden.rename(folder / f"{number}.txt")


def drop_files(folder: Path, first: int, seconds: float, every: float) -> int:
    """As many as fit; the number of the next one."""
    limit, number = time.monotonic() + seconds, first
    while time.monotonic() < limit:
        drop_file(folder, number)
        number += 1
        time.sleep(every)
    return number


def record_files(spark: SparkSession, scratch: Path) -> list[dict[str, Any]]:
    """Files every quarter of a second, a pause, a restart after which many wait."""
    folder, checkpoint = scratch / "in", scratch / "checkpoint"
    folder.mkdir()

    def start() -> Any:
        writer = spark.readStream.text(str(folder)).writeStream.queryName("files").format("noop")
        return writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="1 second").start()

    with record(spark) as events:
        query = start()
        number = drop_files(folder, 0, 8.0, 0.25)
        time.sleep(6.0)
        query.processAllAvailable()
        query.stop()
        number = drop_files(folder, number, 3.0, 0.25)
        query = start()
        drop_files(folder, number, 5.0, 0.25)
        query.processAllAvailable()
        query.stop()
    return events


def record_rate(spark: SparkSession, scratch: Path) -> list[dict[str, Any]]:
    """Spark's own source, whose offsets are seconds."""
    source = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    with record(spark) as events:
        writer = source.writeStream.queryName("rate").format("noop").trigger(processingTime="1 second")
        query = writer.option("checkpointLocation", str(scratch / "checkpoint")).start()
        time.sleep(8.0)
        query.stop()
    return events


def record_limited(spark: SparkSession, scratch: Path) -> list[dict[str, Any]]:
    """Kafka's kind of source: offsets are numbers of lines, 40 a second come, a batch takes no more than 60."""
    from tests.live.source import Ticks

    spark.dataSource.register(Ticks)
    options = {"rate": "40", "most": "60", "began": repr(time.time())}
    source = spark.readStream.format("ticks").options(**options).load()
    with record(spark) as events:
        writer = source.writeStream.queryName("ticks").format("noop").trigger(processingTime="2 seconds")
        query = writer.option("checkpointLocation", str(scratch / "checkpoint")).start()
        time.sleep(13.0)
        query.stop()
    return events


def main() -> None:
    from tuner.pipeline.session import start_session

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.noDataProgressEventInterval": "2000"}
    chosen = sys.argv[1:] or ["files", "rate", "limited"]
    RECORDED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        spark = start_session("local[2]", {**settings, "spark.local.dir": scratch})
        for name in chosen:
            (Path(scratch) / name).mkdir()
            events = {"files": record_files, "rate": record_rate, "limited": record_limited}[name](
                spark, Path(scratch) / name
            )
            text = "".join(json.dumps(event) + "\n" for event in events).replace(scratch, "/tmp/recorded")
            (RECORDED / f"{name}.jsonl").write_text(text)
        spark.stop()


if __name__ == "__main__":
    main()
