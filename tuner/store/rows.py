"""Convert records to columns, and build the statements that both databases need."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sqlalchemy import ColumnElement, CursorResult, Insert, Select, Table, func, insert, select, text, update
from sqlalchemy.orm import Session

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from sqlalchemy.dialects import postgresql, sqlite

    from tuner.store.models import Base

R = TypeVar("R", bound="DataclassInstance")
BATCH = 5_000  # rows


def names_of(kind: type[DataclassInstance], without: Iterable[str] = ()) -> tuple[str, ...]:
    left_out = set(without)
    return tuple(field.name for field in fields(kind) if field.name not in left_out)


def to_columns(record: DataclassInstance, without: Iterable[str] = ("id",)) -> dict[str, Any]:
    """The record's fields by name; a mapping as a dict of its own, a number that is none as None."""
    columns = {name: getattr(record, name) for name in names_of(type(record), without)}
    return {name: to_sql_value(value) for name, value in columns.items()}


def to_sql_value(value: Any) -> Any:
    """What both databases store alike: plain numbers, and None for NaN, which SQLite does not know."""
    if not isinstance(value, bool | int | float | str | Mapping | None) and hasattr(value, "item"):
        value = value.item()  # a number of numpy's, which the drivers would keep as bytes
    if isinstance(value, float) and math.isnan(value):
        return None
    return dict(value) if isinstance(value, Mapping) else value


def where_given(query: Select[Any], *tests: tuple[Any, Callable[[Any, Any], Any], Any]) -> Select[Any]:
    """Add each (column, comparison, value) as a condition; a value of None asks nothing."""
    return query.where(*(compare(column, value) for column, compare, value in tests if value is not None))


class RecordTable(Generic[R]):
    """A table whose columns are the fields of one kind of record."""

    def __init__(self, model: type[Base], kind: type[R]) -> None:
        self.model: Any = model
        self.kind = kind
        self.columns = [getattr(model, name) for name in names_of(kind)]

    def select(self, *where: ColumnElement[bool]) -> Select[Any]:
        return select(*self.columns).where(*where)

    def load(self, session: Session, query: Select[Any]) -> list[R]:
        return [self.kind(*row) for row in session.execute(query)]

    def find(self, session: Session, *where: ColumnElement[bool]) -> R | None:
        """The one record for which this holds, None without one."""
        row = session.execute(self.select(*where)).first()
        return None if row is None else self.kind(*row)

    def add(self, session: Session, record: R) -> R:
        """Insert it; the same with the id that it got."""
        values: Any = {"id": session.scalar(insert(self.model).values(to_columns(record)).returning(self.model.id))}
        return replace(record, **values)

    def update(self, session: Session, values: Mapping[str, Any], *where: ColumnElement[bool]) -> R | None:
        """Change the one record for which this holds; as it is then, None without one."""
        row = session.execute(update(self.model).where(*where).values(values).returning(*self.columns)).first()
        return None if row is None else self.kind(*row)


def insert_into(session: Session, model: type[Base]) -> postgresql.Insert | sqlite.Insert:
    """An INSERT of the dialect's own, which knows ON CONFLICT."""
    table = model.__table__
    assert isinstance(table, Table)
    if dialect(session) == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as insert_postgresql  # loads the drivers' dialects

        return insert_postgresql(table)
    from sqlalchemy.dialects.sqlite import insert as insert_sqlite

    return insert_sqlite(table)


def upsert_into(session: Session, model: type[Base]) -> Insert:
    """An INSERT that overwrites the row of the same primary key."""
    statement = insert_into(session, model)
    keys = [column.name for column in model.__table__.columns if column.primary_key]
    changed = {c.name: statement.excluded[c.name] for c in model.__table__.columns if not c.primary_key}
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)


def upsert_all(session: Session, model: type[Base], rows: Iterable[dict[str, Any]]) -> int:
    """Write rows in batches, over those of the same primary keys; how many."""
    statement = upsert_into(session, model)
    pending, written = iter(rows), 0
    while batch := list(islice(pending, BATCH)):
        session.connection().execute(statement, batch)
        written += len(batch)
    return written


def dialect(session: Session) -> str:
    return session.get_bind().dialect.name


def lock_turn(session: Session, what: str) -> None:
    """Let one transaction at a time number the next of `what`; SQLite has one writer at a time anyway."""
    if dialect(session) == "postgresql":
        session.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:what, 0))"), {"what": what})


def next_number(session: Session, numbers: Select[int]) -> int:
    return (session.scalar(select(func.max(numbers.subquery().c[0]))) or 0) + 1


def count_changed(result: Any) -> int:
    """How many rows a statement wrote."""
    assert isinstance(result, CursorResult)
    return result.rowcount
