"""Record executors, memory and processor time of a driver, second by second."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaler.acting.gateway import Gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from scaler.acting.profiles import Pinned


def append(path: Path, document: Mapping[str, Any]) -> None:
    from scaler.model.wire import write_line  # not before `scaler.pin`: a driver's kernels are interpreted from then on

    with path.open("ab") as file:
        file.write(write_line(document) + b"\n")


class Watch:
    """Every `period` seconds until closed: executors by node type, and the memory of this process."""

    def __init__(self, spark: SparkSession, pinned: Pinned, folder: Path, period: float = 1.0) -> None:
        self.gateway, self.folder, self.period = Gateway(spark), folder, period
        self.types = {profile: name for name, profile in pinned.types.items()}
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look_on, daemon=True)
        self.thread.start()

    def look_on(self) -> None:
        while not self.over.wait(self.period):
            with suppress(Exception):  # Spark is stopping
                there = Counter(self.types[e.made_for] for e in self.gateway.executors() if e.made_for in self.types)
                line = {"time": time.time(), "replicas": there, "rss_mib": find_memory()}
                append(self.folder / "replicas.jsonl", line)

    def close(self) -> None:
        self.over.set()
        self.thread.join()


def find_memory() -> float:
    """MiB of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def find_work(spark: SparkSession) -> float:
    """Seconds of a core that this driver has taken, Python and Java."""
    ticks = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
