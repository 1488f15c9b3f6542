"""Use cases of people: register an application, set and lift its controls, request and set its retuning.

Each is one writing transaction of the caller's: the change, the event that says who and why, and new orders. A request
lies in the database until the daemon that holds the application's lease has applied it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from scaler.guards import GUARDS, parse_guards
from scaler.model.errors import BadInput, suggest
from sim.application import check_paths
from tuner.rollout.issued_orders import issue_orders
from tuner.rollout.retuning_settings import DEFAULTS, read_settings
from tuner.scenario.description import tables_of
from tuner.scenario.document import shape_of
from tuner.scenario.scenario import make_infrastructure
from tuner.search.engines import ENGINES
from tuner.store import orders
from tuner.store.applications import add_application, check_application_name, find_newest_number, load_application
from tuner.store.audit_log import add_event
from tuner.store.connection import Session
from tuner.store.json_fields import write_fields
from tuner.store.orders import load_orders
from tuner.store.records import ApplicationVersion, Control, EventRecord, RetuningRecord
from tuner.store.runs import add_request, find_retuning, load_retuning, save_retuning

MAX_SHOWN = 60  # characters of a name in a refusal
Action = Literal["tune", "pause", "resume", "stop"]
ACTION_WORDS: dict[Action, str] = {
    "tune": "asked for a tuning",
    "pause": "asked to pause the retuning",
    "resume": "asked to go on with the retuning",
    "stop": "asked to stop the tuning",
}


def register_application(
    session: Session, app: str, document: Mapping[str, Any], who: str, now: float
) -> ApplicationVersion:  # fmt: skip
    """Register the description and let the daemon retune it; retuning settings stay as they were set."""
    check_application_name(app)
    check_paths(shape_of(document))
    before = find_newest_number(session, app)
    version = add_application(session, app, document, now)
    retuning = find_retuning(session, app)
    if retuning is not None and version.number == before:
        return version
    message = f"{who} registered {app} (version {version.number})"
    add_event(session, EventRecord(app, now, who, "registered", message, {"version": version.number}))
    save_retuning(session, app, DEFAULTS if retuning is None else retuning.settings, now)
    if load_orders(session, app) is not None:
        issue_orders(session, app, now)
    return version


def set_control(session: Session, control: Control) -> Control:
    """Set a control in the place of one of its kind for the same operator; the same with its id."""
    check_control(session, control)
    made = orders.set_control(session, control)
    app, who, now = control.application, control.who, control.since
    message = add_why(f"{who} set {control.kind} for {describe_scope(control.operator)}", control.note)
    about = {"kind": control.kind, "operator": control.operator, "settings": control.settings, "until": control.until}
    add_event(session, EventRecord(app, now, who, "control set", message, about))
    issue_orders(session, app, now)
    return made


def lift_control(session: Session, app: str, operator: str, kind: str, who: str, now: float, why: str = "") -> None:
    """Lift a control; `NotFound` where none of its kind stands for the operator ("": for all)."""
    load_application(session, app)
    orders.lift_control(session, app, operator, kind, who, now)
    message = add_why(f"{who} lifted {kind} for {describe_scope(operator)}", why)
    about = {"kind": kind, "operator": operator, **({"why": why} if why else {})}
    add_event(session, EventRecord(app, now, who, "control lifted", message, about))
    issue_orders(session, app, now)


def check_control(session: Session, control: Control) -> None:
    """Refuse a control that the agents could not parse, for they would go on without it."""
    app = control.application
    if control.kind not in GUARDS:
        raise BadInput(f"there is no guard {control.kind[:MAX_SHOWN]!r}; choose of {', '.join(GUARDS)}")
    document = load_application(session, app).document
    known = [operator.name for operator in shape_of(document).operators]
    if control.operator and control.operator not in known:
        shown = control.operator[:MAX_SHOWN]
        raise BadInput(f"{app!r} has no operator {shown!r}; {suggest(shown, known[:20], 'it has {}')}")
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


@dataclass(frozen=True, slots=True)
class TuningRequest:
    """Who asked, when and why; of a tuning, what is to differ from the retuning's settings."""

    who: str = "somebody"
    when: float = 0.0
    why: str = ""
    budget: int | None = None  # evaluations
    engine: str | None = None
    seed: int | None = None


def request_action(session: Session, app: str, action: Action, request: TuningRequest) -> RetuningRecord:
    """Record a request for the daemons, in the place of an earlier one of the same action."""
    if request.engine is not None and request.engine not in ENGINES:
        raise BadInput(f"there is no engine {request.engine[:MAX_SHOWN]!r}; choose of {', '.join(ENGINES)}")
    document = write_fields(request)
    retuning = add_request(session, app, {action: document})
    about = {"word": action, **{key: value for key, value in document.items() if key not in ("who", "when")}}
    message = add_why(f"{request.who} {ACTION_WORDS[action]}", request.why)
    add_event(session, EventRecord(app, request.when, request.who, "asked", message, about))
    return retuning


def set_retuning(session: Session, app: str, stated: Mapping[str, Any], who: str, now: float) -> RetuningRecord:
    """Change an application's retuning settings; sources stay, for they are files of the manager's machine."""
    sources = list(load_retuning(session, app).settings.get("sources", []))
    settings = {"sources": sources, **stated}
    if settings["sources"] != sources:
        raise BadInput("retuning: sources are files of the manager's machine; they are not changed from elsewhere")
    retuning = save_retuning(session, app, read_settings(settings), now)
    message = f"{who} changed the settings of the retuning"
    add_event(session, EventRecord(app, now, who, "asked", message, {"word": "retuning", "settings": dict(stated)}))
    return retuning
