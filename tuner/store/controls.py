"""Controls that people set on an application's scalers, and which are active at a time."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import ColumnElement, insert, or_, select, update
from sqlalchemy.orm import Session

from tuner.store.faults import NotFound
from tuner.store.models import ControlRow, OrdersRow
from tuner.store.records import Control
from tuner.store.rows import columns_of, lock_turn, to_columns

COLUMNS = columns_of(ControlRow, Control)


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
    query = select(*COLUMNS).where(ControlRow.application == application)
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
