"""Scalers as they last reported, and the revision of the orders that they act under."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tuner.store.models import ScalerRow
from tuner.store.records import Scaler
from tuner.store.rows import columns_of, insert_into, to_columns

COLUMNS = columns_of(ScalerRow, Scaler)


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
    query = select(*COLUMNS).where(ScalerRow.application == application)
    if since is not None:
        query = query.where(ScalerRow.last_seen >= since)
    return [Scaler(*row) for row in session.execute(query.order_by(ScalerRow.operator, ScalerRow.last_seen.desc()))]
