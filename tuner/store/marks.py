"""How far each source of samples was read.

Save marks in the transaction that saves what was read up to them: then both are there after a crash, or neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from tuner.store.models import SourceMarkRow
from tuner.store.records import SourceMark
from tuner.store.rows import columns_of, count_changed, to_columns, upsert_into


def save_marks(session: Session, marks: Iterable[SourceMark]) -> int:
    rows = [to_columns(mark) for mark in marks]
    if rows:
        session.connection().execute(upsert_into(session, SourceMarkRow), rows)
    return len(rows)


def load_marks(session: Session, application: str) -> dict[str, SourceMark]:
    """The marks of an application by source."""
    query = (
        select(*columns_of(SourceMarkRow, SourceMark))
        .where(SourceMarkRow.application == application)
        .order_by(SourceMarkRow.source)
    )
    return {row.source: SourceMark(**row._mapping) for row in session.execute(query)}


def delete_marks(session: Session, application: str, sources: Sequence[str] | None = None) -> int:
    """Forget how far these sources (None: all of the application's) were read, so that they are read anew; how many."""
    statement = delete(SourceMarkRow).where(SourceMarkRow.application == application)
    if sources is not None:
        statement = statement.where(SourceMarkRow.source.in_(sources))
    return count_changed(session.execute(statement))
