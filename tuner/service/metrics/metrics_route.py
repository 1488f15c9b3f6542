"""The route /metrics: all figures of the service and of its applications, as text for Prometheus."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from tuner.service.access.caller import Caller
from tuner.service.access.gate import require
from tuner.service.metrics.meter import Meter


def make_router(meter: Meter) -> APIRouter:
    router = APIRouter()

    @router.get("/metrics", include_in_schema=False)
    def metrics(caller: Annotated[Caller, Depends(require("read"))]) -> Response:
        """Answer Prometheus; with the same text for five seconds."""
        return Response(meter.expose(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    return router
