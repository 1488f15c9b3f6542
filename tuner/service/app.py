"""Build the whole service on a store as one ASGI application: API, page, health, metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

from fastapi import APIRouter, FastAPI

from tuner.service import health
from tuner.service.access.gate import make_gate
from tuner.service.access.limits import RateLimits
from tuner.service.api import (
    application_routes,
    control_routes,
    openapi,
    order_routes,
    push_routes,
    read_routes,
    report_routes,
    tuning_routes,
)
from tuner.service.api.problems import add_handlers
from tuner.service.exchange.intake import Intake, close_intake, start_intake
from tuner.service.exchange.order_board import Board, close_board, watch_orders
from tuner.service.exchange.service_settings import Settings
from tuner.service.exchange.services import Services
from tuner.service.metrics.exposition import Meter, make_metrics_router
from tuner.service.page import page_routes
from tuner.store.connection import Store

TITLE = "Application Manager"
DESCRIPTION = "Agents report, and fetch their orders; people read, tune and push. Times are seconds since 1970."
API = (
    report_routes, order_routes, application_routes, read_routes, tuning_routes, push_routes, control_routes, openapi,
)  # fmt: skip


def make_app(store: Store, settings: Settings | None = None) -> FastAPI:
    """Build the service; the caller owns the store."""
    chosen = Settings() if settings is None else settings
    board, intake = Board(store, chosen), Intake(store, chosen.largest_batch, chosen.largest_queue)

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
        redoc_url=None,
    )  # fmt: skip
    app.state.services = services = Services(store, chosen, board, intake)
    make_gate(app, store, chosen.clock, RateLimits(chosen.requests_per_s, chosen.burst))
    add_handlers(app)
    for router in list_routers(services):
        app.include_router(router)
    app.openapi = openapi.describe(app)  # type: ignore[method-assign]
    return app


def list_routers(services: Services) -> Iterator[APIRouter]:
    intake = services.intake
    meter = Meter(services.store, services.settings.clock, lambda: (len(intake.waiting), intake.largest_queue))
    yield from (room.router for room in API)
    yield health.make_router(health.Health(lambda: health.find_fault(services)))
    yield make_metrics_router(meter)
    yield page_routes.router


def release(app: FastAPI) -> None:
    """Answer the agents that wait for orders, because the service stops; safe from within its loop alone."""
    close_board(app.state.services.board)
