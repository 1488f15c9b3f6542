"""Requests of people to the retuning daemon: tune now, pause, resume, stop; and its settings.

A request lies in the database until the daemon that holds the application's lease has applied it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from scaler.model.errors import BadInput
from tuner.rollout.control_changes import LONGEST_SHOWN, add_why
from tuner.rollout.retuning_settings import read_settings
from tuner.search.engines import ENGINES
from tuner.store.connection import Session
from tuner.store.events import add_event
from tuner.store.faults import NotFound
from tuner.store.records import EventRecord, RetuningRecord
from tuner.store.retunings import add_request, find_retuning, save_retuning

Action = Literal["tune", "pause", "resume", "stop"]
ACTION_WORDS: dict[Action, str] = {
    "tune": "asked for a tuning",
    "pause": "asked to pause the retuning",
    "resume": "asked to go on with the retuning",
    "stop": "asked to stop the tuning",
}


@dataclass(frozen=True, slots=True)
class TuningRequest:
    """Who asked, when and why; of a tuning, what is to differ from the retuning's settings."""

    who: str = "somebody"
    when: float = 0.0
    why: str = ""
    budget: int | None = None  # evaluations
    engine: str | None = None
    seed: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value not in (None, "")}

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Parse a stored request; keys that are missing or of another type get their defaults."""
        table = document if isinstance(document, Mapping) else {}
        kinds = {"who": str, "when": float | int, "why": str, "budget": int, "engine": str, "seed": int}
        return cls(**{key: table[key] for key, kind in kinds.items() if isinstance(table.get(key), kind)})


def request_action(session: Session, app: str, action: Action, request: TuningRequest) -> RetuningRecord:
    """Record a request for the daemons, in the place of an earlier one of the same action."""
    if request.engine is not None and request.engine not in ENGINES:
        raise BadInput(f"there is no engine {request.engine[:LONGEST_SHOWN]!r}; choose of {', '.join(ENGINES)}")
    document = request.to_json()
    watch = add_request(session, app, {action: document})
    about = {"word": action, **{key: value for key, value in document.items() if key not in ("who", "when")}}
    message = add_why(f"{request.who} {ACTION_WORDS[action]}", request.why)
    add_event(session, EventRecord(app, request.when, request.who, "asked", message, about))
    return watch


def set_retuning(session: Session, app: str, stated: Mapping[str, Any], who: str, now: float) -> RetuningRecord:
    """Change an application's retuning settings; sources stay, for they are files of the manager's machine."""
    sources = list(load_watch(session, app).settings.get("sources", []))
    settings = {"sources": sources, **stated}
    if settings["sources"] != sources:
        raise BadInput("retuning: sources are files of the manager's machine; they are not changed from elsewhere")
    watch = save_retuning(session, app, read_settings(settings), now)
    message = f"{who} changed the settings of the retuning"
    add_event(session, EventRecord(app, now, who, "asked", message, {"word": "retuning", "settings": dict(stated)}))
    return watch


def load_watch(session: Session, app: str) -> RetuningRecord:
    watch = find_retuning(session, app)
    if watch is None:
        raise NotFound(f"application {app!r} is not watched; register it first")
    return watch
