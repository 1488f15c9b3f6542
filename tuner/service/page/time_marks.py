"""Mark on time lines what people and the daemon did: pushes, roll-backs, controls."""

from __future__ import annotations

from tuner.service.page.address import TimeRange
from tuner.store.audit_log import list_events
from tuner.store.connection import Session
from tuner.store.records import EventRecord
from tuner.views.chart import Mark
from tuner.views.words import format_kind, format_state, shorten

MAX_MARKS = 40  # of a time range, the newest
LETTERS = 24  # of a name in a label
COLOURS = {"pushed": "c0", "rolled back": "alarm", "control set": "c3", "control lifted": "c3"}


def list_marks(session: Session, app: str, window: TimeRange) -> list[Mark]:
    """The marks of a time range in the order of time."""
    found = list_events(session, app, tuple(COLOURS), window.since, window.until, MAX_MARKS)
    return sorted((make_mark(event) for event in found), key=lambda mark: mark.at)


def make_mark(event: EventRecord) -> Mark:
    return Mark(event.time, describe_mark(event), COLOURS[event.what], event.message)


def describe_mark(event: EventRecord) -> str:
    """A few words: "objective 3: canary", "pin join"."""
    detail = event.detail
    if event.what in ("pushed", "rolled back"):
        stage = "back" if event.what == "rolled back" else format_state(str(detail.get("stage", "")))
        return f"objective {detail.get('version', '')}: {stage}"
    kind = format_kind(str(detail.get("kind", "control")))
    where = shorten(str(detail.get("operator") or "all"), LETTERS)
    return f"{kind} {where}{' lifted' if event.what == 'control lifted' else ''}"
