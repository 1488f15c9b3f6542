"""A question of whatever watches over processes in; whether this one lives, and whether it can work, out.

Both are asked without a token, so they tell one word: which part fails, not how. The database is asked at most once a
second, and by one request at a time: who comes meanwhile is told what was known before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from scaler.model.errors import BadInput
from tuner.store.schema import HEAD, read_revision

router = APIRouter()
LOGGER = logging.getLogger(__name__)
FRESH_S = 1.0
READY, STARTING = "", "starting"
MAKING = threading.Lock()
SAYS = {
    STARTING: "the service is starting",
    "database": "the database does not answer",
    "schema": "the database has not the tables that this program needs",
    "intake": "reports are not written any more",
    "daemon": "the retuning daemon has ended",
}


@dataclass(slots=True)
class Health:
    """What was found when it was looked for last."""

    look: Callable[[], str]
    ticks: Callable[[], float] = time.monotonic
    turn: threading.Lock = field(default_factory=threading.Lock)
    found: str = STARTING
    until: float = float("-inf")

    def ask(self) -> str:
        if self.ticks() >= self.until and self.turn.acquire(blocking=False):
            try:
                self.found = self.look()
                self.until = self.ticks() + FRESH_S
            finally:
                self.turn.release()
        return self.found


@router.get("/healthz", include_in_schema=False)
async def healthz() -> Response:
    """That the process lives, and answers."""
    return JSONResponse({"status": "alive"})


@router.get("/readyz", include_in_schema=False)
def readyz(request: Request) -> Response:
    """Whether it can do its work."""
    why = health_of(request.app).ask()
    if why == READY:
        return JSONResponse({"status": "ready"})
    body = {"type": "about:blank", "title": "Service Unavailable", "status": 503, "detail": SAYS[why], "reason": why}
    return JSONResponse(body, 503, {"Retry-After": "2"}, "application/problem+json")


def health_of(app: Any) -> Health:
    with MAKING:
        health: Health | None = getattr(app.state, "health", None)
        if health is None:
            health = app.state.health = Health(lambda: find_fault(app))
        return health


def find_fault(app: Any) -> str:
    """The first part that fails, by its word."""
    fault = find_store_fault(app.state.store)
    if fault:
        return fault
    intake = getattr(getattr(app.state, "services", None), "intake", None)
    if intake is not None and intake.writer is not None and not intake.writer.is_alive():
        return "intake"
    daemon = getattr(app.state, "daemon", None)  # a thread, where `tuner serve` runs one
    return "daemon" if daemon is not None and not daemon.is_alive() else READY


def find_store_fault(store: Any) -> str:
    """Not by the store's own sentences, which call some of both kinds bad input."""
    try:
        with store.engine.execution_options(reading=True).connect() as connection:
            return READY if read_revision(connection, store.address.shown) == HEAD else "schema"
    except BadInput as error:  # another program's tables, or a newer one's
        LOGGER.warning("the database is not as this program needs it: %s", error)
        return "schema"
    except Exception as error:
        LOGGER.warning("the database does not answer: %s", type(error).__name__)
        return "database"
