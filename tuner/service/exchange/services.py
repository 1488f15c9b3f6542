"""Settings of the service, made once at its edge, and the parts that routes work with, one of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from tuner.service.exchange.intake import Intake
from tuner.service.exchange.order_board import Board
from tuner.store.connection import Store

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Settings:
    """The clock is the one that records are dated by; what waits for something waits by the machine's own."""

    clock: Clock = time.time
    poll_s: float = 0.25  # between looks for orders that another process issued
    max_wait_s: float = 60.0  # of a long poll
    wake_at_once: int = 10  # waiters that are answered in one go; reports get their turn in between
    wake_pause_s: float = 0.01
    max_batch: int = 500  # reports in one transaction
    max_queue: int = 5_000  # reports that wait for theirs; beyond, scalers are asked to come again
    max_body: int = 4 * 2**20
    requests_per_s: float = 500.0  # of one token; a thousand scalers that share one ask 130 times
    burst: int = 5_000  # that may come at once: all scalers come back together


@dataclass(slots=True)
class Services:
    store: Store
    settings: Settings
    board: Board
    intake: Intake
    daemon: threading.Thread | None = None  # where `tuner serve` runs it


def services_of(request: Request) -> Services:
    """The services that `make_app` put into the application's state."""
    found: Services = request.app.state.services
    return found
