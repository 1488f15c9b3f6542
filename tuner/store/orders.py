"""The orders of an application under a revision for each change, and the agents that act under them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tuner.store.json_fields import as_stored
from tuner.store.models import OrdersRow, ScalerRow
from tuner.store.records import OrdersRecord, Scaler
from tuner.store.rows import columns_of, insert_into, lock_turn, to_columns, upsert_into

ORDERS_COLUMNS = columns_of(OrdersRow, OrdersRecord)


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
    row = session.execute(select(*ORDERS_COLUMNS).where(OrdersRow.application == application)).first()
    return None if row is None else OrdersRecord(**row._mapping)


def list_revisions(session: Session) -> dict[str, int]:
    """The newest revision of every application that has orders."""
    return dict(session.execute(select(OrdersRow.application, OrdersRow.revision)).all())


SCALER_COLUMNS = columns_of(ScalerRow, Scaler)


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
    query = select(*SCALER_COLUMNS).where(ScalerRow.application == application)
    if since is not None:
        query = query.where(ScalerRow.last_seen >= since)
    return [Scaler(*row) for row in session.execute(query.order_by(ScalerRow.operator, ScalerRow.last_seen.desc()))]
