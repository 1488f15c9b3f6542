"""Orders by revision, scalers that act under them, controls, and events of who did what and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.operators import eq, ge, in_op, lt

from tuner.store.faults import NotFound
from tuner.store.json_fields import as_stored
from tuner.store.models import ControlRow, EventRow, OrdersRow, ScalerRow
from tuner.store.records import Control, EventRecord, OrdersRecord, Scaler
from tuner.store.rows import RecordTable, insert_into, lock_turn, to_columns, upsert_into, where_given

ORDERS = RecordTable(OrdersRow, OrdersRecord)
SCALERS = RecordTable(ScalerRow, Scaler)
CONTROLS = RecordTable(ControlRow, Control)
EVENTS = RecordTable(EventRow, EventRecord)


def save_orders(session: Session, application: str, document: Mapping[str, Any], now: float) -> OrdersRecord:
    """The application's next orders, or the ones that stand where they say the same."""
    lock_turn(session, f"orders of {application}")
    stated, before = as_stored(document), load_orders(session, application)
    if before is not None and before.document == stated:
        return before
    orders = OrdersRecord(application, 1 if before is None else before.revision + 1, now, stated)
    session.execute(upsert_into(session, OrdersRow).values(to_columns(orders)))
    return orders


def load_orders(session: Session, application: str) -> OrdersRecord | None:
    return ORDERS.find(session, OrdersRow.application == application)


def list_revisions(session: Session) -> dict[str, int]:
    """The newest revision of every application that has orders."""
    return dict(session.execute(select(OrdersRow.application, OrdersRow.revision)).all())


def save_scalers(session: Session, scalers: Iterable[Scaler], keep_detail: bool = False) -> None:
    """Write these over what was known; when each was first seen stays, and so does what it does not say anew.

    `keep_detail` leaves the detail of a known scaler alone, too.
    """
    statement = insert_into(session, ScalerRow)
    new = statement.excluded
    changed = {
        "last_seen": new.last_seen,
        "revision": func.coalesce(new.revision, ScalerRow.revision),
        "acknowledged": func.coalesce(new.acknowledged, ScalerRow.acknowledged),
        **({} if keep_detail else {"detail": new.detail}),
    }
    keys = ["application", "operator", "instance"]
    rows = [to_columns(scaler) for scaler in scalers]
    if rows:
        session.connection().execute(statement.on_conflict_do_update(index_elements=keys, set_=changed), rows)


def list_scalers(session: Session, application: str, since: float | None = None) -> list[Scaler]:
    """By operator, the one last seen first; only those seen from a moment on if one is given."""
    query = where_given(SCALERS.select(ScalerRow.application == application), (ScalerRow.last_seen, ge, since))
    return SCALERS.load(session, query.order_by(ScalerRow.operator, ScalerRow.last_seen.desc()))


def set_control(session: Session, control: Control) -> Control:
    """Let it stand from now on, in the place of one of the same kind for the same operator; the same with its id."""
    lock_turn(session, f"controls of {control.application}")
    end_control(session, control.application, control.operator, control.kind, control.who, control.since)
    return CONTROLS.add(session, control)


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
    query = CONTROLS.select(ControlRow.application == application)
    if at is not None:
        query = query.where(is_active_at(at))
    return CONTROLS.load(session, query.order_by(ControlRow.id.desc()))


def list_expired_controls(session: Session, now: float) -> list[str]:
    """Applications with a control that ran out by itself since their orders were issued."""
    query = (
        select(ControlRow.application)
        .join(OrdersRow, OrdersRow.application == ControlRow.application)
        .where(ControlRow.until <= now, ControlRow.until > OrdersRow.issued, ControlRow.ended.is_(None))
    )
    return list(session.scalars(query.distinct()))


def add_event(session: Session, event: EventRecord) -> EventRecord:
    return EVENTS.add(session, event)


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
    query = where_given(
        EVENTS.select(),
        (EventRow.application, eq, application),
        (EventRow.what, in_op, what),
        (EventRow.time, ge, since),
        (EventRow.time, lt, until),
        (EventRow.id, lt, before),
    )
    return EVENTS.load(session, query.order_by(EventRow.id.desc()).limit(limit))
