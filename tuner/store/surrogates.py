"""Fitted surrogates, numbered per application."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from tuner.store.faults import NotFound
from tuner.store.models import SurrogateRow
from tuner.store.records import SurrogateRecord
from tuner.store.rows import columns_of, lock_turn, next_number, to_columns

COLUMNS = columns_of(SurrogateRow, SurrogateRecord)


def save_surrogate(session: Session, surrogate: SurrogateRecord) -> SurrogateRecord:
    """Keep it under the application's next number; the same with its number and id."""
    lock_turn(session, f"surrogates of {surrogate.application}")
    mine = select(SurrogateRow.number).where(SurrogateRow.application == surrogate.application)
    numbered = replace(surrogate, number=next_number(session, mine))
    statement = insert(SurrogateRow).values(to_columns(numbered)).returning(SurrogateRow.id)
    return replace(numbered, id=session.scalar(statement))


def load_surrogate(session: Session, application: str, number: int | None = None) -> SurrogateRecord:
    """The one of this number, or the newest."""
    query = select(*COLUMNS).where(SurrogateRow.application == application)
    if number is not None:
        query = query.where(SurrogateRow.number == number)
    row = session.execute(query.order_by(SurrogateRow.number.desc()).limit(1)).first()
    if row is None:
        which = "no surrogate" if number is None else f"no surrogate number {number}"
        raise NotFound(f"application {application!r} has {which}; fit one with: tuner surrogate fit {application}")
    return SurrogateRecord(**row._mapping)


def load_surrogate_by_id(session: Session, surrogate_id: int) -> SurrogateRecord:
    """Load the one that a trial or an objective names."""
    return SurrogateRecord(*session.execute(select(*COLUMNS).where(SurrogateRow.id == surrogate_id)).one())


def find_surrogate(session: Session, surrogate_id: int) -> SurrogateRecord | None:
    """The one of this id, None where it was deleted."""
    row = session.execute(select(*COLUMNS).where(SurrogateRow.id == surrogate_id)).one_or_none()
    return None if row is None else SurrogateRecord(*row)


def find_sound_surrogate(session: Session, application: str) -> int | None:
    """Return the id of the newest surrogate whose checks did not fail, None where there is none."""
    sound = (SurrogateRow.application == application, SurrogateRow.health != "fail")
    return session.scalar(select(SurrogateRow.id).where(*sound).order_by(SurrogateRow.number.desc()).limit(1))


def list_surrogates(session: Session, application: str, limit: int | None = None) -> list[SurrogateRecord]:
    """The newest first."""
    query = select(*COLUMNS).where(SurrogateRow.application == application)
    found = session.execute(query.order_by(SurrogateRow.number.desc()).limit(limit))
    return [SurrogateRecord(**row._mapping) for row in found]
