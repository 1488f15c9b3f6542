"""The copy of a learned state beside the stream's own checkpoint, for a driver on another machine."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import scaler
from scaler.agent.checkpoint_file import FOLDER, CheckpointMirror
from scaler.sensing.driver import Driver
from tests.live.plant import NODES, Plant, make_orders
from tests.live.wait import await_true

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.xdist_group("spark")
Start = Callable[[], "StreamingQuery"]


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Start]:
    """Starts the stream, on its checkpoint; again, too."""
    (tmp_path / "in").mkdir()
    running: list[StreamingQuery] = []

    def begin() -> StreamingQuery:
        lines = spark.readStream.text(str(tmp_path / "in"))
        writer = lines.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "state"))
        running.append(writer.queryName("parse").start())
        return running[-1]

    yield begin
    for query in running:
        query.stop()


def test_a_copy_is_put_and_fetched_where_it_is_newer(spark: SparkSession, start: Start, tmp_path: Path) -> None:
    here, there = tmp_path / "here" / "parse.npz", tmp_path / "there" / "parse.npz"
    copies = CheckpointMirror(Driver(spark), str(start().id))
    copies.download(there)
    assert not there.exists()  # of what is not there no file is made
    here.parent.mkdir()
    for content in (b"first", b"second"):
        here.write_bytes(content)
        copies.upload(here)
        copies.close(10.0)
    assert (tmp_path / "state" / FOLDER / "parse.npz").read_bytes() == b"second"
    copies.download(there)
    assert there.read_bytes() == b"second"
    there.write_bytes(b"newer than the copy")
    os.utime(there, (time.time() + 60.0, time.time() + 60.0))
    copies.download(there)
    assert there.read_bytes() == b"newer than the copy"
    os.utime(there, (0.0, 0.0))
    copies.download(there)
    assert there.read_bytes() == b"second"


def test_a_crash_between_two_copies_leaves_one_of_them(spark: SparkSession, start: Start, tmp_path: Path) -> None:
    copies, file = CheckpointMirror(Driver(spark), str(start().id)), tmp_path / "parse.npz"
    file.write_bytes(b"whole")
    copies.upload(file)
    copies.close(10.0)
    place = tmp_path / "state" / FOLDER / "parse.npz"
    place.rename(place.with_name("parse.npz.part"))  # as it is before the last step
    file.unlink()
    copies.download(file)
    assert file.read_bytes() == b"whole"


def test_what_cannot_be_copied_is_said_and_costs_nothing(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "parse.npz").write_bytes(b"whole")
    copies = CheckpointMirror(Driver(spark), "2b1c1e3e-0000-4000-8000-000000000000")
    with caplog.at_level(logging.WARNING, "scaler.agent"):
        copies.upload(tmp_path / "parse.npz")
        copies.close(10.0)
    assert "cannot be copied beside the checkpoint" in caplog.text


def test_a_file_system_that_hangs_keeps_nobody_waiting(tmp_path: Path) -> None:
    class Hanging:
        def find_checkpoint(self, query: str) -> str | None:
            time.sleep(3.0)
            return None

    copies = CheckpointMirror(Hanging(), "1", timeout=0.01)  # type: ignore[arg-type]
    copies.download(tmp_path / "parse.npz")
    first = copies.thread
    copies.upload(tmp_path / "parse.npz")
    assert copies.thread is first
    assert first is not None
    assert first.is_alive()
    first.join()


def test_a_driver_on_another_machine_goes_on_from_the_streams_checkpoint(
    spark: SparkSession, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "o.json").write_text(json.dumps(make_orders("threshold-c", {})["objective"]))

    def run(machine: str) -> Any:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / machine))
        plant, query = Plant(lambda t: 900.0), start()
        settings = scaler.AttachSettings(nodes=NODES, actuator=plant, slot_s=0.2)
        with scaler.attach(spark, "shop", orders=tmp_path / "o.json", settings=settings) as live:
            await_true(lambda: "parse" in live.agents and live.agents["parse"].decider.memory.latest > 0.0)
        query.stop()
        return live.agents["parse"]

    with caplog.at_level(logging.INFO, "scaler.agent"):
        first = run("one")
        assert "goes on from checkpoint" not in caplog.text
        second = run("another")
    assert "goes on from checkpoint" in caplog.text
    assert second.decider.memory.latest >= first.decider.memory.latest > 0.0
