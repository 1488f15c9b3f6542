"""Controls that people set on an application's agents, and the events that say who did what and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, insert, or_, select, update
from sqlalchemy.orm import Session

from tuner.store.faults import NotFound
from tuner.store.models import ControlRow, EventRow, OrdersRow
from tuner.store.records import Control, EventRecord
from tuner.store.rows import columns_of, lock_turn, to_columns

CONTROL_COLUMNS = columns_of(ControlRow, Control)


def set_control(session: Session, control: Control) -> Control:
    """Let it stand from now on, in the place of one of the same kind for the same operator; the same with its id."""
    lock_turn(session, f"controls of {control.application}")
    end_control(session, control.application, control.operator, control.kind, control.who, control.since)
    return replace(control, id=session.scalar(insert(ControlRow).values(to_columns(control)).returning(ControlRow.id)))


def lift_control(session: Session, application: str, operator: str, kind: str, who: str, now: float) -> None:
    lock_turn(session, f"controls of {application}")
    if not end_control(session, application, operator, kind, who, now):
        of = f"operator {operator!r} of {application!r}" if operator else f"application {application!r}"
        raise NotFound(f"no {kind} stands for {of}, so that there is nothing to lift")


def end_control(session: Session, application: str, operator: str, kind: str, who: str, now: float) -> bool:
    same = (ControlRow.application == application, ControlRow.operator == operator, ControlRow.kind == kind)
    statement = update(ControlRow).where(*same, is_active_at(now)).values(ended=now, ended_by=who)
    return session.execute(statement.returning(ControlRow.id)).first() is not None


def is_active_at(now: float) -> ColumnElement[bool]:
    unexpired = or_(ControlRow.until.is_(None), ControlRow.until > now)
    return (ControlRow.since <= now) & unexpired & or_(ControlRow.ended.is_(None), ControlRow.ended > now)


def list_controls(session: Session, application: str, at: float | None = None) -> list[Control]:
    """The newest first: those that stood at this moment, or all that there ever were."""
    query = select(*CONTROL_COLUMNS).where(ControlRow.application == application)
    if at is not None:
        query = query.where(is_active_at(at))
    return [Control(**row._mapping) for row in session.execute(query.order_by(ControlRow.id.desc()))]


def list_expired_controls(session: Session, now: float) -> list[str]:
    """Applications with a control that ran out by itself since their orders were issued."""
    query = (
        select(ControlRow.application)
        .join(OrdersRow, OrdersRow.application == ControlRow.application)
        .where(ControlRow.until <= now, ControlRow.until > OrdersRow.issued, ControlRow.ended.is_(None))
    )
    return list(session.scalars(query.distinct()))


EVENT_COLUMNS = columns_of(EventRow, EventRecord)


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
    query = select(*EVENT_COLUMNS)
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
