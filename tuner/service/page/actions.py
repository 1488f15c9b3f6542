"""A form that a person sent in; what it asks for done, with an event that says who and why, and new orders, out.

All of it in the caller's one transaction, through the same functions as the API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scaler.model.errors import BadInput
from tuner.rollout import push as pushing
from tuner.rollout.issue_orders import issue_orders
from tuner.service.api.control_routes import set_for
from tuner.service.page.time_range import read_moment, say_minute
from tuner.store import controls
from tuner.store.connection import Session
from tuner.store.events import add_event
from tuner.store.records import Control, EventRecord
from tuner.store.watches import ask_watch

LONGEST_WHY = 500  # letters
LONGEST_NAME = 1000
DAYS = {
    "all": ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    "weekdays": ("mon", "tue", "wed", "thu", "fri"),
    "weekend": ("sat", "sun"),
}
KINDS = ("pin", "direction_lock", "blocked_hours")
WISHES = {"tune": "for a tuning", "pause": "to pause the retuning", "resume": "to go on with the retuning"}
STAGES = ("shadow", "canary", "full")
Form = Mapping[str, str]
Act = Callable[["Session", str, Form, str, float], None]


def read_why(form: Form) -> str:
    why = " ".join(form.get("why", "").split())
    if not why:
        raise BadInput("say why, in a sentence: it is kept with what you did")
    if len(why) > LONGEST_WHY:
        raise BadInput(f"why has {len(why):,} letters, and may have {LONGEST_WHY}")
    return why


def read_app(form: Form) -> str:
    """The name of an application."""
    app = form.get("app", "")
    if not app or len(app) > LONGEST_NAME:
        raise BadInput("the form names no application; load its page again")
    return app


def set_control(session: Session, app: str, form: Form, who: str, now: float) -> None:
    kind, why = form.get("kind", ""), read_why(form)
    if kind not in KINDS:
        raise BadInput(f"kind is {kind[:40]!r}, and must be one of {', '.join(KINDS)}")
    until = read_moment(form["until"], "until") if form.get("until", "").strip() else None
    if until is not None and until <= now:
        raise BadInput(f"until is {say_minute(until)} UTC, which is past; leave it empty, or give a time to come")
    set_for(session, Control(app, form.get("operator", ""), kind, read_settings(kind, form), who, now, why, until))


def read_settings(kind: str, form: Form) -> dict[str, Any]:
    if kind == "direction_lock":
        return {"only": form.get("only", "")}
    if kind == "blocked_hours":
        days = DAYS.get(form.get("days", "all"))
        if days is None:
            raise BadInput(f"days must be one of {', '.join(DAYS)}")
        return {
            "from": form.get("from", ""),
            "to": form.get("to", ""),
            "days": list(days),
            "zone": form.get("zone") or "UTC",
        }
    return {}


def lift_control(session: Session, app: str, form: Form, who: str, now: float) -> None:
    kind, operator, why = form.get("kind", ""), form.get("operator", ""), read_why(form)
    controls.lift_control(session, app, operator, kind, who, now)
    of = f"operator {operator}" if operator else "all operators"
    note(
        session,
        app,
        who,
        now,
        "control lifted",
        f"{who} lifted {kind} for {of}: {why}",
        {"kind": kind, "operator": operator},
    )
    issue_orders(session, app, now)


def push_objective(session: Session, app: str, form: Form, who: str, now: float) -> None:
    version, stage, why = form.get("version", ""), form.get("stage", ""), read_why(form)
    if not (version.isascii() and version.isdecimal() and len(version) < 10):
        raise BadInput(f"version is {version[:40]!r}, and must be the number of an objective")
    if stage not in STAGES:
        raise BadInput(f"stage is {stage[:40]!r}, and must be one of {', '.join(STAGES)}")
    pushing.push(session, app, int(version), stage, who, why, now)


def roll_back(session: Session, app: str, form: Form, who: str, now: float) -> None:
    pushing.roll_back(session, app, who, read_why(form), now)


def ask(wish: str) -> Act:
    """What the daemons are to do at their next look."""

    def act(session: Session, app: str, form: Form, who: str, now: float) -> None:
        why = read_why(form)
        ask_watch(session, app, {wish: {"who": who, "when": now}})
        note(session, app, who, now, "asked", f"{who} asked {WISHES[wish]}: {why}", {"word": wish, "why": why})

    return act


def note(session: Session, app: str, who: str, now: float, what: str, says: str, detail: Mapping[str, Any]) -> None:
    add_event(session, EventRecord(app, now, who, what, says, detail))


ACTS: dict[str, tuple[str, Act, str]] = {  # by path: the scope that it needs, what it does, where its result is shown
    "control": ("push", set_control, "controls"),
    "lift": ("push", lift_control, "controls"),
    "push": ("push", push_objective, "rollout"),
    "rollback": ("push", roll_back, "rollout"),
    "tune": ("tune", ask("tune"), "events"),
    "pause": ("tune", ask("pause"), "events"),
    "resume": ("tune", ask("resume"), "events"),
}
