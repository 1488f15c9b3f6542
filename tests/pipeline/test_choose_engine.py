"""Which engine reads what: this process what its memory holds, a cluster where it is named, and Spark the rest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scaler.model.errors import BadInput
from tuner.pipeline.engines.choose_engine import fits_memory, measure_memory, start_engine
from tuner.pipeline.local.engine import LocalEngine
from tuner.pipeline.sources.found import InputFile

GIB = float(1 << 30)
LOG = InputFile("/logs/app-1", "event-log", "/logs/app-1", size=1 << 30)
TABLE = InputFile("/logs/a.csv", "table", "/logs/a.csv", size=9)


def never() -> object:
    raise AssertionError("Spark was started")


@pytest.mark.parametrize(
    ("files", "rows", "memory", "fits"),
    [
        ([LOG], 0, GIB, True),
        ([LOG, LOG], 0, GIB, False),
        ([LOG], 1_000_000, GIB, False),
        ([LOG], 1_000_000, 4 * GIB, True),
        ([TABLE], 0, 64 * GIB, False),
    ],
)
def test_memory_decides_what_this_process_reads(files: list[InputFile], rows: int, memory: float, fits: bool) -> None:
    assert fits_memory(files, rows, memory) is fits


def test_memory_is_that_of_the_container(tmp_path: Path) -> None:
    machine = measure_memory(())
    (tmp_path / "none").write_text("max\n")
    (tmp_path / "some").write_text("1048576\n")
    assert measure_memory([str(tmp_path / "none"), str(tmp_path / "absent")]) == machine
    assert measure_memory([str(tmp_path / "none"), str(tmp_path / "some")]) == 1 << 20


def test_local_logs_are_read_without_spark() -> None:
    assert isinstance(start_engine([LOG], 0, "local[*]", "shop", True, never), LocalEngine)


@pytest.mark.parametrize("files", [[LOG], [TABLE]])
def test_a_cluster_without_the_package_is_refused(files: list[InputFile], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark" or name.endswith("event_log")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "tuner.pipeline.engines.spark_engine", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(BadInput, match=r"need Spark; install it with: pip install 'stream-scaler\[spark\]'"):
        start_engine(files, 0, "spark://127.0.0.1:7077", "shop", True, never)
