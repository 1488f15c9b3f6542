"""Replicas and their utilisation from Spark's executors, task times and the sums of timers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from scaler.sensing.evidence import TimedRecords
from scaler.sensing.executor_usage import (
    ObservedExecutor,
    TaskTimes,
    count_replicas,
    find_lost_replicas,
    find_utilisation,
    read_executors,
)
from scaler.timing import ServiceTally, ServiceTimer
from tests.live.fake_driver import Context, executor, report_time
from tests.live.streams import BEGAN


def test_executors_are_replicas_of_their_node_type_while_they_are_registered() -> None:
    found = read_executors(
        [
            executor("driver", BEGAN, maxTasks=0, totalCores=0),
            executor("1", BEGAN, maxTasks=2),
            executor("2", BEGAN + 30, resources={}, attributes={"NODE_TYPE": "fast"}),
            executor("3", BEGAN, resources={}, isActive=False, removeTime=report_time(BEGAN + 15)),
            executor("4", BEGAN, resources={}, resourceProfileId=0),
            {"id": "5"},
            "nonsense",
        ]
    )
    replicas = count_replicas(found, BEGAN, BEGAN + 60)
    assert replicas == pytest.approx({"small": 2.0, "fast": 0.5, "profile 3": 0.25, "": 1.0})


def test_who_was_lost_is_told_and_who_was_told_to_go_is_not() -> None:
    gone = {"isActive": False, "removeTime": report_time(BEGAN + 15)}
    found = read_executors(
        [
            executor("1", BEGAN, **gone, removeReason="worker lost: Not receiving heartbeat for 60 seconds"),
            executor("2", BEGAN, **gone, removeReason="Executor decommission: scaled in"),
            executor("3", BEGAN, **{**gone, "removeTime": report_time(BEGAN + 60)}, removeReason="worker lost"),
            executor("4", BEGAN, **gone),
        ]
    )
    assert [note.message for note in find_lost_replicas(found, BEGAN, BEGAN + 60)] == [
        "lost a replica on small (worker lost: Not receiving heartbeat for 60 seconds)",
        "lost a replica on small (cause unknown)",
    ]


def test_task_times_between_two_looks_are_how_busy_executors_were() -> None:
    def state(one: float, two: float | None) -> list[ObservedExecutor]:
        found = [ObservedExecutor("1", "small", 3, 1, BEGAN - 100, busy=one)]
        return found if two is None else [*found, ObservedExecutor("2", "fast", 3, 1, BEGAN + 30, busy=two)]

    times = TaskTimes()
    assert times.read(state(40.0, None), BEGAN, BEGAN + 60) is None
    times = times.add(BEGAN, state(40.0, None))
    times = times.add(BEGAN + 60, now := state(70.0, 6.0))
    busy = times.read(now, BEGAN, BEGAN + 60)
    assert busy == pytest.approx({"small": 30.0, "fast": 6.0})
    assert find_utilisation(busy or {}, {"small": 1.0, "fast": 0.5}, 60.0) == pytest.approx(0.5)
    assert find_utilisation({"": 30.0}, {"small": 1.0, "fast": 1.0}, 60.0) == pytest.approx(0.25)
    assert find_utilisation({"small": 30.0}, {}, 60.0) is None
    assert times.read(now, BEGAN - 50, BEGAN) is None  # nobody looked


def look_on(times: TaskTimes, began: float, ended: float, slots: int = 1) -> list[float]:
    """Seconds of work in each slot of five, of one task from one moment to the other."""
    told = []
    for at in range(0, 205, 5):
        runs, over = began <= at < ended, at >= ended
        now = [ObservedExecutor("1", "small", 3, slots, -100.0, busy=ended - began if over else 0.0, active=int(runs))]
        times = times.add(float(at), now)
        if at:
            told.append((times.read(now, at - 5.0, float(at), began if runs else None) or {})["small"])
    return told


def test_a_task_counts_in_each_slot_for_what_it_ran_there_and_not_again_when_it_ends() -> None:
    told = look_on(TaskTimes(), 10.0, 188.0)
    assert told[:2] == [0.0, 0.0]
    assert told[2:37] == pytest.approx([5.0] * 35)
    assert told[37:] == pytest.approx([3.0, 0.0, 0.0])
    told = look_on(TaskTimes(), 12.0, 188.0, slots=4)
    assert told[2:36] == pytest.approx([3.0] + [5.0] * 33)
    assert told[37] <= 3.0 + 3.0  # of the slot in which it began no look saw when that was
    assert sum(told) <= 176.0 + 3.0


def test_tasks_that_run_on_count_while_others_of_their_executor_end() -> None:
    times, told = TaskTimes(), []
    for at, ended, active in ((0, 0.0, 0), (5, 0.0, 4), (10, 0.0, 4), (15, 12.0, 3), (20, 12.0, 3), (25, 75.0, 0)):
        now = [ObservedExecutor("1", "small", 3, 4, -100.0, busy=ended, active=active)]
        times = times.add(float(at), now)
        told.append((times.read(now, at - 5.0, float(at), None) or {}).get("small"))
    assert told[2] == pytest.approx(20.0)
    assert told[3] == pytest.approx(15.0)
    assert told[4] == pytest.approx(15.0)


def test_short_tasks_count_by_what_has_ended() -> None:
    times = TaskTimes()
    for at in range(0, 60, 5):
        now = [ObservedExecutor("1", "small", 3, 1, -100.0, busy=0.5 * at, active=at // 5 % 2)]
        times = times.add(float(at), now)
        if at:
            assert times.read(now, at - 5.0, float(at), -50.0) == pytest.approx({"small": 2.5})


def look_twice(ended: float, since: float, batches: Sequence[tuple[float, float]] = (), active: int = 1) -> float:
    """Seconds of work in the minute between two looks at four executors; each ended that much of tasks in it."""
    times = TaskTimes()
    for at, busy in ((0.0, 0.0), (60.0, ended)):
        now = [ObservedExecutor(name, "small", 3, 1, -100.0, busy=busy, active=active) for name in "1234"]
        times = times.add(at, now)
    return (times.read(now, 0.0, 60.0, since, batches) or {})["small"]


def test_waves_of_a_batch_that_runs_count_once() -> None:
    assert look_twice(20.0, since=30.0) == pytest.approx(0.5 * 240.0)  # of ten seconds, and a third is on its way
    assert look_twice(29.4, since=30.0) == pytest.approx(0.5 * 240.0)
    assert look_twice(50.0, since=0.0) == pytest.approx(240.0)
    assert look_twice(57.0, since=0.0, active=0) == pytest.approx(4 * 57.0)
    assert look_twice(63.0, since=0.0) == pytest.approx(4 * 63.0)  # clocks differ: nothing is taken away


def test_what_batches_before_had_takes_nothing_from_the_one_that_runs() -> None:
    assert look_twice(30.0, 30.0, [(0.0, 30.0)]) == pytest.approx(240.0)  # one task after another
    assert look_twice(15.0, 30.0, [(0.0, 15.0)]) == pytest.approx(0.75 * 240.0)
    assert look_twice(50.0, 30.0, [(0.0, 30.0)]) == pytest.approx(240.0)  # both in waves of ten seconds
    assert look_twice(35.0, 30.0, [(-60.0, -5.0), (0.0, 15.0)]) == pytest.approx(0.75 * 240.0)


def test_looks_within_a_slot_tell_whose_task_ended() -> None:
    times = TaskTimes()
    for at, ended in ((0.0, 0.0), (30.0, 10.0), (60.0, 30.0)):
        now = [ObservedExecutor("1", "small", 3, 1, -100.0, busy=ended, active=int(at > 30.0))]
        times = times.add(at, now)
    assert times.read(now, 0.0, 60.0, 30.0, [(0.0, 20.0)]) == pytest.approx({"small": 40.0})


def test_slots_that_stay_empty_leave_no_work_to_those_that_run() -> None:
    times = TaskTimes()
    for at, ended, active in ((0.0, 0.0, 0), (60.0, 3 * 12.0, 1)):
        now = [ObservedExecutor("1", "small", 3, 4, -100.0, busy=ended, active=active)]
        times = times.add(at, now)
    assert times.read(now, 0.0, 60.0, 45.0) == pytest.approx({"small": 36.0 + 15.0})


def test_what_ran_at_a_look_runs_on_until_the_slot_ends() -> None:
    times = TaskTimes()
    now = [ObservedExecutor("1", "small", 3, 1, -100.0, busy=0.0, active=1)]
    for at in (0.0, 4.7):
        times = times.add(at, now)
    assert times.read(now, 0.0, 5.0, -50.0) == pytest.approx({"small": 5.0})


def test_what_a_timer_sends_and_cannot_be_read_does_not_stop_it(tmp_path: Path) -> None:
    class Broken(TimedRecords):
        def add(self, tally: ServiceTally) -> None:
            raise ValueError("no")

    timer = ServiceTimer(Context(), "shop", "words", tmp_path, period=3600.0)
    timer.inbox.listeners.append(Broken().add)
    timer.stopwatch.sums.add(ServiceTally(None, None, 1.0, 2.0, service_n=1.0))
    assert len(timer.inbox.tallies) == 1
    timer.close()
