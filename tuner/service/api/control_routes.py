"""A guard that a person puts before scalers, or takes away, in; orders that say so out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from scaler.guards import GUARDS, parse_guards
from scaler.model.errors import BadInput
from tuner.rollout.issue_orders import issue_orders
from tuner.scenario.description import shape_of, tables_of
from tuner.scenario.scenario import make_infrastructure
from tuner.service.api.bodies import LONGEST_NAME, ControlBody, Name
from tuner.service.api.dependencies import App, Given, Pushing, Word, answer, change, gives, read_as, takes
from tuner.service.exchange.wire_documents import schema_of, shorten
from tuner.store.applications import load_application
from tuner.store.connection import Session
from tuner.store.controls import lift_control, set_control
from tuner.store.events import add_event
from tuner.store.records import Control, EventRecord

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
        return set_for(session, Control(app, operator, kind, body.settings, caller.name, now, body.note, body.until))

    return answer(await change(given, work))


@router.delete("/{kind}", responses=gives(LIFTED, "It stands no more.", 200, 404))
async def lift(app: App, kind: Name, caller: Pushing, given: Given, operator: Operator = "") -> Response:
    """Take a guard away."""
    await change(given, lambda session, now: lift_for(session, app, operator, kind, caller.name, now))
    return answer({"lifted": kind, "operator": operator})


def set_for(session: Session, control: Control) -> Control:
    """Keep it, say who set it, and tell the scalers."""
    app, now = control.application, control.since
    check_control(session, control)
    made = set_control(session, control)
    says = f"{control.who} set {control.kind} for {name(control.operator)}" + (f": {control.note}" * bool(control.note))
    about = {"kind": control.kind, "operator": control.operator, "settings": control.settings, "until": control.until}
    add_event(session, EventRecord(app, now, control.who, "control set", says, about))
    issue_orders(session, app, now)
    return made


def lift_for(session: Session, app: str, operator: str, kind: str, who: str, now: float) -> None:
    load_application(session, app)
    lift_control(session, app, operator, kind, who, now)
    says = f"{who} lifted {kind} for {name(operator)}"
    add_event(session, EventRecord(app, now, who, "control lifted", says, {"kind": kind, "operator": operator}))
    issue_orders(session, app, now)


def name(operator: str) -> str:
    return f"operator {operator}" if operator else "all operators"


def check_control(session: Session, control: Control) -> None:
    """Refuse what the scalers could not read: they would go on without it."""
    app = control.application
    if control.kind not in GUARDS:
        raise BadInput(f"there is no guard {shorten(control.kind)!r}; choose of {', '.join(GUARDS)}")
    document = load_application(session, app).document
    known = [operator.name for operator in shape_of(document).operators]
    if control.operator and control.operator not in known:
        raise BadInput(f"{app!r} has no operator {shorten(control.operator)!r}; it has {', '.join(known[:20])}")
    types = make_infrastructure(tables_of(document)["infrastructure"]).types
    try:
        parse_guards({control.kind: control.settings}, [node.name for node in types])
    except BadInput:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise BadInput(f"guard {control.kind!r} cannot be made of these settings ({error})") from error
    if control.until is not None and control.until <= control.since:
        raise BadInput(f"until is {control.until}, which is over; it is {control.since:.0f} now")
