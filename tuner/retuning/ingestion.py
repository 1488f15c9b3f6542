"""Read an application's monitoring files into samples, by Spark."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.pipeline.ingest import IngestTarget, ingest
from tuner.pipeline.session import start_session
from tuner.pipeline.sources import detect, examine
from tuner.retuning.state import DaemonContext


def read_sources(context: DaemonContext, app: str, sources: Sequence[str], window_s: float) -> None:
    """Ingest what is new; Spark starts only if anything is, and stays for the next time."""
    place = IngestTarget(context.store, app, context.store.address.history.absolute(), window_s)
    files = detect(*sources)
    ingest(lambda: start_session("local[1]"), place, files, lambda spark, fresh: examine(spark, fresh, app, False))
