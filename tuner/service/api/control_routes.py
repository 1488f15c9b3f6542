"""Routes of controls: set and lift the guards that a person puts before an application's agents."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from tuner.rollout.control_changes import lift_control, set_control
from tuner.service.api.bodies import LONGEST_NAME, ControlBody, Name
from tuner.service.api.dependencies import App, Given, Pushing, Why, Word, answer, change, gives, read_as, takes
from tuner.service.exchange.wire_documents import schema_of
from tuner.store.connection import Session
from tuner.store.records import Control

router = APIRouter(prefix="/v1/applications/{app}/controls", tags=["controls"])
Operator = Annotated[Word, Query(max_length=LONGEST_NAME, description="One operator alone; all where it is left out.")]
CONTROL = schema_of(Control)
LIFTED = {"type": "object", "properties": {"lifted": {"type": "string"}, "operator": {"type": "string"}}}


@router.put(
    "/{kind}",
    openapi_extra=takes(ControlBody),
    responses=gives(CONTROL, "It stands, in the place of one of its kind for the same operator.", 200, 404, 415),
)
async def put(
    app: App, kind: Name, caller: Pushing, body: Annotated[ControlBody, Depends(read_as(ControlBody))], given: Given,
    operator: Operator = "",
) -> Response:  # fmt: skip
    """Pin, lock a direction, block hours, or set any other guard, until it is lifted or its time is over."""

    def work(session: Session, now: float) -> Control:
        return set_control(
            session, Control(app, operator, kind, body.settings, caller.name, now, body.note, body.until)
        )

    return answer(await change(given, work))


@router.delete("/{kind}", responses=gives(LIFTED, "It stands no more.", 200, 404))
async def lift(app: App, kind: Name, caller: Pushing, given: Given, operator: Operator = "", why: Why = "") -> Response:
    """Lift a guard."""
    await change(given, lambda session, now: lift_control(session, app, operator, kind, caller.name, now, why))
    return answer({"lifted": kind, "operator": operator})
