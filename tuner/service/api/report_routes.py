"""Routes of reports: agents send samples and decisions, and acknowledge orders."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from scaler.model.sample import Sample
from tuner.service.api.bodies import AcknowledgementBody, DecisionBody, ReportBody
from tuner.service.api.dependencies import JSON, App, Given, Reporting, gives, read_as, takes
from tuner.service.exchange.intake import Report, submit
from tuner.service.exchange.order_board import revision_of
from tuner.service.exchange.services import Services
from tuner.store.records import DecisionRecord, Scaler

router = APIRouter(tags=["scalers"])
REVISION = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
COUNTS = {"type": "object", "properties": {"samples": {"type": "integer"}, "decisions": {"type": "integer"}}}
RECEIVED = {"type": "object", "properties": {"received": COUNTS, "revision": REVISION}}
SEEN = {"type": "object", "properties": {"revision": REVISION}}


@router.post(
    "/v1/applications/{app}/reports",
    openapi_extra=takes(ReportBody),
    responses=gives(RECEIVED, "Committed; the same sent again changes nothing.", 200, 415),
)
async def report(
    app: App, caller: Reporting, body: Annotated[ReportBody, Depends(read_as(ReportBody))], given: Given
) -> Response:
    """Report samples and decisions of one scaler; answered when they are committed."""
    now = given.settings.clock()
    scaler = Scaler(app, body.operator, body.instance, now, now, body.revision, detail=body.detail)
    samples = [make_sample(app, body.operator, sample) for sample in body.samples]
    decisions = [make_decision(app, body.operator, decision) for decision in body.decisions]
    await submit(given.intake, Report(scaler, samples, decisions))
    return tell({"received": {"samples": len(samples), "decisions": len(decisions)}}, given, app)


@router.post(
    "/v1/applications/{app}/acknowledgements",
    openapi_extra=takes(AcknowledgementBody),
    responses=gives(SEEN, "Committed.", 200, 415),
)
async def acknowledge(
    app: App, caller: Reporting, body: Annotated[AcknowledgementBody, Depends(read_as(AcknowledgementBody))],
    given: Given,
) -> Response:  # fmt: skip
    """Say that a scaler acts under certain orders now."""
    now = given.settings.clock()
    scaler = Scaler(app, body.operator, body.instance, now, now, body.revision, acknowledged=now)
    await submit(given.intake, Report(scaler, acknowledges=True))
    return tell({}, given, app)


def make_sample(app: str, operator: str, sample: Any) -> Sample:
    values = vars(sample)
    return Sample(**{**values, "application": app, "operator": values["operator"] or operator})


def make_decision(app: str, operator: str, decision: DecisionBody) -> DecisionRecord:
    return DecisionRecord(application=app, operator=operator, **decision.model_dump())


def tell(said: dict[str, Any], given: Services, app: str) -> Response:
    body = json.dumps({**said, "revision": revision_of(given.board, app)}).encode()
    return Response(body, media_type=JSON)
