"""Readings of Spark's events, executors and timers."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from scaler.sensing.driver import PlannedBatch, QueryActivity, QueryStatus, StreamOperator
from scaler.sensing.evaluate import estimate_running_work
from scaler.sensing.evidence import Evidence, TimedRecords
from scaler.sensing.executor_usage import ObservedExecutor
from scaler.sensing.reading import NoteCode
from scaler.timing import ServiceTally, ServiceTimer
from tests.live.fake_driver import WORDS, Context, FakeDriver, executor, gather, report_time, steady
from tests.live.streams import BEGAN, QUERY, Event, offsets, play, progress, recorded, spread


@pytest.fixture
def told() -> FakeDriver:
    return FakeDriver()


def test_events_become_a_reading(told: FakeDriver) -> None:
    sensor = gather(told, WORDS)
    told.say(*steady())
    told.executors = [executor("1", BEGAN - 5), executor("2", BEGAN + 45), executor("9", BEGAN, resourceProfileId=0)]
    seen = sensor.read("words", BEGAN + 30, BEGAN + 60)
    assert seen.arrival_rate == pytest.approx(50.0, rel=0.01)
    assert seen.replicas == pytest.approx({"small": 1.5})
    assert seen.utilisation == pytest.approx(0.1, rel=0.1)  # batches run a tenth of the time
    assert (seen.notes, seen.backlog) == ((), 0.0)
    assert sensor.read("nobody", BEGAN, BEGAN + 1).completeness == 0.0
    sensor.close()
    assert told.listener is None
    assert sensor.read("words", BEGAN + 30, BEGAN + 60).arrival_rate == seen.arrival_rate


def test_a_jvm_that_does_not_answer_leaves_what_events_told() -> None:
    class Gone(FakeDriver):
        def list_executors(self) -> list[Event]:
            raise ConnectionError("gone")

        def request_status(self, query: str) -> QueryStatus | None:
            raise ConnectionError("gone")

    told = Gone()
    sensor = gather(told, WORDS)
    told.say(*steady())
    seen = sensor.read("words", BEGAN + 30, BEGAN + 60)
    assert seen.arrival_rate == pytest.approx(50.0, rel=0.01)
    assert seen.replicas is None
    assert seen.completeness == 1.0


def test_a_batch_that_runs_now_is_known_by_its_job(told: FakeDriver) -> None:
    sensor = gather(told, WORDS)
    told.say(*steady())
    told.status = QueryStatus("run-1", active=True, idle=False)
    told.jobs = [
        {"jobGroup": "run-1", "submissionTime": report_time(BEGAN + 50)},
        {"jobGroup": "other", "submissionTime": report_time(BEGAN + 1)},
        {"submissionTime": None},
    ]
    told.executors = [executor("1", BEGAN - 5, activeTasks=1, totalDuration=0)]
    sensor.now = lambda: BEGAN + 30.0
    sensor.read("words", BEGAN, BEGAN + 30)
    sensor.now = lambda: BEGAN + 60.0
    seen = sensor.read("words", BEGAN + 30, BEGAN + 60)
    assert seen.response == pytest.approx(10.0)
    assert seen.utilisation == pytest.approx(10.0 / 30.0)
    assert (sensor.read("words", BEGAN, BEGAN + 30).response or 0.0) < 2.0  # of a slot that is over it says nothing


def test_what_came_before_a_long_batch_is_known_while_it_runs(told: FakeDriver) -> None:
    sensor = gather(told, WORDS, now=BEGAN + 90.0)
    told.say(*steady())
    told.status = QueryStatus("run-1", active=True, idle=False)
    last = sensor.histories[QUERY].triggers[-1]
    latest = json.dumps(offsets((last.latest or 0) + 2000))
    told.flight = PlannedBatch(last.batch + 1, BEGAN + 80.0, [latest], [latest])
    seen = sensor.read("words", BEGAN + 70, BEGAN + 90)
    assert seen.arrival_rate == pytest.approx(2000 / (80.0 - (last.time - BEGAN)))
    assert seen.response == pytest.approx(10.0)
    assert (seen.completeness, seen.batches, seen.tuples_in) == (1.0, 0, 0.0)
    assert (seen.running_time, seen.batch_throughput) == (10.0, pytest.approx(200.0))  # at most: it is not done
    sensor.now = lambda: BEGAN + 120.0  # of a slot that is over it is known what came, and no more
    seen = sensor.read("words", BEGAN + 62, BEGAN + 80)
    assert (seen.arrival_rate, seen.completeness) == (pytest.approx(2000 / (80.0 - (last.time - BEGAN))), 1.0)
    assert (seen.response, seen.running_time) == (None, None)
    sensor.now = lambda: BEGAN + 90.0
    for other in (
        PlannedBatch(last.batch, last.time, [latest], [latest]),  # is done, and reported
        PlannedBatch(last.batch + 2, BEGAN + 80.0, [latest], [latest]),  # a report is missing
        PlannedBatch(last.batch + 1, BEGAN + 80.0, [latest], [None]),
        PlannedBatch(last.batch + 1, BEGAN + 80.0, ["{"], [latest]),
        PlannedBatch(last.batch + 1, BEGAN + 80.0, [], []),
    ):
        told.flight = other
        assert sensor.read("words", BEGAN + 70, BEGAN + 90).arrival_rate is None


LONG = 178.0


def burst(told: FakeDriver, busy: float) -> dict[int, list[NoteCode]]:
    """Codes of notes by slot: two seconds of batch every five, then a long one; executors work that share of it."""
    events = play(spread([(60.0, 50.0)]), 5.0, lambda rows: 2.0, BEGAN + 60).events
    sensor = gather(told, WORDS)
    told.say(*events)
    last = sensor.histories[QUERY].triggers[-1]
    offset, batch, began, ended = last.latest or 0, last.batch + 1, BEGAN + 60.0, BEGAN + 60.0 + LONG
    notes = {}
    for at in range(60, 250, 5):
        now = BEGAN + at
        runs = began <= now < ended
        sensor.now = lambda now=now: now  # type: ignore[misc]
        if now >= ended and (now - 5.0) < ended:
            told.say(progress("run-1", batch, began, LONG, offset, offset + 9000, offset + 9000))
        told.status = QueryStatus("run-1", active=runs, idle=False)
        told.flight = PlannedBatch(
            batch, began, [json.dumps(offsets(offset + 9000))], [json.dumps(offsets(offset + 9000))]
        )
        spent = 24.0 + (LONG * busy if now >= ended else 0.0)
        told.executors = [
            executor("1", BEGAN - 5, totalDuration=1000.0 * spent, activeTasks=int(runs and busy > 0.0)),
        ]
        notes[at] = [note.code for note in sensor.read("words", now - 5.0, now).notes]
    return notes


def test_a_long_batch_through_which_executors_work_is_no_stall(told: FakeDriver) -> None:
    notes = burst(told, 0.99)
    assert not any(NoteCode.STALLED in each for each in notes.values())


def test_a_long_batch_with_idle_executors_is_a_stall_until_it_has_reported(told: FakeDriver) -> None:
    notes = burst(told, 0.0)
    assert all(NoteCode.STALLED in each for at, each in notes.items() if 100 <= at <= 240)
    assert NoteCode.STALLED not in notes[245]


def count_running(
    executors: list[ObservedExecutor], since: float, start: float, end: float, records: TimedRecords | None = None
) -> dict[str, float]:
    timed = None if records is None else records.copy(start, end)
    activity = QueryActivity(since)
    return estimate_running_work(Evidence("words", start, end, activity=activity, executors=executors, timed=timed))


def test_tasks_count_with_timers_for_what_they_ran_in_the_slot() -> None:
    one = ObservedExecutor("1", "small", 3, 2, BEGAN, active=2)
    assert count_running([one], BEGAN + 10, BEGAN + 60, BEGAN + 65) == {"small": 10.0}
    assert count_running([one], BEGAN + 62, BEGAN + 60, BEGAN + 65) == {"small": 6.0}
    assert count_running([one], BEGAN + 65, BEGAN + 60, BEGAN + 65) == {}


def ended_waves(*node_types: str | None, number: int, since: float) -> TimedRecords:
    """As a timer tells of so many tasks of ten seconds, one after another on each."""
    records = TimedRecords()
    for node_type in node_types:
        for i in range(number):
            at = since + 10.0 * i
            records.add(ServiceTally(node_type, "h", at, at + 10.0, service_n=100.0, service_sum=10.0))
    return records


def test_tasks_count_with_timers_for_what_those_before_them_left() -> None:
    four = [ObservedExecutor(name, "small" if name < "4" else "large", 3, 1, BEGAN, active=1) for name in "1234"]
    types = ("small", "small", "small", "large")
    half = ended_waves(*types, number=2, since=BEGAN + 30)
    assert count_running(four, BEGAN + 30, BEGAN, BEGAN + 60, half) == pytest.approx({"small": 30, "large": 10})
    full = ended_waves(*types, number=5, since=BEGAN)
    assert count_running(four, BEGAN, BEGAN, BEGAN + 60, full) == pytest.approx({"small": 30, "large": 10})
    assert count_running(four, BEGAN, BEGAN + 40, BEGAN + 60, full) == pytest.approx({"small": 30, "large": 10})
    over = ended_waves(*types, number=6, since=BEGAN)
    assert count_running(four, BEGAN, BEGAN, BEGAN + 60, over) == {}
    before = ended_waves(*types, number=3, since=BEGAN)
    assert count_running(four, BEGAN + 30, BEGAN, BEGAN + 60, before) == {"small": 90.0, "large": 30.0}
    unnamed = ended_waves(None, None, None, None, number=2, since=BEGAN + 30)
    assert count_running(four, BEGAN + 30, BEGAN, BEGAN + 60, unnamed) == pytest.approx({"": 40.0})


def use_in_waves(earlier: float, ended: float, records: TimedRecords | None = None) -> float | None:
    """Utilisation of a minute: a batch runs since half past, after one that took so many seconds."""
    sensor = gather(told := FakeDriver(), WORDS)
    sensor.records |= {} if records is None else {"words": records}
    told.say(*steady())
    last, began = sensor.histories[QUERY].triggers[-1], BEGAN + 60.0
    offset, batch = last.latest or 0, last.batch + 1
    if earlier:
        told.say(progress("run-1", batch, began, earlier, offset, offset, offset))
        batch += 1
    latest = json.dumps(offsets(offset + 9000))
    told.status = QueryStatus("run-1", active=True, idle=False)
    for now, busy in ((began, 0.0), (began + 60.0, ended)):
        told.executors = [executor(str(i), BEGAN - 5, activeTasks=1, totalDuration=1000 * busy) for i in range(4)]
        told.flight = PlannedBatch(batch, began + 30.0, [latest], [latest]) if now > began else None
        sensor.now = lambda now=now: now  # type: ignore[misc]
        seen = sensor.read("words", now - 60.0, now)
    return seen.utilisation


def test_waves_of_a_batch_that_runs_count_once() -> None:
    assert use_in_waves(0.0, ended=20.0) == pytest.approx(0.5)
    assert use_in_waves(15.0, ended=35.0) == pytest.approx(0.75)
    assert use_in_waves(30.0, ended=50.0) == pytest.approx(1.0)
    assert use_in_waves(15.0, ended=15.0) == pytest.approx(0.75)  # one long task after another
    assert use_in_waves(30.0, ended=30.0) == pytest.approx(1.0)


@pytest.mark.parametrize(("since", "number", "used"), [(90, 2, 0.5), (80, 3, 2 / 3), (60, 5, 1.0), (60, 3, 1.0)])
def test_waves_that_timers_told_of_count_once(since: float, number: int, used: float) -> None:
    records = ended_waves(*["small"] * 4, number=number, since=BEGAN + since)
    assert use_in_waves(0.0, ended=0.0, records=records) == pytest.approx(used)


def test_timers_say_better_how_busy_replicas_are(told: FakeDriver, tmp_path: Path) -> None:
    timer = ServiceTimer(Context(), "shop", "words", tmp_path, period=3600.0)
    sensor = gather(told, WORDS, timers={"words": timer})
    told.say(*steady())
    told.executors = [executor("1", BEGAN - 5), executor("2", BEGAN - 5, resources={"node_large": {}})]
    for node_type, busy in (("small", 12.0), ("large", 6.0)):
        tally = ServiceTally(
            node_type, "h", BEGAN + 30, BEGAN + 60, service_n=600.0, service_sum=busy, service_squares=1.0
        )
        timer.stopwatch.sums.add(tally)
    seen = sensor.read("words", BEGAN + 30, BEGAN + 60)
    assert (seen.service_n, seen.service_sum, seen.service_squares) == pytest.approx((1200.0, 18.0, 2.0))
    assert seen.utilisation == pytest.approx(0.4)  # of the small one
    half = sensor.read("words", BEGAN + 30, BEGAN + 45)
    assert (half.service_n, half.service_sum, half.service_squares) == pytest.approx((600.0, 9.0, 1.0))
    sensor.close()
    timer.stopwatch.sums.add(ServiceTally("small", "h", BEGAN + 30, BEGAN + 60, service_n=600.0))
    assert sensor.read("words", BEGAN + 30, BEGAN + 60).service_sum == seen.service_sum
    timer.close()
    lines = [json.loads(line) for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert sum(line["service_n"] for line in lines) == 1800.0  # nothing was taken away from the file


def test_a_later_stage_has_what_its_timers_saw_and_no_more(told: FakeDriver, tmp_path: Path) -> None:
    timer = ServiceTimer(Context(), "shop", "words/profile5", tmp_path, period=3600.0)
    first = StreamOperator("words/profile3", QUERY, "run-1", (3,), leaving=False)
    last = StreamOperator("words/profile5", QUERY, "run-1", (5,), entry=False)
    sensor = gather(told, first, last, timers={"words/profile5": [timer]})
    told.say(*steady())
    timer.stopwatch.sums.add(ServiceTally("small", "h", BEGAN + 30, BEGAN + 60, service_n=600.0, service_sum=3.0))
    told.executors = [executor("1", BEGAN - 5), executor("2", BEGAN - 5, resourceProfileId=5)]
    one, other = (sensor.read(operator.name, BEGAN + 30, BEGAN + 60) for operator in (first, last))
    assert one.arrival_rate == pytest.approx(50.0, rel=0.01)
    assert one.tuples_out is None
    assert (other.arrival_rate, other.tuples_in, other.backlog) == (pytest.approx(20.0), 600.0, 0.0)
    assert other.response == one.response  # no longer than it takes in all
    assert other.tuples_out is not None
    assert other.utilisation == pytest.approx(0.1)
    timer.close()


def test_a_query_started_anew_under_another_id_is_found_by_its_name(told: FakeDriver) -> None:
    sensor = gather(told, StreamOperator("words", "another", "run-0"))
    told.say(*steady())
    assert sensor.read("words", BEGAN + 30, BEGAN + 60).arrival_rate == pytest.approx(50.0, rel=0.01)


def test_memory_is_bounded_and_threads_do_not_disturb_each_other(told: FakeDriver) -> None:
    sensor = gather(told, WORDS, max_triggers=50)
    errors: list[Exception] = []

    def keep_reading() -> None:
        try:
            for _ in range(200):
                sensor.read("words", BEGAN, BEGAN + 60)
        except Exception as error:
            errors.append(error)

    readers = [threading.Thread(target=keep_reading) for _ in range(3)]
    for reader in readers:
        reader.start()
    events = steady()
    for i in range(300):
        other = {**events[1]["document"], "id": f"query {i}", "name": f"q{i}"}
        told.say({"event": "progress", "document": other}, *events[i % 60 : i % 60 + 2])
    for reader in readers:
        reader.join()
    assert errors == []
    assert len(sensor.histories) <= 256
    assert len(sensor.ids) <= 256
    assert all(len(history.triggers) <= 50 for history in sensor.histories.values())
    records = TimedRecords(max_age_s=100)
    for second in range(1000):
        records.add(ServiceTally("small", None, float(second), second + 1.0, service_n=1.0))
    assert len(records.seconds) <= 102
    sums = records.copy(910.0, 960.0).read(910.0, 960.0)
    assert {name: each.service_n for name, each in sums.items()} == {"small": pytest.approx(50.0)}


def test_late_and_double_events_are_put_where_they_belong(told: FakeDriver) -> None:
    sensor, orderly = gather(told, WORDS), gather(told_anew := FakeDriver(), WORDS)
    events = steady()
    told_anew.say(*events)
    told.say(*events[:10], *events[5:8], *reversed(events[10:]), *events)
    one, other = sensor.read("words", BEGAN + 10, BEGAN + 40), orderly.read("words", BEGAN + 10, BEGAN + 40)
    assert (one.arrival_rate, one.response, one.completeness) == (
        other.arrival_rate,
        other.response,
        other.completeness,
    )


def test_recorded_events_are_told_as_they_came(told: FakeDriver) -> None:
    sensor = gather(told)
    told.say(*recorded("rate"))
    times = [trigger.time for trigger in sensor.histories[recorded("rate")[0]["document"]["id"]].triggers]
    assert sensor.read("rate", times[1], times[-1]).arrival_rate == pytest.approx(50.0, rel=0.01)
