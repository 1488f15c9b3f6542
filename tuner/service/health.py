"""Liveness and readiness of the service, for whatever supervises processes.

Both are asked without a token, so they say one word: which part fails, not how. The database is checked at most once a
second, and by one request at a time: meanwhile others get the last finding.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from scaler.model.errors import BadInput
from tuner.service.exchange.services import Services
from tuner.store.connection import Store
from tuner.store.schema import HEAD, read_revision

LOGGER = logging.getLogger(__name__)
FRESH_S = 1.0
READY, STARTING = "", "starting"
DETAILS = {
    STARTING: "the service is starting",
    "database": "the database does not answer",
    "schema": "the database has not the tables that this program needs",
    "intake": "reports are not written any more",
    "daemon": "the retuning daemon has ended",
}


@dataclass(slots=True)
class Health:
    """The last finding, and how to check anew."""

    find: Callable[[], str]
    ticks: Callable[[], float] = time.monotonic
    turn: threading.Lock = field(default_factory=threading.Lock)
    found: str = STARTING
    until: float = float("-inf")

    def check(self) -> str:
        if self.ticks() >= self.until and self.turn.acquire(blocking=False):
            try:
                self.found = self.find()
                self.until = self.ticks() + FRESH_S
            finally:
                self.turn.release()
        return self.found


def make_router(health: Health) -> APIRouter:
    router = APIRouter()

    @router.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        """Whether the process lives and answers."""
        return JSONResponse({"status": "alive"})

    @router.get("/readyz", include_in_schema=False)
    def readyz() -> Response:
        """Whether the service can do its work."""
        why = health.check()
        if why == READY:
            return JSONResponse({"status": "ready"})
        body = {
            "type": "about:blank", "title": "Service Unavailable", "status": 503, "detail": DETAILS[why], "reason": why,
        }  # fmt: skip
        return JSONResponse(body, 503, {"Retry-After": "2"}, "application/problem+json")

    return router


def find_fault(services: Services) -> str:
    """The first part that fails, by its word."""
    fault = find_store_fault(services.store)
    if fault:
        return fault
    writer, daemon = services.intake.writer, services.daemon
    if writer is not None and not writer.is_alive():
        return "intake"
    return "daemon" if daemon is not None and not daemon.is_alive() else READY


def find_store_fault(store: Store) -> str:
    """The database's fault; the store's own errors call some of both kinds bad input."""
    try:
        with store.engine.execution_options(reading=True).connect() as connection:
            return READY if read_revision(connection, store.address.shown) == HEAD else "schema"
    except BadInput as error:  # another program's tables, or a newer one's
        LOGGER.warning("the database is not as this program needs it: %s", error)
        return "schema"
    except Exception as error:
        LOGGER.warning("the database does not answer: %s", type(error).__name__)
        return "database"
