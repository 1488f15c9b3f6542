"""Set and lift controls: the guards that a person puts before an application's agents.

Each is one writing transaction of the caller's: the control, the event that says who and why, and new orders.
"""

from __future__ import annotations

from datetime import UTC, datetime

from scaler.guards import GUARDS, parse_guards
from scaler.model.errors import BadInput
from tuner.rollout.issue_orders import issue_orders
from tuner.scenario.description import shape_of, tables_of
from tuner.scenario.scenario import make_infrastructure
from tuner.store import controls
from tuner.store.applications import load_application
from tuner.store.connection import Session
from tuner.store.events import add_event
from tuner.store.records import Control, EventRecord

LONGEST_SHOWN = 60  # characters of a name in a refusal


def set_control(session: Session, control: Control) -> Control:
    """Set a control in the place of one of its kind for the same operator; the same with its id."""
    check_control(session, control)
    made = controls.set_control(session, control)
    message = f"{control.who} set {control.kind} for {describe_scope(control.operator)}"
    about = {"kind": control.kind, "operator": control.operator, "settings": control.settings, "until": control.until}
    add_event(
        session,
        EventRecord(
            control.application, control.since, control.who, "control set", add_why(message, control.note), about
        ),
    )
    issue_orders(session, control.application, control.since)
    return made


def lift_control(session: Session, app: str, operator: str, kind: str, who: str, now: float, why: str = "") -> None:
    """Lift a control; `Missing` where none of its kind stands for the operator ("": for all)."""
    load_application(session, app)
    controls.lift_control(session, app, operator, kind, who, now)
    message = add_why(f"{who} lifted {kind} for {describe_scope(operator)}", why)
    about = {"kind": kind, "operator": operator, **({"why": why} if why else {})}
    add_event(session, EventRecord(app, now, who, "control lifted", message, about))
    issue_orders(session, app, now)


def check_control(session: Session, control: Control) -> None:
    """Refuse a control that the agents could not parse, for they would go on without it."""
    app = control.application
    if control.kind not in GUARDS:
        raise BadInput(f"there is no guard {control.kind[:LONGEST_SHOWN]!r}; choose of {', '.join(GUARDS)}")
    document = load_application(session, app).document
    known = [operator.name for operator in shape_of(document).operators]
    if control.operator and control.operator not in known:
        raise BadInput(f"{app!r} has no operator {control.operator[:LONGEST_SHOWN]!r}; it has {', '.join(known[:20])}")
    types = make_infrastructure(tables_of(document)["infrastructure"]).types
    try:
        parse_guards({control.kind: control.settings}, [node.name for node in types])
    except BadInput:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise BadInput(f"guard {control.kind!r} cannot be made of these settings ({error})") from error
    if control.until is not None and control.until <= control.since:
        until = datetime.fromtimestamp(control.until, UTC)
        raise BadInput(f"until is {until:%Y-%m-%dT%H:%M} UTC, which is past; leave it out, or give a time to come")


def describe_scope(operator: str) -> str:
    return f"operator {operator}" if operator else "all operators"


def add_why(message: str, why: str) -> str:
    return f"{message}: {why}" if why else message
