"""Settings of the service, made once at its edge, and the parts that routes work with, one of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.requests import Request

from tuner.service.access.gate import RateLimits
from tuner.service.exchange.intake import Intake
from tuner.service.exchange.order_board import Board
from tuner.store.connection import Store


@dataclass(frozen=True, slots=True)
class Settings:
    """The clock is the one that records are dated by; what waits for something waits by the machine's own."""

    clock: Callable[[], float] = time.time
    poll_s: float = 0.25  # between polls for orders that another process issued
    limits: RateLimits = field(default_factory=RateLimits)


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
