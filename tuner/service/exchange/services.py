"""What one service process has one of each, for the routes to work with."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from starlette.requests import Request

from tuner.service.exchange.intake import Intake
from tuner.service.exchange.order_board import Board
from tuner.service.exchange.service_settings import Settings
from tuner.store.connection import Store


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
