"""What ingestion asks of an engine: of Spark, or of this process for what is small enough."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from tuner.pipeline.read_marks import Edge, HistoryPart, Ledger
from tuner.pipeline.sources.found import InputFile


class WrittenSamples(NamedTuple):
    """Parts, links and faults that one ingest added."""

    parts: tuple[HistoryPart, ...] = ()
    links: tuple[Edge, ...] = ()
    faults: dict[str, int] = {}  # noqa: RUF012  never changed
    notes: tuple[str, ...] = ()


class IngestEngine(Protocol):
    """Reads files, writes parts of a history, and folds it; all engines write the same and read each other's."""

    def add_part(
        self, fresh: Sequence[InputFile], folder: Path, known: Sequence[HistoryPart], since: float | None, id: str,
        now: float,
    ) -> WrittenSamples:  # fmt: skip
        """Write what the files say, and these parts do not know from `since` on, as a part; None: ask none of them."""

    def fold_all(self, folder: Path, ledger: Ledger, scratch: Path) -> None:
        """Write the windows of the whole history to a scratch folder."""

    def fold_touched(
        self, folder: Path, parts: Sequence[HistoryPart], window_s: float, added: HistoryPart, reach: float,
        scratch: Path,
    ) -> None:  # fmt: skip
        """Write the windows that a part touched, from samples at most `reach` seconds from it, the empty ones too."""

    def join_parts(self, folder: Path, parts: Sequence[HistoryPart], id: str) -> HistoryPart:
        """Write the samples of these parts as one, without the versions that no longer hold."""
