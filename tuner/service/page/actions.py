"""Parse the page's forms and run the use cases of tuner.rollout that the API and the CLI run too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scaler.model.errors import BadInput
from tuner.rollout import push, steering
from tuner.rollout.steering import Action, TuningRequest, request_action
from tuner.service.page.address import check_choice, read_moment, read_version
from tuner.store.connection import Session
from tuner.store.objectives import STAGES
from tuner.store.records import Control

LONGEST_WHY = 500  # letters
LONGEST_NAME = 1000
DAYS = {
    "all": ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    "weekdays": ("mon", "tue", "wed", "thu", "fri"),
    "weekend": ("sat", "sun"),
}
KINDS = ("pin", "direction_lock", "blocked_hours")
Form = Mapping[str, str]
Act = Callable[[Session, str, Form, TuningRequest], object]


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


def set_control(session: Session, app: str, form: Form, by: TuningRequest) -> None:
    kind = check_choice("kind", form.get("kind", ""), KINDS)
    until = read_moment(form["until"], "until") if form.get("until", "").strip() else None
    settings = read_settings(kind, form)
    control = Control(app, form.get("operator", ""), kind, settings, by.who, by.when, by.why, until)
    steering.set_control(session, control)


def read_settings(kind: str, form: Form) -> dict[str, Any]:
    if kind == "direction_lock":
        return {"only": form.get("only", "")}
    if kind == "blocked_hours":
        days = DAYS.get(form.get("days", "all"))
        if days is None:
            raise BadInput(f"days must be one of {', '.join(DAYS)}")
        times = {key: form.get(key, "") for key in ("from", "to")}
        return {**times, "days": list(days), "zone": form.get("zone") or "UTC"}
    return {}


def lift_control(session: Session, app: str, form: Form, by: TuningRequest) -> None:
    operator, kind = form.get("operator", ""), form.get("kind", "")
    steering.lift_control(session, app, operator, kind, by.who, by.when, by.why)


def push_objective(session: Session, app: str, form: Form, by: TuningRequest) -> None:
    version, stage = read_version(form.get("version", "")), check_choice("stage", form.get("stage", ""), STAGES[1:])
    push.push(session, app, version, stage, by.who, by.why, by.when)


def roll_back(session: Session, app: str, form: Form, by: TuningRequest) -> None:
    """Of the version that the page showed, so that a form that is sent twice rolls one back."""
    version = read_version(form["version"]) if form.get("version") else None
    push.roll_back(session, app, by.who, by.why, by.when, version=version)


def request(action: Action) -> Act:
    return lambda session, app, _form, by: request_action(session, app, action, by)


ACTS: dict[str, tuple[str, Act, str]] = {  # by path: the scope it needs, what it does, the tab that shows its result
    "control": ("push", set_control, "controls"),
    "lift": ("push", lift_control, "controls"),
    "push": ("push", push_objective, "rollout"),
    "rollback": ("push", roll_back, "rollout"),
    "tune": ("tune", request("tune"), "events"),
    "pause": ("tune", request("pause"), "events"),
    "resume": ("tune", request("resume"), "events"),
}
