"""Events: who did what and why, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from tuner.store.models import EventRow
from tuner.store.records import EventRecord
from tuner.store.rows import columns_of, to_columns

COLUMNS = columns_of(EventRow, EventRecord)


def add_event(session: Session, event: EventRecord) -> EventRecord:
    return replace(event, id=session.scalar(insert(EventRow).values(to_columns(event)).returning(EventRow.id)))


def list_events(
    session: Session,
    application: str | None = None,
    what: Sequence[str] | None = None,
    since: float | None = None,
    until: float | None = None,
    limit: int | None = 100,
    before: int | None = None,
) -> list[EventRecord]:
    """The newest first; the next page is the one `before` the id of the last of this one."""
    query = select(*COLUMNS)
    if application is not None:
        query = query.where(EventRow.application == application)
    if what is not None:
        query = query.where(EventRow.what.in_(what))
    if since is not None:
        query = query.where(EventRow.time >= since)
    if until is not None:
        query = query.where(EventRow.time < until)
    if before is not None:
        query = query.where(EventRow.id < before)
    return [EventRecord(**row._mapping) for row in session.execute(query.order_by(EventRow.id.desc()).limit(limit))]
