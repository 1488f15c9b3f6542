"""A fake driver that answers as a test states, and a sensor on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from scaler.acting.gateway import SparkStage
from scaler.sensing.driver import IdleTrigger, PlannedBatch, QueryStatus, StreamOperator
from scaler.sensing.spark_sensor import SparkSensor
from tests.live.streams import BEGAN, QUERY, Event, play, spread, stamp

WORDS = StreamOperator("words", QUERY, "run-1", (3,))


def executor(name: str, since: float, **extra: Any) -> Event:
    told = {"id": name, "maxTasks": 1, "totalCores": 1, "addTime": report_time(since), "isActive": True}
    return {**told, "resourceProfileId": 3, "resources": {"node_small": {}}, "attributes": {}, **extra}


def report_time(time: float) -> str:
    return stamp(time).replace("Z", "GMT")


class FakeDriver:
    """A driver whose answers are what a test says."""

    def __init__(self) -> None:
        self.executors: list[Event] = []
        self.jobs: list[Event] = []
        self.waiting: list[SparkStage] = []
        self.status: QueryStatus | None = None
        self.flight: PlannedBatch | None = None
        self.look: IdleTrigger | None = None
        self.checkpoint: str | None = None
        self.listener: Any = None

    def list_executors(self) -> list[Event]:
        return self.executors

    def list_running_jobs(self) -> list[Event]:
        return self.jobs

    def list_waiting_stages(self, now: float) -> list[SparkStage]:
        return self.waiting

    def request_status(self, query: str) -> QueryStatus | None:
        return self.status

    def request_planned_batch(self, query: str) -> PlannedBatch | None:
        return self.flight

    def request_idle_trigger(self, query: str) -> IdleTrigger | None:
        return self.look

    def find_checkpoint(self, query: str) -> str | None:
        return self.checkpoint

    def add_listener(self, listener: Any) -> Callable[[], None]:
        self.listener = listener
        return lambda: setattr(self, "listener", None)

    def say(self, *events: Event) -> None:
        for event in events:
            text = json.dumps(event["document"])
            inner = SimpleNamespace(json=lambda text=text: text)
            if event["event"] == "progress":
                self.listener.onQueryProgress(SimpleNamespace(progress=lambda inner=inner: inner))
            elif event["event"] == "started":
                self.listener.onQueryStarted(inner)
            elif event["event"] == "idle":
                self.listener.onQueryIdle(inner)
            else:
                self.listener.onQueryTerminated(inner)


class Context:
    """A driver without Spark: an accumulator whose tasks run in this process."""

    def accumulator(self, value: Any, param: Any) -> Any:
        return SimpleNamespace(add=lambda term: param.addInPlace(value, term))


def gather(told: FakeDriver, *operators: StreamOperator, now: float = BEGAN + 60.0, **more: Any) -> SparkSensor:
    return SparkSensor(None, operators, now=lambda: now, driver=told, **more)  # type: ignore[arg-type]


def steady(rate: float = 50.0, seconds: float = 60.0) -> list[Event]:
    return play(spread([(seconds, rate)]), 1.0, lambda rows: 0.002 * rows, BEGAN + seconds).events
