"""Route of orders: agents fetch theirs, or wait for new ones (long poll)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from tuner.service.api.bodies import LONGEST_NAME, check_name
from tuner.service.api.dependencies import JSON, App, Given, Reporting, gives
from tuner.service.api.problems import problem
from tuner.service.exchange.intake import Report, submit_unanswered
from tuner.service.exchange.order_board import Notice, wait_for_orders
from tuner.service.exchange.services import Services
from tuner.store.records import Scaler

router = APIRouter(tags=["scalers"])
LONGEST_WAIT = 60.0
ORDERS: dict[str, Any] = {
    "type": "object",
    "description": "As `scaler.model.orders` reads it.",
    "properties": {
        "application": {"type": "string"},
        "revision": {"type": "integer"},
        "slot_s": {"type": "number"},
        "objective": {"anyOf": [{"type": "object"}, {"type": "null"}]},
        "candidate": {"anyOf": [{"type": "object"}, {"type": "null"}]},
        "guards": {"type": "object"},
    },
}
ETAG = {"ETag": {"description": 'The revision: `"7"`.', "schema": {"type": "string"}}}
ANSWERS = gives(ORDERS, "Orders that are not those of If-None-Match.", 200, 404)
ANSWERS[200]["headers"] = ETAG
ANSWERS[304] = {"description": "Nothing new within the wait.", "headers": ETAG}


@router.get("/v1/applications/{app}/orders", responses=ANSWERS)
async def orders(
    app: App,
    caller: Reporting,
    given: Given,
    wait: Annotated[float, Query(ge=0.0, le=LONGEST_WAIT, allow_inf_nan=False, description="Seconds.")] = 0.0,
    if_none_match: Annotated[str, Header(max_length=1_000, description='The last ETag: `"7"`.')] = "",
    accept_encoding: Annotated[str, Header(include_in_schema=False)] = "",
    scaler: Annotated[str, Header(max_length=2 * LONGEST_NAME + 1, description="operator/instance")] = "",
) -> Response:
    """Fetch what the scalers are told, or wait for something new (long poll)."""
    note_scaler(given, app, scaler)
    known = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    notice = await wait_for_orders(given.board, app, known, min(wait, given.settings.longest_wait_s))
    if notice is None:
        return problem(404, f"there are no orders for {app!r} yet; they come with its first objective or control")
    if notice.etag in known or "*" in known:
        return Response(None, 304, {"ETag": notice.etag})
    return give(notice, "gzip" in accept_encoding)


def give(notice: Notice, packed: bool) -> Response:
    headers = {"ETag": notice.etag, "Vary": "Accept-Encoding"}
    if packed and notice.packed is not None:
        return Response(notice.packed, 200, {**headers, "Content-Encoding": "gzip"}, JSON)
    return Response(notice.body, 200, headers, JSON)


def is_name(text: str) -> bool:
    try:
        return bool(check_name(text))
    except ValueError:
        return False


def note_scaler(given: Services, app: str, named: str) -> None:
    """A scaler that waits for orders lives, whether or not it has anything to report."""
    operator, _, instance = named.partition("/")
    if named.count("/") == 1 and is_name(operator) and is_name(instance):
        now = given.settings.clock()
        submit_unanswered(given.intake, Report(Scaler(app, operator, instance, now, now), acknowledges=True))
