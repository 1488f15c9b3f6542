"""Fitted surrogates, numbered per application."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.store.faults import NotFound
from tuner.store.records import SurrogateRecord
from tuner.store.rows import lock_turn, next_number
from tuner.store.tables import SURROGATES


def save_surrogate(session: Session, surrogate: SurrogateRecord) -> SurrogateRecord:
    """Keep it under the application's next number; the same with its number and id."""
    lock_turn(session, f"surrogates of {surrogate.application}")
    mine = select(SURROGATES.c.number).where(SURROGATES.c.application == surrogate.application)
    return SURROGATES.add(session, replace(surrogate, number=next_number(session, mine)))


def load_surrogate(session: Session, application: str, number: int | None = None) -> SurrogateRecord:
    """The one of this number, or the newest."""
    if number is None:
        found = next(iter(list_surrogates(session, application, limit=1)), None)
    else:
        found = SURROGATES.find(session, SURROGATES.c.application == application, SURROGATES.c.number == number)
    if found is None:
        which = "no surrogate" if number is None else f"no surrogate number {number}"
        raise NotFound(f"application {application!r} has {which}; fit one with: tuner surrogate fit {application}")
    return found


def load_surrogate_by_id(session: Session, surrogate_id: int) -> SurrogateRecord:
    """Load the one that a trial or an objective names."""
    return SurrogateRecord(*session.execute(SURROGATES.select(SURROGATES.c.id == surrogate_id)).one())


def find_surrogate(session: Session, surrogate_id: int) -> SurrogateRecord | None:
    """The one of this id, None where it was deleted."""
    return SURROGATES.find(session, SURROGATES.c.id == surrogate_id)


def find_sound_surrogate(session: Session, application: str) -> int | None:
    """Return the id of the newest surrogate whose checks did not fail, None where there is none."""
    sound = (SURROGATES.c.application == application, SURROGATES.c.health != "fail")
    return session.scalar(select(SURROGATES.c.id).where(*sound).order_by(SURROGATES.c.number.desc()).limit(1))


def list_surrogates(session: Session, application: str, limit: int | None = None) -> list[SurrogateRecord]:
    """The newest first."""
    query = SURROGATES.select(SURROGATES.c.application == application)
    return SURROGATES.load(session, query.order_by(SURROGATES.c.number.desc()).limit(limit))
