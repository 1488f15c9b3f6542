"""Slots of queries without data: those in which nothing came are told from those that are unknown."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scaler.sensing.driver import IdleTrigger, QueryStatus, find_operators
from scaler.sensing.observation import is_idle
from scaler.sensing.reading import NoteCode, Reading
from scaler.sensing.spark_sensor import SparkSensor
from tests.live.fake_driver import WORDS, FakeDriver, gather
from tests.live.record import drop_file
from tests.live.streams import BEGAN, Event, play, progress, spread, tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOT = 5.0
IDLE = QueryStatus("run-1", active=False, idle=True)
LOOKS = QueryStatus("run-1", active=True, idle=False)  # its source does not answer
WAITS = QueryStatus("run-1", active=False, idle=False)  # whether there was anything is not told


def quiet(counted: bool = True, trigger: float = 1.0) -> list[Event]:
    """Twenty a second for half a minute, and nothing after that."""
    return play(spread([(30.0, 20.0)]), trigger, lambda rows: 0.1, BEGAN + 200, counted=counted).events


def heard(events: list[Event], moment: float) -> list[Event]:
    def known(event: Event) -> bool:
        past = tell([event])
        return all(sign.time <= moment for sign in (*past.started, *past.idle)) and all(
            trigger.done <= moment for trigger in past.triggers
        )

    return [event for event in events if known(event)]


def read_slots(
    events: list[Event], starts: range, trigger: float, status: QueryStatus, shift: float = 0.0
) -> list[Reading]:
    """Each half a second after its end, as a scaler does. Triggers begin at whole multiples."""
    told = FakeDriver()
    sensor, seen = gather(told, WORDS), []
    for start in starts:
        end = BEGAN + start + SLOT
        now = end + 0.5
        sensor.now = lambda now=now: now  # type: ignore[misc]
        told.say(*heard(events, now))
        last = sensor.histories[next(iter(sensor.histories))].triggers[-1].batch
        told.status, told.look = status, None
        if status.idle:
            told.look = IdleTrigger("run-1", now - (now - BEGAN) % trigger, last + 1)
        seen.append(sensor.read("words", end - SLOT, end))
    return seen


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("trigger", [0.5, 1.0, 2.0])
def test_slots_between_two_signs_of_idleness_are_idle(counted: bool, trigger: float) -> None:
    for seen in read_slots(quiet(counted, trigger), range(35, 120, 5), trigger, IDLE):
        assert (seen.arrival_rate, seen.backlog, seen.completeness, seen.notes) == (0.0, 0.0, pytest.approx(1.0), ())
        assert is_idle(seen)


def test_idleness_is_known_before_the_first_sign_of_it() -> None:
    """Spark waits ten seconds after a batch until it sends one."""
    (seen,) = read_slots(quiet(), range(32, 33), 1.0, IDLE)
    assert is_idle(seen)


@pytest.mark.parametrize("status", [LOOKS, WAITS])
def test_a_query_that_hangs_or_waits_is_not_idle(status: QueryStatus) -> None:
    """Its last report is old, and nothing says that nothing came."""
    events = [event for event in quiet() if event["event"] != "idle"]
    for seen in read_slots(events, range(35, 120, 5), 1.0, status):
        assert (seen.arrival_rate, seen.backlog, seen.completeness) == (None, None, 0.0) or seen.end - BEGAN < 50
        assert not is_idle(seen)
        assert seen.arrival_rate is None


def test_a_query_that_looks_once_a_minute_is_idle_only_until_it_looked() -> None:
    """What comes after its trigger waits for the next one, and nobody has looked."""
    events = quiet(trigger=60.0)
    seen = {reading.start - BEGAN: reading for reading in read_slots(events, range(105, 175, 5), 60.0, IDLE)}
    for start in (125, 130, 140, 160, 170):
        assert (seen[start].arrival_rate, seen[start].completeness) == (None, 0.0)
        assert not is_idle(seen[start])
    assert is_idle(seen[115])  # read after the trigger at 120


def test_a_query_that_never_looks_again_has_stalled() -> None:
    told = FakeDriver()
    sensor = gather(told, WORDS)
    told.say(*heard(quiet(), BEGAN + 39.0))
    batch = tell(heard(quiet(), BEGAN + 39.0)).triggers[-1].batch
    told.status, told.look = IDLE, IdleTrigger("run-1", BEGAN + 40.0, batch + 1)
    for start in range(40, 150, 5):
        end = BEGAN + start + SLOT
        sensor.now = lambda now=end: now + 0.5  # type: ignore[misc]
        seen = sensor.read("words", end - SLOT, end)
        assert (seen.arrival_rate, seen.completeness) == (None, 0.0)
        assert not is_idle(seen)
    assert seen.has(NoteCode.STALLED)


def test_a_batch_of_which_nobody_has_heard_is_no_idleness() -> None:
    told = FakeDriver()
    sensor = gather(told, WORDS, now=BEGAN + 45.5)
    told.say(*heard(quiet(), BEGAN + 39.0))
    last = tell(heard(quiet(), BEGAN + 39.0)).triggers[-1]
    told.status = IDLE
    told.look = IdleTrigger("run-1", BEGAN + 45.0, last.batch + 2)
    assert sensor.read("words", BEGAN + 40, BEGAN + 45).arrival_rate is None
    told.look = replace(told.look, batch=last.batch + 1)
    assert sensor.read("words", BEGAN + 40, BEGAN + 45).arrival_rate == 0.0


def test_what_comes_after_idle_slots_is_not_laid_over_them() -> None:
    told = FakeDriver()
    sensor = gather(told, WORDS, now=BEGAN + 45.5)
    told.say(*(past := heard(quiet(), BEGAN + 45.5)))
    last = tell(past).triggers[-1]
    told.status, told.look = IDLE, IdleTrigger("run-1", BEGAN + 45.0, last.batch + 1)
    assert is_idle(sensor.read("words", BEGAN + 40, BEGAN + 45))
    told.say(progress("run-1", last.batch + 1, BEGAN + 49.0, 0.5, 600, 700, 700))
    told.status, told.look = WAITS, None
    sensor.now = lambda: BEGAN + 50.5
    seen = sensor.read("words", BEGAN + 45, BEGAN + 50)
    assert (seen.arrival_rate or 0.0) * 4.0 == pytest.approx(100.0)
    assert sensor.read("words", BEGAN + 40, BEGAN + 45).arrival_rate == 0.0


def test_signs_are_kept_once() -> None:
    told = FakeDriver()
    sensor = gather(told, WORDS, now=BEGAN + 45.5)
    told.say(*heard(quiet(), BEGAN + 45.5))
    batch = sensor.histories[next(iter(sensor.histories))].triggers[-1].batch + 1
    told.status, told.look = IDLE, IdleTrigger("run-1", BEGAN + 45.0, batch)
    before = len(next(iter(sensor.histories.values())).events["idle"])
    for _ in range(5):
        sensor.read("words", BEGAN + 40, BEGAN + 45)
    assert len(next(iter(sensor.histories.values())).events["idle"]) == before + 1


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_a_real_query_is_idle_between_two_signs(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    drop_file(folder, 0)
    sensor = SparkSensor(spark)
    lines = spark.readStream.text(str(folder)).writeStream.queryName("quiet").format("noop")
    lines = lines.trigger(processingTime="500 milliseconds").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = lines.start()
    try:
        (operator,) = [found for found in find_operators(spark) if found.name == "quiet"]
        limit, look = time.time() + 60.0, None
        while look is None and time.time() < limit:
            look = sensor.driver.request_idle_trigger(operator.query)
            time.sleep(0.05)
        start = time.time()
        time.sleep(2.5)
        seen = sensor.read("quiet", start, start + 2.0)
        signs = sensor.histories[operator.query].events["idle"]
    finally:
        query.stop()
        sensor.close()
    assert look is not None
    assert (look.run, look.batch) == (operator.run, 1)
    assert is_idle(seen)
    assert seen.completeness == pytest.approx(1.0, abs=0.01)
    assert start + 1.0 < signs[-1].time < start + 60.0
