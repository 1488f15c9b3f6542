"""Read an application's monitoring files into samples, by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.pipeline.ingest import IngestTarget, ingest
from tuner.pipeline.session import start_session
from tuner.pipeline.sources import detect, examine
from tuner.pipeline.sources.found import InputFile
from tuner.pipeline.sources.sample_schema import SourceResult
from tuner.retuning.state import DaemonContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MASTER = "local[1]"


def read_sources(context: DaemonContext, app: str, sources: Sequence[str], window_s: float) -> None:
    """Ingest what is new; Spark starts only if anything is, and stays for the next time."""

    def read(spark: SparkSession, fresh: Sequence[InputFile]) -> SourceResult:
        return examine(spark, fresh, app, False)

    place = IngestTarget(context.store, app, context.store.address.history.absolute(), window_s)
    ingest(lambda: start_session(MASTER), place, detect(*sources), read)
