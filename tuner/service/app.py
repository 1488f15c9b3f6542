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
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache

from anyio import to_thread
from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import JSONResponse
from fastapi.telemetry import TelemetryConfig

from scaler.model.errors import BadInput
from tuner.service.access.gate import make_gate
from tuner.service.api import agent_routes, change_routes, dependencies, read_routes
from tuner.service.api.problems import HANDLERS, problem
from tuner.service.exchange.intake import Intake, close_intake, is_refused, start_intake
from tuner.service.exchange.order_board import Board, close_board
from tuner.service.exchange.order_watch import watch_orders
from tuner.service.exchange.services import Services, Settings
from tuner.service.exchange.usage_sharing import UsageSharing
from tuner.service.metrics.exposition import Meter, make_metrics_router
from tuner.service.page import oidc_routes, page_routes
from tuner.service.page.error_pages import show_errors
from tuner.store.connection import Store, is_current, read_revision
from tuner.store.epochs import READINESS, check_write
from tuner.store.faults import DatabaseFault

TITLE = "Application Manager"
DESCRIPTION = "Agents report, and fetch their orders; people read, tune and push. Times are seconds since 1970."
API = (
    agent_routes.router, read_routes.applications, read_routes.router, read_routes.tunings, change_routes.applications,
    change_routes.tunings, change_routes.objectives, change_routes.controls, dependencies.description_router,
)  # fmt: skip
LOGGER = logging.getLogger(__name__)
FRESH_S = 1.0
MAX_READS = 10  # at a time; fewer than the database has connections, so that reports always find one
READY, STARTING = "", "starting"
# OpenTelemetry costs time in each request, and by an environment variable would send errors elsewhere, unfiltered
SILENT: TelemetryConfig = {
    "tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False,
}  # fmt: skip
DETAILS = {
    STARTING: "the service is starting",
    "database": "the database does not answer, or takes no writes",
    "reports": "the database did not take the last reports",
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
    refused = "reports" if is_refused(services.intake) else READY
    return find_store_fault(services.store, services.settings.clock()) or refused or next(ended, READY)


def find_store_fault(store: Store, now: float) -> str:
    """The fault of the database or of its schema; it must take a write, for a full disk is read well."""
    try:
        with store.read() as session:
            if not is_current(read_revision(session.connection(), store.address.shown)):
                return "schema"
        with store.begin() as session:
            check_write(session, READINESS, now)
        return READY
    except DatabaseFault as error:
        LOGGER.warning("the database does not serve: %s", error)
        return "database"
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
        to_thread.current_default_thread_limiter().total_tokens = MAX_READS
        start_intake(intake)
        usage = UsageSharing(store, app.state.gate.quotas)
        works = [asyncio.create_task(work) for work in (watch_orders(board), usage.run())]
        try:
            yield
        finally:
            close_board(board)
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)
            await asyncio.to_thread(close_intake, intake)

    app = FastAPI(
        title=TITLE, description=DESCRIPTION, version="1", lifespan=live, openapi_url=None, docs_url=None,
        redoc_url=None, exception_handlers=show_errors(HANDLERS), telemetry=SILENT,
    )  # fmt: skip
    app.state.services = services = Services(store, chosen, board, intake)
    make_gate(app, store, chosen.clock, chosen.limits)
    intake.quotas = app.state.gate.quotas
    meter = Meter(store, chosen.clock, lambda: (len(intake.waiting), intake.max_queue))
    own = make_router(Health(lambda: find_fault(services)))
    for router in (*API, own, make_metrics_router(meter), page_routes.router, oidc_routes.router):
        app.include_router(router)
    app.openapi = cache(lambda: dependencies.write_openapi(app))  # type: ignore[method-assign]
    return app


def release_agents(app: FastAPI) -> None:
    """Answer the agents that wait for orders, because the service stops; safe from within its loop alone."""
    close_board(app.state.services.board)
