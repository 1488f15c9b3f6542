"""Routes of objectives: propose, push to a stage, roll back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from scaler.model.task import parse_weights
from tuner.rollout.push import propose_objective
from tuner.rollout.push import push as push_to
from tuner.rollout.push import roll_back as roll_back_now
from tuner.service.api.bodies import ObjectiveBody, PushBody, RollbackBody
from tuner.service.api.dependencies import App, Given, Pushing, RowId, answer, change, gives, read_as, takes
from tuner.service.exchange.wire_documents import schema_of
from tuner.store.connection import Session
from tuner.store.records import ObjectiveRecord

router = APIRouter(prefix="/v1/applications/{app}", tags=["objectives"])
OBJECTIVE = schema_of(ObjectiveRecord)


@router.post(
    "/objectives",
    status_code=201,
    openapi_extra=takes(ObjectiveBody),
    responses=gives(OBJECTIVE, "Kept under the next version; push it to use it.", 201, 404, 415),
)
async def propose(
    app: App, caller: Pushing, body: Annotated[ObjectiveBody, Depends(read_as(ObjectiveBody))], given: Given
) -> Response:
    """Propose an objective by hand; bounds are on what an answer takes besides triggers and scheduling."""

    def work(session: Session, now: float) -> ObjectiveRecord:
        weights = parse_weights(body.weights.model_dump())
        return propose_objective(session, app, weights, body.bounds, caller.name, now, body.why)

    return answer(await change(given, work), 201)


@router.post(
    "/objectives/{version}/push",
    openapi_extra=takes(PushBody),
    responses=gives(OBJECTIVE, "In this stage now.", 200, 404, 409, 415),
)
async def push(
    app: App, version: RowId, caller: Pushing, body: Annotated[PushBody, Depends(read_as(PushBody))], given: Given
) -> Response:
    """Let an objective in: beside the real one (shadow), in part (canary), or in full."""

    def work(session: Session, now: float) -> ObjectiveRecord:
        return push_to(session, app, version, body.stage, caller.name, body.why, now)

    return answer(await change(given, work))


@router.post(
    "/rollback",
    openapi_extra=takes(RollbackBody),
    responses=gives(OBJECTIVE, "The objective that was taken back.", 200, 404, 409, 415),
)
async def roll_back(
    app: App, caller: Pushing, body: Annotated[RollbackBody, Depends(read_as(RollbackBody))], given: Given
) -> Response:
    """Take back the objective that is on its way in, or the one in full use for the one before it."""

    def work(session: Session, now: float) -> ObjectiveRecord:
        return roll_back_now(session, app, caller.name, body.why, now)

    return answer(await change(given, work))
