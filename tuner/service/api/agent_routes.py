"""Routes of agents: they send samples and decisions, acknowledge orders, and fetch or wait for new ones (long poll)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from tuner.service.access.callers import Caller
from tuner.service.access.gate import require
from tuner.service.api.bodies import MAX_NAME, AcknowledgementBody, ReportBody, check_name
from tuner.service.api.dependencies import JSON, App, gives, read_as
from tuner.service.api.problems import problem
from tuner.service.exchange.intake import Report, submit, submit_unanswered
from tuner.service.exchange.order_board import revision_of, wait_for_orders
from tuner.service.exchange.services import Services, services_of
from tuner.store.records import DecisionRecord, Scaler

REPORTING = require("report")
# each route names its caller, and nothing else that FastAPI would solve anew for each of its many requests
router = APIRouter(prefix="/v1/applications/{app}", tags=["scalers"])
Reporting = Annotated[Caller, Depends(REPORTING)]
MAX_WAIT_S = 60.0
REVISION = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
COUNTS = {"type": "object", "properties": {"samples": {"type": "integer"}, "decisions": {"type": "integer"}}}
RECEIVED = {"type": "object", "properties": {"received": COUNTS, "revision": REVISION}}
SEEN = {"type": "object", "properties": {"revision": REVISION}}
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
        "experience": {"type": "object"},
    },
}
ETAG = {"ETag": {"description": 'The revision: `"7"`.', "schema": {"type": "string"}}}
FETCHED = gives(ORDERS, "Orders that are not those of If-None-Match.", 404)
FETCHED["responses"][200]["headers"] = ETAG
FETCHED["responses"][304] = {"description": "Nothing new within the wait.", "headers": ETAG}


@router.post("/reports", **gives(RECEIVED, "Committed; the same sent again changes nothing.", body=ReportBody))
async def report(
    app: App, caller: Reporting, body: Annotated[ReportBody, Depends(read_as(ReportBody))], request: Request
) -> Response:  # fmt: skip
    """Report samples and decisions of one scaler, none dated over 5 minutes ahead; answered when they are committed."""
    given = services_of(request)
    now = given.settings.clock()
    token = {"token": caller.name, "token_expires": caller.expires}
    scaler = Scaler(app, body.operator, body.instance, now, now, body.revision, detail={**body.detail, **token})
    own: dict[str, Any] = {"application": app, "operator": body.operator}
    measured = body.model_dump(include={"samples"}, exclude_none=True)["samples"]
    samples = [Sample(**{**own, **sample}) for sample in measured]
    decisions = [DecisionRecord(**own, **one.model_dump(), instance=body.instance) for one in body.decisions]
    check_times(samples, decisions, now, given.settings.skew_s)
    await submit(given.intake, Report(scaler, samples, decisions, who=caller.name))
    return answer_revision({"received": {"samples": len(samples), "decisions": len(decisions)}}, given, app)


def check_times(samples: Sequence[Sample], decisions: Sequence[DecisionRecord], now: float, skew_s: float) -> None:
    """Refuse what is dated ahead: it would be the newest slot until then, and hide all that come."""
    ends = [(f"samples[{i}].end", sample.end) for i, sample in enumerate(samples)]
    for place, time in (*ends, *((f"decisions[{i}].time", one.time) for i, one in enumerate(decisions))):
        if time > now + skew_s:
            raise BadInput(
                f"{place} is {time:.15g}, which is {time - now:,.0f} s ahead of the manager's clock, and may be "
                f"{skew_s:,.0f} s at most; set the driver's clock by NTP"
            )


@router.post("/acknowledgements", **gives(SEEN, "Committed.", body=AcknowledgementBody))
async def acknowledge(
    app: App,
    caller: Reporting,
    body: Annotated[AcknowledgementBody, Depends(read_as(AcknowledgementBody))],
    request: Request,
) -> Response:
    """Acknowledge the orders under which a scaler acts now."""
    given = services_of(request)
    now = given.settings.clock()
    scaler = Scaler(app, body.operator, body.instance, now, now, body.revision, acknowledged=now)
    await submit(given.intake, Report(scaler, acknowledges=True))
    return answer_revision({}, given, app)


def answer_revision(content: dict[str, Any], given: Services, app: str) -> Response:
    body = json.dumps({**content, "revision": revision_of(given.board, app)}).encode()
    return Response(body, media_type=JSON)


@router.get("/orders", **FETCHED)
async def orders(
    app: App,
    caller: Reporting,
    request: Request,
    wait: Annotated[float, Query(ge=0.0, le=MAX_WAIT_S, allow_inf_nan=False, description="Seconds.")] = 0.0,
    if_none_match: Annotated[str, Header(max_length=1_000, description='The last ETag: `"7"`.')] = "",
    accept_encoding: Annotated[str, Header(include_in_schema=False)] = "",
    scaler: Annotated[str, Header(max_length=2 * MAX_NAME + 1, description="operator/instance")] = "",
) -> Response:
    """Fetch the scalers' orders, or wait for new ones (long poll)."""
    given = services_of(request)
    note_scaler(given, app, scaler)
    known = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    notice = await wait_for_orders(given.board, app, known, wait)
    if notice is None:
        return problem(404, f"there are no orders for {app!r} yet; they come with its first objective or control")
    if notice.etag in known or "*" in known:
        return Response(None, 304, {"ETag": notice.etag})
    headers = {"ETag": notice.etag, "Vary": "Accept-Encoding"}
    if "gzip" in accept_encoding and notice.packed is not None:
        return Response(notice.packed, 200, {**headers, "Content-Encoding": "gzip"}, JSON)
    return Response(notice.body, 200, headers, JSON)


def note_scaler(given: Services, app: str, named: str) -> None:
    """A scaler that waits for orders lives, whether or not it has anything to report."""
    operator, _, instance = named.partition("/")
    try:
        check_name(operator), check_name(instance)
    except ValueError:
        return
    if "/" not in instance:
        now = given.settings.clock()
        submit_unanswered(given.intake, Report(Scaler(app, operator, instance, now, now), acknowledges=True))
