"""Routes that change agents' orders: propose an objective, push it, roll it back; set and lift controls."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from scaler.model.task import parse_weights
from tuner.rollout import push as rollout
from tuner.rollout.steering import lift_control, set_control
from tuner.service.api.bodies import MAX_NAME, ControlBody, Name, ObjectiveBody, PushBody, RollbackBody
from tuner.service.api.dependencies import App, Given, Pushing, RowId, Why, Word, change, gives, read_as
from tuner.service.exchange.wire_documents import schema_of
from tuner.store.connection import Session
from tuner.store.records import Control, ObjectiveRecord

objectives = APIRouter(prefix="/v1/applications/{app}", tags=["objectives"])
controls = APIRouter(prefix="/v1/applications/{app}/controls", tags=["controls"])
Operator = Annotated[Word, Query(max_length=MAX_NAME, description="One operator alone; all where it is left out.")]
OBJECTIVE, CONTROL = schema_of(ObjectiveRecord), schema_of(Control)
LIFTED = {"type": "object", "properties": {"lifted": {"type": "string"}, "operator": {"type": "string"}}}
STANDS = "It stands, in the place of one of its kind for the same operator."


@objectives.post(
    "/objectives",
    **gives(OBJECTIVE, "Stored under the next version; push it to use it.", 404, status=201, body=ObjectiveBody),
)
async def propose(
    app: App, caller: Pushing, body: Annotated[ObjectiveBody, Depends(read_as(ObjectiveBody))], given: Given
) -> Response:
    """Propose an objective by hand; bounds are on the latency besides triggers and scheduling."""

    def work(session: Session, now: float) -> ObjectiveRecord:
        weights = parse_weights(body.weights.model_dump())
        return rollout.propose_objective(session, app, weights, body.bounds, caller.name, now, body.why)

    return await change(given, work, 201)


@objectives.post("/objectives/{version}/push", **gives(OBJECTIVE, "In this stage now.", 404, 409, body=PushBody))
async def push(
    app: App, version: RowId, caller: Pushing, body: Annotated[PushBody, Depends(read_as(PushBody))], given: Given
) -> Response:
    """Push an objective to a stage: beside the real one (shadow), in part (canary), or in full."""
    return await change(
        given, lambda session, now: rollout.push(session, app, version, body.stage, caller.name, body.why, now)
    )


@objectives.post("/rollback", **gives(OBJECTIVE, "The objective that was rolled back.", 404, 409, body=RollbackBody))
async def roll_back(
    app: App, caller: Pushing, body: Annotated[RollbackBody, Depends(read_as(RollbackBody))], given: Given
) -> Response:
    """Roll back the candidate, or the objective in full use to the one before it."""
    return await change(given, lambda session, now: rollout.roll_back(session, app, caller.name, body.why, now))


@controls.put("/{kind}", **gives(CONTROL, STANDS, 404, body=ControlBody))
async def put(
    app: App, kind: Name, caller: Pushing, body: Annotated[ControlBody, Depends(read_as(ControlBody))], given: Given,
    operator: Operator = "",
) -> Response:  # fmt: skip
    """Pin, lock a direction, block hours, or set any other guard, until it is lifted or its time is over."""

    def work(session: Session, now: float) -> Control:
        control = Control(app, operator, kind, body.settings, caller.name, now, body.note, body.until)
        return set_control(session, control)

    return await change(given, work)


@controls.delete("/{kind}", **gives(LIFTED, "It stands no more.", 404))
async def lift(app: App, kind: Name, caller: Pushing, given: Given, operator: Operator = "", why: Why = "") -> Response:
    """Lift a guard."""

    def work(session: Session, now: float) -> dict[str, str]:
        lift_control(session, app, operator, kind, caller.name, now, why)
        return {"lifted": kind, "operator": operator}

    return await change(given, work)
