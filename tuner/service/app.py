"""A store and settings in; the whole service as one ASGI application out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

from fastapi import APIRouter, FastAPI

from tuner.service import health
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
from tuner.service.api.dependencies import Services
from tuner.service.api.openapi import describe
from tuner.service.api.problems import add_handlers
from tuner.service.exchange.intake import close_intake, open_intake
from tuner.service.exchange.order_board import Board, close_board, watch_orders
from tuner.service.exchange.service_settings import Settings
from tuner.service.metrics import metrics_route
from tuner.service.page import page_routes
from tuner.store.connection import Store

TITLE = "Application Manager"
SAYS = "Scalers report, and fetch what they are to pursue; people look on, tune and push. Times are seconds since 1970."


def make_app(store: Store, settings: Settings | None = None) -> FastAPI:
    """Everything under /v1, the page, and what watches over the service; the caller owns the store."""
    chosen = Settings() if settings is None else settings

    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncIterator[None]:

        board = Board(store, chosen)
        intake = open_intake(store, chosen.largest_batch, chosen.largest_queue)
        app.state.services = Services(store, chosen, board, intake)
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
        title=TITLE, description=SAYS, version="1", lifespan=live, openapi_url=None, docs_url=None, redoc_url=None
    )
    app.state.store, app.state.clock = store, chosen.clock
    add_handlers(app)
    for router in list_routers():
        app.include_router(router)
    app.openapi = describe(app)  # type: ignore[method-assign]
    return app


def list_routers() -> Iterator[APIRouter]:
    rooms = (
        report_routes,
        order_routes,
        application_routes,
        read_routes,
        tuning_routes,
        push_routes,
        control_routes,
        openapi,
    )
    for room in (*rooms, health, metrics_route, page_routes):
        yield room.router


def release(app: FastAPI) -> None:
    """Answer those who wait for orders, for the service is to stop; safe from within its loop alone."""
    close_board(app.state.services.board)
