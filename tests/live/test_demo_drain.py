"""The end of the demo's stream: what did not end is told from what was counted wrongly."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tuner.demo import stream
from tuner.demo.stream import drain


class Query:
    """Stands for PySpark's."""

    name = "count"

    def __init__(self, busy: bool) -> None:
        self.status = {"isTriggerActive": busy, "isDataAvailable": busy}

    def exception(self) -> None:
        return None


class Written:
    def __init__(self, **counts: int) -> None:
        self.tally = Counter(counts)


@pytest.mark.parametrize(("busy", "ended"), [(True, False), (False, True)])
def test_drain_says_whether_the_stream_ended(monkeypatch: pytest.MonkeyPatch, busy: bool, ended: bool) -> None:
    monkeypatch.setattr(stream, "PATIENCE_S", 1.5)
    monkeypatch.setattr(stream, "IDLE_S", 0.5)
    source: Any = Written(word=2)
    totals = {"word": 1}
    queries: Any = {"count": Query(busy)}
    assert drain(queries, source, totals) is ended
    totals["word"] = 2
    assert drain(queries, source, totals) is True
