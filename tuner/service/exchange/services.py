"""Settings of the service, made once at its edge, and the parts that routes work with, one of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.requests import Request

from tuner.service.access.gate import RateLimits
from tuner.service.access.oidc_settings import IdentityProvider
from tuner.service.exchange.intake import Intake
from tuner.service.exchange.order_board import Board
from tuner.service.exchange.work_pool import WorkPool
from tuner.store.connection import Store
from tuner.store.decisions import MAX_AHEAD_S
from tuner.store.retention import Retention


@dataclass(frozen=True, slots=True)
class Settings:
    """The clock is the one that records are dated by; what waits for something waits by the machine's own."""

    clock: Callable[[], float] = time.time
    poll_s: float = 0.25  # between polls for orders that another process issued
    limits: RateLimits = field(default_factory=RateLimits)
    skew_s: float = MAX_AHEAD_S  # by which reports may be dated ahead of the clock
    retention: Retention | None = field(default_factory=Retention)  # None: nothing is deleted by itself
    provider: IdentityProvider | None = None  # where people may log in besides by a token


@dataclass(slots=True)
class Services:
    store: Store
    settings: Settings
    board: Board
    intake: Intake
    pages: WorkPool = field(default_factory=WorkPool)
    lists: WorkPool = field(default_factory=lambda: WorkPool(most=64))  # of what agents reported
    log_ins: WorkPool = field(default_factory=WorkPool)  # which wait for the provider
    bodies: WorkPool = field(default_factory=lambda: WorkPool(most=64))  # large ones, parsed
    daemon: threading.Thread | None = None  # where `tuner serve` runs it


def services_of(request: Request) -> Services:
    """The services that `make_app` put into the application's state."""
    found: Services = request.app.state.services
    return found
