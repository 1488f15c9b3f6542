"""What each manager of one PostgreSQL let through of a quota, so that all count together.

A row has a sum since its manager started: who reads it anew misses nothing, however often and however late it reads.
Who may not write to the table, but may notify, can make managers read and do nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, delete, extract, func, literal
from sqlalchemy.orm import Session

from tuner.store.tables import QUOTA_USES

Quota = tuple[str, str]  # what has it, and its key
ROW = QUOTA_USES.c
FRESH_S = 60.0  # seconds for which a row is read after it was written
DEAD_S = 3_600.0  # after which the row of a manager that has not written is deleted
CLOCK: ColumnElement[Any] = extract("epoch", func.clock_timestamp())


def save_uses(session: Session, manager: str, used: Mapping[Quota, float]) -> None:
    """Write one manager's sums, in the order of their keys."""
    statement = QUOTA_USES.insert(session)
    for (kind, key), total in sorted(used.items()):
        stated = {"manager": manager, "kind": kind, "key": key, "used": total, "told": CLOCK}
        changed = {"used": statement.excluded.used, "told": statement.excluded.told}
        session.execute(statement.values(stated).on_conflict_do_update(index_elements=QUOTA_USES.keys, set_=changed))


def list_uses(session: Session, manager: str) -> Iterable[tuple[str, Quota, float]]:
    """Other managers' sums that were written of late."""
    query = QUOTA_USES.select(ROW.manager != literal(manager), ROW.told > CLOCK - FRESH_S)
    return [(one.manager, (one.kind, one.key), one.used) for one in QUOTA_USES.load(session, query)]


def delete_old_uses(session: Session) -> None:
    """Those of managers that are gone, and of applications that have been quiet."""
    session.execute(delete(QUOTA_USES.table).where(ROW.told < CLOCK - DEAD_S))
