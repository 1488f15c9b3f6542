"""A store and a clock in; the text that Prometheus reads, made anew at most every few seconds, out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tuner.service.metrics.application_metrics import Gatherer, tell_time
from tuner.service.metrics.rollout_metrics import (
    tell_controls,
    tell_objectives,
    tell_searches,
    tell_surrogates,
    tell_watches,
)

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from tuner.store.connection import Store

FRESH_S = 5.0
Backlog = Callable[[], tuple[int, int] | None]  # reports that wait, and how many may


@dataclass(slots=True)
class Meter:
    """One look at a time; who comes meanwhile waits for it and is told the same."""

    store: Store
    clock: Callable[[], float]
    backlog: Backlog
    ticks: Callable[[], float] = time.monotonic
    gatherer: Gatherer = field(default_factory=Gatherer)
    turn: threading.Lock = field(default_factory=threading.Lock)
    text: bytes = b""
    until: float = float("-inf")

    def expose(self) -> bytes:
        with self.turn:
            if self.ticks() >= self.until:
                self.text = write_text(lambda: self.collect())
                self.until = self.ticks() + FRESH_S
            return self.text

    def collect(self) -> Iterable[Metric]:
        from tuner.service.metrics.families import Families
        from tuner.store.schema import HEAD

        begun, now, told = time.perf_counter(), self.clock(), Families()
        told.tell("tuner_build_info", 1, find_version(), HEAD)
        with self.store.read() as session:
            self.gatherer.gather(session, told, now)
            tell_objectives(session, told, now)
            tell_controls(session, told, now)
            tell_surrogates(session, told, now)
            tell_searches(session, told, now)
            tell_watches(session, told, now, time.time())
        waiting = self.backlog()
        if waiting is not None:
            told.tell("tuner_intake_waiting", waiting[0])
            told.tell("tuner_intake_room", waiting[1])
        tell_time(told, begun)
        return told.made.values()


@dataclass(frozen=True, slots=True)
class Collector:
    """As a registry asks for it."""

    gather: Callable[[], Iterable[Metric]]

    def collect(self) -> Iterable[Metric]:
        return self.gather()

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registering does not look into the database."""
        return ()


def write_text(gather: Callable[[], Iterable[Metric]]) -> bytes:
    """With what the process itself has used: start, memory, time, open files."""
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    collector: Any = Collector(gather)
    registry.register(collector)
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def find_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("stream-scaler")
    except PackageNotFoundError:
        return "unknown"
