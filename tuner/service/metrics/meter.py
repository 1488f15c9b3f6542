"""The text that Prometheus scrapes, made anew at most every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import Metric

from tuner.service.metrics.application_metrics import MetricsGatherer, add_scrape_time
from tuner.service.metrics.families import Families
from tuner.service.metrics.rollout_metrics import (
    add_controls,
    add_objectives,
    add_retuning,
    add_searches,
    add_surrogates,
)
from tuner.store.connection import Store
from tuner.store.schema import HEAD

FRESH_S = 5.0
Backlog = Callable[[], tuple[int, int] | None]  # reports that wait, and how many may


@dataclass(slots=True)
class Meter:
    """One scrape at a time; whoever comes meanwhile waits for it and gets the same text."""

    store: Store
    clock: Callable[[], float]
    backlog: Backlog
    ticks: Callable[[], float] = time.monotonic
    gatherer: MetricsGatherer = field(default_factory=MetricsGatherer)
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
        begun, now, families = time.perf_counter(), self.clock(), Families()
        families.add("tuner_build_info", 1, find_version(), HEAD)
        with self.store.read() as session:
            self.gatherer.gather(session, families, now)
            add_objectives(session, families, now)
            add_controls(session, families, now)
            add_surrogates(session, families, now)
            add_searches(session, families, now)
            add_retuning(session, families, now, time.time())
        waiting = self.backlog()
        if waiting is not None:
            families.add("tuner_intake_waiting", waiting[0])
            families.add("tuner_intake_room", waiting[1])
        add_scrape_time(families, begun)
        return families.made.values()


@dataclass(frozen=True, slots=True)
class Collector:
    """As a registry asks for it."""

    gather: Callable[[], Iterable[Metric]]

    def collect(self) -> Iterable[Metric]:
        return self.gather()

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registering does not read the database."""
        return ()


def write_text(gather: Callable[[], Iterable[Metric]]) -> bytes:
    """With what the process itself has used: start, memory, time, open files."""
    registry = CollectorRegistry(auto_describe=False)
    collector: Any = Collector(gather)
    registry.register(collector)
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def find_version() -> str:
    try:
        return version("stream-scaler")
    except PackageNotFoundError:
        return "unknown"
