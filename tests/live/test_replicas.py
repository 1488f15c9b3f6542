"""Spark's list of executors, their task times and timers' sums in; replicas and how busy they are out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scaler.live.sensors.executors import Executor, TaskTimes, count_replicas, find_utilisation, read_executors
from scaler.live.sensors.records import Records, listen
from scaler.timing import ServiceTimer, Tally
from tests.live.streams import BEGAN

if TYPE_CHECKING:
    pass
from tests.live.told import Context, executor, told_time


def test_executors_are_replicas_of_their_node_type_while_they_are_registered() -> None:
    found = read_executors(
        [
            executor("driver", BEGAN, maxTasks=0, totalCores=0),
            executor("1", BEGAN, maxTasks=2),
            executor("2", BEGAN + 30, resources={}, attributes={"NODE_TYPE": "fast"}),
            executor("3", BEGAN, resources={}, isActive=False, removeTime=told_time(BEGAN + 15)),
            executor("4", BEGAN, resources={}, resourceProfileId=0),
            {"id": "5"},
            "nonsense",
        ]
    )
    replicas = count_replicas(found, BEGAN, BEGAN + 60)
    assert replicas == pytest.approx({"small": 2.0, "fast": 0.5, "profile 3": 0.25, "": 1.0})


def test_task_times_between_two_looks_are_how_busy_executors_were() -> None:
    def state(one: float, two: float | None) -> list[Executor]:
        found = [Executor("1", "small", 3, 1, BEGAN - 100, busy=one)]
        return found if two is None else [*found, Executor("2", "fast", 3, 1, BEGAN + 30, busy=two)]

    times = TaskTimes()
    assert times.read(state(40.0, None), BEGAN, BEGAN + 60) is None
    times.look(BEGAN, state(40.0, None))
    times.look(BEGAN + 60, now := state(70.0, 6.0))
    busy = times.read(now, BEGAN, BEGAN + 60)
    assert busy == pytest.approx({"small": 30.0, "fast": 6.0})
    assert find_utilisation(busy or {}, {"small": 1.0, "fast": 0.5}, 60.0) == pytest.approx(0.5)
    assert find_utilisation({"": 30.0}, {"small": 1.0, "fast": 1.0}, 60.0) == pytest.approx(0.25)
    assert find_utilisation({"small": 30.0}, {}, 60.0) is None
    assert times.read(now, BEGAN - 50, BEGAN) is None  # nobody looked


def test_what_a_timer_sends_and_cannot_be_read_does_not_stop_it(tmp_path: Path) -> None:
    class Broken(Records):
        def take(self, tally: Tally) -> None:
            raise ValueError("no")

    timer = ServiceTimer(Context(), "shop", "words", tmp_path, period=3600.0)
    leave = listen(timer, Broken())
    timer.stopwatch.sums.add(Tally(None, None, 1.0, 2.0, service_n=1.0))
    leave()
    assert len(timer.inbox.tallies) == 1
    timer.close()
