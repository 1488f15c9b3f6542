"""Routes by which people change things: applications, their tuning, objectives and controls."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response
from starlette.concurrency import run_in_threadpool

from scaler.model.task import parse_weights
from tuner.rollout import push as rollout
from tuner.rollout.steering import TuningRequest, lift_control, register_application, request_action, set_control
from tuner.rollout.steering import set_retuning as set_settings
from tuner.scenario.description import describe_received
from tuner.service.api.bodies import (
    MAX_NAME,
    ApplicationBody,
    ControlBody,
    Name,
    ObjectiveBody,
    PushBody,
    RetuningBody,
    RollbackBody,
    TuningBody,
)
from tuner.service.api.dependencies import App, Given, Pushing, RowId, Tuning, Why, Word, change, gives, read_as
from tuner.service.api.read_routes import OBJECTIVE, number_objective
from tuner.service.exchange.wire_documents import schema_of
from tuner.store.connection import Session
from tuner.store.records import ApplicationVersion, Control, RetuningRecord

applications = APIRouter(prefix="/v1/applications/{app}", tags=["applications"])
tunings = APIRouter(prefix="/v1/applications/{app}", tags=["tuning"])
objectives = APIRouter(prefix="/v1/applications/{app}", tags=["objectives"])
controls = APIRouter(prefix="/v1/applications/{app}/controls", tags=["controls"])
Operator = Annotated[Word, Query(max_length=MAX_NAME, description="One operator alone; all where it is left out.")]
Steering = Literal["pause", "resume", "stop"]
CONTROL = schema_of(Control)
APPLICATION, WATCH = schema_of(ApplicationVersion), schema_of(RetuningRecord)
LIFTED = {"type": "object", "properties": {"lifted": {"type": "string"}, "operator": {"type": "string"}}}
STANDS = "It stands, in the place of one of its kind for the same operator."


@applications.put("", **gives(APPLICATION, "The newest version, which says what was sent.", body=ApplicationBody))
async def register(
    app: App, caller: Tuning, body: Annotated[ApplicationBody, Depends(read_as(ApplicationBody))], given: Given
) -> Response:
    """Describe an application and its QoS; from now on it is watched."""
    document = await run_in_threadpool(describe_received, body.document, app)
    return await change(given, lambda session, now: register_application(session, app, document, caller.name, now))


@tunings.post("/tunings", **gives(WATCH, "Requested; a daemon starts it.", 404, status=202, body=TuningBody))
async def tune(
    app: App, caller: Tuning, body: Annotated[TuningBody, Depends(read_as(TuningBody))], given: Given
) -> Response:
    """Ask for a tuning now."""
    stated, who = body.model_dump(), caller.name
    return await change(
        given, lambda session, now: request_action(session, app, "tune", TuningRequest(who, now, **stated)), 202
    )


@tunings.post("/tunings/{action}", **gives(WATCH, "Requested.", 404, status=202))
async def steer(app: App, action: Steering, caller: Tuning, given: Given, why: Why = "") -> Response:
    """Pause the retuning of an application, let it go on, or stop the tuning that is under way."""
    return await change(
        given, lambda session, now: request_action(session, app, action, TuningRequest(caller.name, now, why)), 202
    )


@tunings.put("/retuning", **gives(WATCH, "So it is from now on.", 404, body=RetuningBody))
async def set_retuning(
    app: App, caller: Tuning, body: Annotated[RetuningBody, Depends(read_as(RetuningBody))], given: Given
) -> Response:
    """Change when an application is tuned again by itself, and how."""
    return await change(given, lambda session, now: set_settings(session, app, body.settings, caller.name, now))


@objectives.post(
    "/objectives",
    **gives(OBJECTIVE, "Stored under the next version; push it to use it.", 404, status=201, body=ObjectiveBody),
)
async def propose(
    app: App, caller: Pushing, body: Annotated[ObjectiveBody, Depends(read_as(ObjectiveBody))], given: Given
) -> Response:
    """Propose an objective by hand; bounds are on the latency besides triggers and scheduling."""

    def work(session: Session, now: float) -> dict[str, Any]:
        weights = parse_weights(body.weights.model_dump())
        made = rollout.propose_objective(session, app, weights, body.bounds, caller.name, now, body.why)
        return number_objective(session, made)

    return await change(given, work, 201)


@objectives.post("/objectives/{version}/push", **gives(OBJECTIVE, "In this stage now.", 404, 409, body=PushBody))
async def push(
    app: App, version: RowId, caller: Pushing, body: Annotated[PushBody, Depends(read_as(PushBody))], given: Given
) -> Response:
    """Push an objective to a stage: beside the real one (shadow), in part (canary), or in full."""

    def work(session: Session, now: float) -> dict[str, Any]:
        return number_objective(session, rollout.push(session, app, version, body.stage, caller.name, body.why, now))

    return await change(given, work)


@objectives.post("/rollback", **gives(OBJECTIVE, "The objective that was rolled back.", 404, 409, body=RollbackBody))
async def roll_back(
    app: App, caller: Pushing, body: Annotated[RollbackBody, Depends(read_as(RollbackBody))], given: Given
) -> Response:
    """Roll back the candidate, or the objective in full use to the one before it.

    With a version only that one, so that the same sent again after a lost answer rolls nothing else back.
    """

    def work(session: Session, now: float) -> dict[str, Any]:
        made = rollout.roll_back(session, app, caller.name, body.why, now, version=body.version)
        return number_objective(session, made)

    return await change(given, work)


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
