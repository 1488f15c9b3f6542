"""Orders by revision, scalers that act under them, and controls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.operators import ge

from tuner.store.epochs import find_floors
from tuner.store.faults import NotFound
from tuner.store.json_fields import as_stored
from tuner.store.records import Control, OrdersRecord, Scaler
from tuner.store.rows import given, lock_turn
from tuner.store.tables import CONTROLS, ORDERS, SCALERS
from tuner.store.wakeups import send_wakeup

MAX_LOOKED_UP = 100  # agents in one query


def save_orders(session: Session, application: str, document: Mapping[str, Any], now: float) -> OrdersRecord:
    """The application's next orders, or the ones that stand where they say the same."""
    lock_turn(session, f"orders of {application}")
    stated, before = as_stored(document), load_orders(session, application)
    if before is not None and before.document == stated:
        return before
    revision = find_floors(session, application).revision if before is None else before.revision
    orders = OrdersRecord(application, revision + 1, now, stated)
    ORDERS.save(session, [orders])
    send_wakeup(session)
    return orders


def load_orders(session: Session, application: str) -> OrdersRecord | None:
    return ORDERS.find(session, ORDERS.c.application == application)


def list_revisions(session: Session) -> dict[str, int]:
    """The newest revision of every application that has orders."""
    query: Select[str, int] = select(ORDERS.c.application, ORDERS.c.revision)
    return dict(session.execute(query).all())


def save_scalers(session: Session, scalers: Iterable[Scaler], keep_detail: bool = False) -> None:
    """Write these over what was known; first sight, what is not said anew and, with `keep_detail`, the detail stay."""
    statement = SCALERS.insert(session)
    new = statement.excluded
    changed = {
        "last_seen": new.last_seen,
        "revision": func.coalesce(new.revision, SCALERS.c.revision),
        "acknowledged": func.coalesce(new.acknowledged, SCALERS.c.acknowledged),
        **({} if keep_detail else {"detail": new.detail}),
    }
    rows = [SCALERS.to_columns(scaler) for scaler in scalers]
    if rows:
        overwriting = statement.on_conflict_do_update(index_elements=SCALERS.keys, set_=changed)
        session.connection().execute(overwriting, rows)


def find_agents(session: Session, agents: Iterable[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """Those of these (application, operator, instance) that have a row."""
    found, rest = set[tuple[str, str, str]](), sorted(agents)
    names = [SCALERS.c[name] for name in SCALERS.keys]
    for first in range(0, len(rest), MAX_LOOKED_UP):
        places = (
            and_(*(column == value for column, value in zip(names, agent, strict=True)))
            for agent in rest[first : first + MAX_LOOKED_UP]
        )
        rows = session.execute(select(*names).where(or_(*places)))
        found |= {(app, operator, instance) for app, operator, instance in rows}
    return found


def list_scalers(session: Session, application: str, since: float | None = None) -> list[Scaler]:
    """The scalers that `stream_scalers` chooses and orders."""
    return list(stream_scalers(session, application, since))


def stream_scalers(
    session: Session, application: str, since: float | None = None, limit: int | None = None
) -> Iterator[Scaler]:
    """By operator, the one last seen first; only those seen from a moment on if one is given."""
    query = SCALERS.select(SCALERS.c.application == application, *given((SCALERS.c.last_seen, ge, since)))
    order = (SCALERS.c.operator, SCALERS.c.last_seen.desc(), SCALERS.c.instance)
    return SCALERS.stream(session, query.order_by(*order).limit(limit))


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
    same = (CONTROLS.c.application == application, CONTROLS.c.operator == operator, CONTROLS.c.kind == kind)
    statement = update(CONTROLS.table).where(*same, is_active_at(now)).values(ended=now, ended_by=who)
    return session.execute(statement.returning(CONTROLS.c.id)).first() is not None


def is_active_at(now: float) -> ColumnElement[bool]:
    unexpired = or_(CONTROLS.c.until.is_(None), CONTROLS.c.until > now)
    return (CONTROLS.c.since <= now) & unexpired & or_(CONTROLS.c.ended.is_(None), CONTROLS.c.ended > now)


def list_controls(session: Session, application: str, at: float | None = None) -> list[Control]:
    """The newest first: those that stood at this moment, or all that there ever were."""
    query = CONTROLS.select(CONTROLS.c.application == application, *([] if at is None else [is_active_at(at)]))
    return CONTROLS.load(session, query.order_by(CONTROLS.c.id.desc()))


def list_expired_controls(session: Session, now: float) -> list[str]:
    """Applications with a control that ran out by itself since their orders were issued."""
    query = (
        select(CONTROLS.c.application)
        .join(ORDERS.table, ORDERS.c.application == CONTROLS.c.application)
        .where(CONTROLS.c.until <= now, CONTROLS.c.until > ORDERS.c.issued, CONTROLS.c.ended.is_(None))
    )
    return list(session.scalars(query.distinct()))
