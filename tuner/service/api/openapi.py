"""The OpenAPI document of the service's routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from tuner.service.api.bodies import BODIES
from tuner.service.api.dependencies import Reading, answer, gives

router = APIRouter(tags=["description"])
REF = "#/components/schemas/{model}"
PROBLEM = {
    "title": "Problem",
    "type": "object",
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "One sentence on what is wrong and what would be right."},
    },
    "required": ["type", "title", "status", "detail"],
}
TAGS = [
    {"name": "scalers", "description": "What the scaler of an operator does: report, and fetch its orders."},
    {"name": "applications", "description": "What is scaled, and what is demanded of it."},
    {"name": "reading", "description": "What was seen, decided and done, and why."},
    {"name": "tuning", "description": "Searches for the best objective, and when they are made."},
    {"name": "objectives", "description": "What the scalers pursue: proposed, pushed, rolled back."},
    {"name": "controls", "description": "Guards that people put before scalers."},
]


@router.get("/v1/openapi.json", **gives({"type": "object"}, "OpenAPI 3.1."))
def description(request: Request, caller: Reading) -> Response:
    """Describe this interface."""
    return answer(request.app.openapi())


def describe(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """Made when it is first asked for."""

    def make() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = write(app)
        return app.openapi_schema

    return make


def write(app: FastAPI) -> dict[str, Any]:
    documented = [route for route in app.routes if getattr(route, "include_in_schema", True)]
    written = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=documented, tags=TAGS
    )
    _, bodies = models_json_schema([(body, "validation") for body in BODIES], ref_template=REF)
    schemas = written.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(bodies["$defs"], Problem=PROBLEM)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    return written
