"""The route /metrics: the text that Prometheus scrapes, made anew at most every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from tuner.service.access.callers import Caller
from tuner.service.access.gate import check_all_applications, require
from tuner.service.access.token import list_expiring
from tuner.service.metrics.application_metrics import (
    MetricsGatherer,
    add_counts,
    add_newest,
    add_objectives,
    add_retuning,
)
from tuner.service.metrics.families import Families
from tuner.store.connection import Store
from tuner.store.schema_version import HEAD

FRESH_S = 5.0
MAX_TOKENS = 1_000  # that are listed; those that expire first


def find_version() -> str:
    try:
        return version("stream-scaler")
    except PackageNotFoundError:
        return "unknown"


@dataclass(slots=True, eq=False)
class Meter:
    """One scrape at a time; concurrent scrapes wait for it and get the same text."""

    store: Store
    clock: Callable[[], float]
    backlog: Callable[[], tuple[int, int]]  # reports that wait, and how many may
    ticks: Callable[[], float] = time.monotonic
    gatherer: MetricsGatherer = field(default_factory=MetricsGatherer)
    turn: threading.Lock = field(default_factory=threading.Lock)
    registry: CollectorRegistry = field(default_factory=lambda: CollectorRegistry(auto_describe=False))
    version: str = field(default_factory=find_version)  # of what runs, whatever was installed since
    text: bytes = b""
    until: float = float("-inf")

    def __post_init__(self) -> None:
        """Register itself, and what the process has used: start, memory, time, open files."""
        collector: Any = self
        self.registry.register(collector)
        ProcessCollector(registry=self.registry)

    def expose(self) -> bytes:
        with self.turn:
            if self.ticks() >= self.until:
                self.text = generate_latest(self.registry)
                self.until = self.ticks() + FRESH_S
            return self.text

    def collect(self) -> Iterable[Metric]:
        begun, now, families = time.perf_counter(), self.clock(), Families()
        families.add("tuner_build_info", 1, self.version, HEAD)
        with self.store.read() as session:
            self.gatherer.gather(session, families, now)
            add_counts(session, families, now)
            add_objectives(session, families, now)
            add_newest(session, families, now)
            add_retuning(session, families, now, time.time())
            for token in list_expiring(session, now)[:MAX_TOKENS]:
                families.add("tuner_token_left_seconds", (token.expires or now) - now, token.name)
        waiting, room = self.backlog()
        families.add("tuner_intake_waiting", waiting)
        families.add("tuner_intake_room", room)
        families.add("tuner_scrape_seconds", time.perf_counter() - begun)
        return families.made.values()


def make_metrics_router(meter: Meter) -> APIRouter:
    router = APIRouter()

    @router.get("/metrics", include_in_schema=False)
    def metrics(caller: Annotated[Caller, Depends(require("read"))]) -> Response:
        """Answer Prometheus; with the same text for five seconds, which is about all applications."""
        check_all_applications(caller)
        return Response(meter.expose(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    return router
