"""The orders of an application's scalers, with a revision for each change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.store.json_text import as_stored
from tuner.store.models import OrdersRow
from tuner.store.records import OrdersRecord
from tuner.store.rows import columns_of, lock_turn, to_columns, upsert_into

COLUMNS = columns_of(OrdersRow, OrdersRecord)


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
    row = session.execute(select(*COLUMNS).where(OrdersRow.application == application)).first()
    return None if row is None else OrdersRecord(**row._mapping)


def list_revisions(session: Session) -> dict[str, int]:
    """The newest revision of every application that has orders."""
    return dict(session.execute(select(OrdersRow.application, OrdersRow.revision)).all())
