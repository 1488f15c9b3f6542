"""A large log is read in stretches by several processes, which comes to the same as in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline import logs
from tests.pipeline.engines import assert_same_rows, drop_unknown
from tuner.pipeline.local import reading
from tuner.pipeline.sources import pieces
from tuner.pipeline.sources.found import detect


@pytest.mark.slow
def test_stretches_read_by_processes_are_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = detect(logs.write(tmp_path / "log", logs.large(0.5)))
    whole = reading.examine(found, "shop")
    monkeypatch.setattr(pieces, "LEAST", 1)
    monkeypatch.setattr(reading, "SPREAD_BYTES", 0)
    monkeypatch.setattr(reading, "count_cores", lambda: 2)
    assert len(pieces.cut_pieces(found, 2)) == 2
    spread = reading.examine(found, "shop")
    assert whole.samples.num_rows > 50
    assert_same_rows(*([drop_unknown(row) for row in each.samples.to_pylist()] for each in (spread, whole)))
