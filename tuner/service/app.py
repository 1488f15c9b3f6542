"""Build the whole service on a store as one ASGI application: API, page, health, metrics.

Liveness and readiness are asked without a token, so they say one word: which part fails, not how. The database is
checked at most once a second, and by one request at a time: meanwhile others get the last finding.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import JSONResponse

from scaler.model.errors import BadInput
from tuner.service.access.gate import make_gate
from tuner.service.api import agent_routes, change_routes, dependencies, read_routes
from tuner.service.api.problems import HANDLERS, problem
from tuner.service.exchange.intake import Intake, close_intake, start_intake
from tuner.service.exchange.order_board import Board, close_board, watch_orders
from tuner.service.exchange.services import Services, Settings
from tuner.service.metrics.exposition import Meter, make_metrics_router
from tuner.service.page import page_routes
from tuner.store.connection import HEAD, Store, read_revision

TITLE = "Application Manager"
DESCRIPTION = "Agents report, and fetch their orders; people read, tune and push. Times are seconds since 1970."
API = (
    agent_routes.router, read_routes.applications, read_routes.router, read_routes.tunings, change_routes.applications,
    change_routes.tunings, change_routes.objectives, change_routes.controls, dependencies.description_router,
)  # fmt: skip
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
        return problem(503, DETAILS[why], {"Retry-After": "2"}, reason=why)

    return router


def find_fault(services: Services) -> str:
    """The first part that fails, by its word."""
    threads = {"intake": services.intake.writer, "daemon": services.daemon}
    ended = (word for word, thread in threads.items() if thread is not None and not thread.is_alive())
    return find_store_fault(services.store) or next(ended, READY)


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


def make_app(store: Store, settings: Settings | None = None) -> FastAPI:
    """Build the service; the caller owns the store."""
    chosen = Settings() if settings is None else settings
    board, intake = Board(store, chosen.poll_s), Intake(store)

    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncIterator[None]:
        start_intake(intake)
        watching = asyncio.create_task(watch_orders(board))
        try:
            yield
        finally:
            close_board(board)
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            await asyncio.to_thread(close_intake, intake)

    app = FastAPI(
        title=TITLE, description=DESCRIPTION, version="1", lifespan=live, openapi_url=None, docs_url=None,
        redoc_url=None, exception_handlers=HANDLERS,
    )  # fmt: skip
    app.state.services = services = Services(store, chosen, board, intake)
    make_gate(app, store, chosen.clock, chosen.limits)
    meter = Meter(store, chosen.clock, lambda: (len(intake.waiting), intake.max_queue))
    own = make_router(Health(lambda: find_fault(services)))
    for router in (*API, own, make_metrics_router(meter), page_routes.router):
        app.include_router(router)
    app.openapi = cache(lambda: dependencies.write_openapi(app))  # type: ignore[method-assign]
    return app


def release_agents(app: FastAPI) -> None:
    """Answer the agents that wait for orders, because the service stops; safe from within its loop alone."""
    close_board(app.state.services.board)
