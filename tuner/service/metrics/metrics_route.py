"""The route /metrics: all figures of the service and of its applications, as text for Prometheus."""

from __future__ import annotations

import threading
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from tuner.service.access.caller import Caller
from tuner.service.access.gate import require
from tuner.service.metrics.meter import Meter

router = APIRouter()
MAKING = threading.Lock()


@router.get("/metrics", include_in_schema=False)
def metrics(request: Request, caller: Annotated[Caller, Depends(require("read"))]) -> Response:
    """Answer Prometheus; with the same text for five seconds."""
    return Response(meter_of(request.app).expose(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


def meter_of(app: Any) -> Meter:
    """Find the application's meter, which counts from one scrape to the next."""
    with MAKING:
        meter: Meter | None = getattr(app.state, "meter", None)
        if meter is None:
            meter = app.state.meter = Meter(app.state.store, app.state.clock, lambda: find_backlog(app))
        return meter


def find_backlog(app: Any) -> tuple[int, int] | None:
    """How many reports wait to be written, and how many may; None where the service takes none in."""
    intake = getattr(getattr(app.state, "services", None), "intake", None)
    return None if intake is None else (len(intake.waiting), intake.largest_queue)
