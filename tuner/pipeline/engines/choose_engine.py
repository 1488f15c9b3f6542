"""Choose the engine of an ingest: this process for what its memory holds, and Spark for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from scaler.model.errors import BadInput
from tuner.pipeline.engine import IngestEngine
from tuner.pipeline.sources.found import InputFile
from tuner.pipeline.sources.pieces import weigh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ("event-log", "progress", "records")  # that are read without Spark
MOST_BYTES = 2 << 30  # of text; takes some 0.5 GB
MOST_ROWS = 3_000_000  # samples of the history; take some 1.5 GB


def is_local(fresh: Sequence[InputFile], rows: int, master: str) -> bool:
    """Whether this process reads these files, beside so many samples of the history."""
    known = all(file.kind in KINDS for file in fresh)
    return known and master.startswith("local") and sum(map(weigh, fresh)) <= MOST_BYTES and rows <= MOST_ROWS


def start_engine(
    fresh: Sequence[InputFile], rows: int, master: str, application: str, strict: bool,
    start: Callable[[], SparkSession], here: bool = True,
) -> IngestEngine:  # fmt: skip
    """The engine for these files; Spark is loaded and started only where it is needed, or not `here`."""
    if here and is_local(fresh, rows, master):
        from tuner.pipeline.local.engine import LocalEngine
        from tuner.pipeline.local.reading import examine as examine_here

        return LocalEngine(lambda files: examine_here(files, application, strict))
    try:
        from tuner.pipeline.engines.spark_engine import SparkEngine
        from tuner.pipeline.sources import examine
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise BadInput(
            "tables, much monitoring at a time and other masters need Spark; install it with: "
            "pip install 'stream-scaler[spark]'"
        ) from error
    return SparkEngine(start(), lambda spark, files: examine(spark, files, application, strict))
