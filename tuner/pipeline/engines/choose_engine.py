"""Choose the engine of an ingest: this process for what its memory holds, and Spark for the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from scaler.model.errors import BadInput
from tuner.pipeline.engine import IngestEngine
from tuner.pipeline.sources.found import InputFile
from tuner.pipeline.sources.pieces import weigh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tuner.pipeline.local.reading import ReadEvents

KINDS = ("event-log", "progress", "records")  # that need no Spark
SHARE = 0.25  # of the memory, that an ingest in this process may take
TEXT_COST, ROW_COST = 0.25, 500.0  # bytes of memory for a byte of text to read, and for a sample of the history
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def fits_memory(fresh: Sequence[InputFile], rows: int, memory: float) -> bool:
    """Whether this process can hold what these files say, beside so many samples of the history."""
    known = all(file.kind in KINDS for file in fresh)
    return known and TEXT_COST * sum(map(weigh, fresh)) + ROW_COST * rows <= SHARE * memory


def measure_memory(limits: Sequence[str] = LIMITS) -> int:
    """Bytes of memory of this machine, or of its container where that may have less."""
    least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in limits:
        with suppress(OSError, ValueError):
            least = min(least, int(Path(file).read_text(encoding="ascii")))
    return least


def start_engine(
    fresh: Sequence[InputFile], rows: int, master: str, application: str, strict: bool,
    start: Callable[[], SparkSession], here: bool = True,
) -> IngestEngine:  # fmt: skip
    """The engine for these files; Spark is loaded and started only where it is needed, or not `here`.

    A cluster reads event logs where its workers are. What they say is small, and becomes samples and windows in this
    process, whose folding takes no job of Spark's; only what memory does not hold is left to Spark from end to end.
    """
    if fits_memory(fresh, rows, measure_memory()):
        from tuner.pipeline.local.engine import LocalEngine
        from tuner.pipeline.local.reading import examine as examine_here
        from tuner.pipeline.local.reading import read_events

        spread = not (here and master.startswith("local")) and any(file.kind == "event-log" for file in fresh)
        read = read_by_spark(start) if spread else read_events
        return LocalEngine(lambda files: examine_here(files, application, strict, read))
    try:
        from tuner.pipeline.engines.spark_engine import SparkEngine
        from tuner.pipeline.sources import examine
    except ModuleNotFoundError as error:
        raise refuse_without_spark(error) from error
    return SparkEngine(start(), lambda spark, files: examine(spark, files, application, strict))


def read_by_spark(start: Callable[[], SparkSession]) -> ReadEvents:
    """The reader of event logs by a cluster."""
    try:
        from tuner.pipeline.sources.event_log import collect_events
    except ModuleNotFoundError as error:
        raise refuse_without_spark(error) from error
    spark = start()
    return lambda files: collect_events(spark, files)


def refuse_without_spark(error: ModuleNotFoundError) -> Exception:
    """Say which extra to install, unless another module than Spark is missing."""
    if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
        return error
    return BadInput(
        "tables, more monitoring than memory holds and other masters need Spark; install it with: "
        "pip install 'stream-scaler[spark]'"
    )
