"""Arrivals and backlog of streams of files whose batches outlast slots, against the files themselves."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from scaler.model.spark_progress import Trigger, read_progress
from scaler.sensing import source_files as files
from scaler.sensing import spark_sensor as gathering
from scaler.sensing.driver import IdleTrigger, PlannedBatch, QueryStatus, StreamOperator, find_operators
from scaler.sensing.observation import is_idle
from scaler.sensing.reading import Reading
from scaler.sensing.spark_sensor import SparkSensor
from tests.live.fake_driver import WORDS, FakeDriver, gather
from tests.live.record import LINES_A_FILE, drop_files
from tests.live.streams import BEGAN, QUERY, Event, play, spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINES = 20  # of a file
CALM, HIGH = 2.0, 6.0  # files a second; 80 lines a second can be served
RISE = 60.0
SLOT = 5.0
IDLE = QueryStatus("run-1", active=False, idle=True)


def put(path: Path, came: float) -> None:
    path.touch()
    os.utime(path, (came, came))


@dataclass(frozen=True, slots=True)
class Stream:
    """A folder as it fills and is read; `at` lays out what is there at a moment, and says what Spark would."""

    folder: Path
    checkpoint: Path
    times: tuple[float, ...]  # at which files come
    events: tuple[Event, ...]

    def triggers(self) -> list[Trigger]:
        found = [read_progress(event["document"]) for event in self.events if event["event"] == "progress"]
        return [trigger for trigger in found if trigger is not None]

    def name(self, number: int) -> Path:
        return self.folder / f"part {number}.txt"

    def at(self, moment: float) -> FakeDriver:
        """Files that have come, and an entry of the log for each batch that has begun."""
        for number, came in enumerate(self.times):
            if came <= moment and not self.name(number).exists():
                put(self.name(number), came)
        taken, told = 0, FakeDriver()
        for trigger in (trigger for trigger in self.triggers() if trigger.time <= moment):
            some = range(taken, taken + (trigger.rows or 0) // LINES)
            taken = some.stop
            lines = [self.write(number, trigger.batch) for number in some]
            (self.checkpoint / "sources/0" / str(trigger.batch)).write_text("\n".join(["v1", *lines]))
            if trigger.done > moment:
                told.status = QueryStatus("run-1", active=True, idle=False)
                told.flight = PlannedBatch(trigger.batch, trigger.time, [f'{{"logOffset":{trigger.batch}}}'], [None])
        told.checkpoint = str(self.checkpoint)
        return told

    def write(self, number: int, batch: int) -> str:
        at = {"path": self.name(number).as_uri(), "timestamp": round(self.times[number] * 1000), "batchId": batch}
        return json.dumps(at)

    def heard(self, moment: float) -> list[Event]:
        done = {(trigger.batch, trigger.done <= moment) for trigger in self.triggers()}
        return [e for e in self.events if e["event"] != "progress" or (e["document"]["batchId"], True) in done]

    def read(self, start: float, end: float, change: Callable[[FakeDriver], None] = lambda _: None) -> Reading:
        told = self.at(end + 0.1)
        change(told)
        sensor = gather(told, WORDS, now=end + 0.1)
        told.say(*self.heard(end + 0.1))
        return sensor.read("words", start, end)

    def waiting(self, moment: float) -> int:
        """Files that have come and no batch has taken."""
        taken = sum(trigger.rows or 0 for trigger in self.triggers() if trigger.time <= moment) // LINES
        return sum(came <= moment for came in self.times) - taken

    def outlasted(self) -> list[float]:
        """Starts of slots in which no batch began."""
        began = [trigger.time for trigger in self.triggers()]
        starts = [BEGAN + RISE + SLOT * i for i in range(14)]
        return [start for start in starts if not any(start <= at <= start + SLOT + 0.1 for at in began)]


def known_by(event: Event, last: Trigger) -> bool:
    return event["event"] == "progress" and bool(event["document"]["batchId"] <= last.batch)


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    """More comes from second 60 on than can be served, so that each batch is longer than the one before."""
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "sources" / "0").mkdir(parents=True)
    times = np.round(spread([(RISE, CALM), (80.0, HIGH)]), 3)
    played = play(np.repeat(times, LINES), 1.0, lambda rows: 0.2 + rows / 80.0, BEGAN + 140, counted=False)
    text = json.dumps(played.events).replace("file:/words", f"file:{folder}")
    return Stream(folder, tmp_path, tuple(times.tolist()), tuple(json.loads(text)))


def test_what_comes_while_a_batch_outlasts_the_slot_is_counted_by_its_files(stream: Stream) -> None:
    assert len(stream.outlasted()) >= 4
    for start in stream.outlasted():
        seen = stream.read(start, start + SLOT)
        assert seen.arrival_rate == pytest.approx(HIGH * LINES, rel=0.05)
        assert seen.completeness == pytest.approx(1.0)
        assert seen.backlog == stream.waiting(start + SLOT) * LINES > 0.0
        assert seen.response is None or seen.response > SLOT
        assert seen.notes == ()


@pytest.mark.parametrize("start", range(20, 125, 5))
def test_every_slot_has_the_rate_at_which_files_came(stream: Stream, start: int) -> None:
    seen = stream.read(BEGAN + start, BEGAN + start + SLOT)
    came = sum(BEGAN + start < at <= BEGAN + start + SLOT for at in stream.times)
    assert seen.arrival_rate == pytest.approx(came * LINES / SLOT, rel=0.25 if start == RISE else 0.1)
    assert seen.completeness == pytest.approx(1.0)
    assert seen.backlog is not None


def test_files_that_are_deleted_once_they_are_taken_have_come_all_the_same(stream: Stream) -> None:
    start = stream.outlasted()[-1]
    whole = stream.read(start, start + SLOT)
    taken = sum(trigger.rows or 0 for trigger in stream.triggers() if trigger.time <= start) // LINES

    def clean(told: FakeDriver) -> None:
        for number in range(taken):
            stream.name(number).unlink()

    assert stream.read(start, start + SLOT, clean) == whole


def test_the_rows_of_a_file_are_those_of_batches_that_are_done(stream: Stream) -> None:
    """The batch under way has many more files than those before it, and nobody knows its rows."""
    first = stream.outlasted()[0]
    under_way = stream.at(first + SLOT + 0.1).flight
    assert under_way is not None
    sizes = {trigger.batch: (trigger.rows or 0) // LINES for trigger in stream.triggers()}
    assert sizes[under_way.batch] > 1.5 * np.mean([sizes[under_way.batch - i] for i in range(1, 8)])
    backlog = stream.read(first, first + SLOT).backlog
    assert backlog == stream.waiting(first + SLOT) * LINES


def test_what_cannot_be_told_stays_unknown(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    start = stream.outlasted()[0]

    def forget(told: FakeDriver) -> None:
        told.checkpoint = None

    def move(told: FakeDriver) -> None:
        told.checkpoint = "hdfs://name/checkpoint"

    def go(told: FakeDriver) -> None:
        told.status = None

    def begin_anew(told: FakeDriver) -> None:
        told.status = QueryStatus("run-2", active=True, idle=False)

    for change in (forget, move, go, begin_anew):
        seen = stream.read(start, start + SLOT, change)
        assert (seen.arrival_rate, seen.backlog, seen.completeness) == (None, None, 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(files, "MAX_FILES", 10)
        assert stream.read(start, start + SLOT).arrival_rate is None
    (stream.folder / "deeper").mkdir()
    seen = stream.read(start, start + SLOT)
    assert (seen.arrival_rate, seen.backlog, seen.completeness) == (None, None, 0.0)
    (stream.folder / "deeper").rmdir()
    assert stream.read(start, start + SLOT).arrival_rate is not None


def test_a_source_that_passes_files_over_is_not_measured_by_its_folder(stream: Stream) -> None:
    """With a filter, say; half of what is there is not for this query."""
    start = stream.outlasted()[0]

    def mix(told: FakeDriver) -> None:
        for number, came in enumerate(stream.times):
            if came <= start + SLOT:
                put(stream.folder / f"{number}.other", came + 0.01)

    assert stream.read(start, start + SLOT, mix).arrival_rate is None


def test_what_another_query_writes_came_when_it_was_committed(stream: Stream) -> None:
    """A commit a second, of files written in the second before it; more commits than a log's last few."""
    commits = stream.folder / "_spark_metadata"
    commits.mkdir()
    start = stream.outlasted()[-1]
    for second in range(int(start + SLOT - BEGAN) + 1):
        inside = [n for n, at in enumerate(stream.times) if second - 1 < at - BEGAN <= second]
        lines = [
            json.dumps({"path": stream.name(n).as_uri(), "modificationTime": round(stream.times[n] * 1000)})
            for n in inside
        ]
        (commits / str(second)).write_text("\n".join(["v1", *lines]))
        os.utime(commits / str(second), (BEGAN + second, BEGAN + second))
    stream.at(start)
    for number, _ in enumerate(stream.times):
        stream.name(number).unlink(missing_ok=True)  # what is not committed, or is elsewhere, is not looked for
    seen = stream.read(start, start + SLOT)
    assert seen.arrival_rate == pytest.approx(HIGH * LINES)
    assert seen.completeness == pytest.approx(1.0)


def test_files_that_wait_for_a_trigger_far_away_are_no_idleness(stream: Stream) -> None:
    """The query looked at the beginning of the slot before, found nothing, and will not look for a minute."""
    start = BEGAN + 20.0
    done = [trigger for trigger in stream.triggers() if trigger.done < start - SLOT - 1.0]
    told = stream.at(start - SLOT - 1.0)
    for number in range(sum(came < start - SLOT - 1.0 for came in stream.times), len(stream.times)):
        stream.name(number).unlink(missing_ok=True)
    told.status, told.look = IDLE, IdleTrigger("run-1", start - SLOT, done[-1].batch + 1)
    late = stream.folder / "late.txt"
    put(late, start - 2.0)
    sensor = gather(told, WORDS, now=start + SLOT)
    told.say(*(e for e in stream.heard(start - SLOT - 1.0) if e["event"] == "started" or known_by(e, done[-1])))
    seen = sensor.read("words", start, start + SLOT)
    assert (seen.arrival_rate, seen.completeness, seen.backlog) == (0.0, 1.0, LINES)
    assert not is_idle(seen)
    late.unlink()
    sensor.now = lambda: start + 2 * SLOT
    assert is_idle(sensor.read("words", start + SLOT, start + 2 * SLOT))


def test_what_was_there_when_the_query_had_nothing_to_do_does_not_wait_for_it(stream: Stream) -> None:
    start = BEGAN + 20.0
    told = stream.at(start)
    put(stream.folder / "stranger.csv", start + 0.1)
    last = [trigger for trigger in stream.triggers() if trigger.time <= start][-1]
    told.status, told.look, told.flight = IDLE, IdleTrigger("run-1", start + 3.0, last.batch + 1), None
    sensor = gather(told, WORDS, now=start + 2 * SLOT)
    told.say(*(e for e in stream.events if e["event"] == "started" or known_by(e, last)))
    seen = sensor.read("words", start + SLOT, start + 2 * SLOT)
    assert is_idle(seen)
    assert seen.completeness == pytest.approx(1.0)


def test_a_folder_is_listed_once_for_all_operators_of_a_slot(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def look(folder: str, checkpoint: str) -> files.SourceFolder | None:
        looks.append(folder)
        return files.read_source_folder(folder, checkpoint)

    monkeypatch.setattr(gathering, "read_source_folder", look)
    start = stream.outlasted()[0]
    told = stream.at(start + SLOT)
    two = [
        StreamOperator("words/profile3", QUERY, "run-1", (3,)),
        StreamOperator("words/profile5", QUERY, "run-1", (5,), False),
    ]
    sensor = gather(told, *two, now=start + SLOT)
    told.say(*stream.heard(start + SLOT))
    first, second = (sensor.read(operator.name, start, start + SLOT) for operator in two)
    assert (len(looks), first.completeness, second.completeness) == (1, 1.0, 1.0)
    assert second.arrival_rate is None  # what timers saw is not there
    sensor.now = lambda: start + 2 * SLOT
    sensor.read("words/profile3", start + SLOT, start + 2 * SLOT)
    assert len(looks) == 2
    sensor.now = lambda: start + 10 * SLOT
    sensor.read("words/profile3", start + 2 * SLOT, start + 3 * SLOT)
    assert len(looks) == 2  # what is there now says nothing of a slot long over


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_a_real_batch_that_outlasts_the_slot_hides_no_files(spark: SparkSession, tmp_path: Path) -> None:
    """A file comes each fifth of a second; the third batch waits for the end of the test."""
    folder = tmp_path / "in"
    folder.mkdir()
    over = threading.Event()

    def work(frame: DataFrame, batch: int) -> None:
        frame.count()
        if batch == 2:
            over.wait(60.0)

    sensor = SparkSensor(spark)
    writer = spark.readStream.text(str(folder)).writeStream.queryName("slow").foreachBatch(work)
    writer = writer.trigger(processingTime="1 second").option("checkpointLocation", str(tmp_path / "checkpoint"))
    drop_files(folder, 0, 0.1, 0.2)
    query = writer.start()
    try:
        (operator,) = [found for found in find_operators(spark) if found.name == "slow"]
        sensor.watch(operator)
        limit, number, flight = time.time() + 60.0, 1, None
        while (flight is None or flight.batch < 2) and time.time() < limit:
            number = drop_files(folder, number, 0.1, 0.2)
            flight = sensor.driver.request_planned_batch(operator.query)
        time.sleep(0.5)
        start, first = time.time(), number
        number = drop_files(folder, number, 2.5, 0.2)
        end = time.time()
        seen = sensor.read("slow", start, end)
    finally:
        over.set()
        query.stop()
        sensor.close()
    file = LINES_A_FILE / (end - start)
    assert seen.arrival_rate == pytest.approx(
        (number - first) * file, abs=1.1 * file
    )  # the first one's time may be earlier
    assert seen.completeness == pytest.approx(1.0)
    assert seen.backlog is not None
    assert seen.backlog >= (number - first) * LINES_A_FILE
