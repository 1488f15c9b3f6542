"""Read an application's monitoring files into samples."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.pipeline.engines.choose_engine import start_engine
from tuner.pipeline.ingest import IngestTarget, ingest
from tuner.pipeline.session import start_session
from tuner.pipeline.sources.found import detect
from tuner.retuning.state import DaemonContext

MASTER = "local[1]"


def read_sources(context: DaemonContext, app: str, sources: Sequence[str], window_s: float) -> None:
    """Ingest what is new; Spark starts only if this process cannot hold it, and stays for the next time."""
    place = IngestTarget(context.store, app, context.store.address.history.absolute(), window_s)
    ingest(
        lambda fresh, rows: start_engine(fresh, rows, MASTER, app, False, lambda: start_session(MASTER)),
        place,
        detect(*sources),
    )
