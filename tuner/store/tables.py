"""The tables: a column for each field of the records that they hold; the history in migrations/ builds the same.

Names of applications are spelled out in samples, marks, surrogates, objectives and decisions: these arrive from
clusters for applications that nobody has described yet, and must not be turned away for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import islice
from operator import attrgetter, ne
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Insert,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    UniqueConstraint,
    insert,
    select,
    update,
)
from sqlalchemy.orm import Session
from sqlalchemy.schema import SchemaItem

from scaler.model.sample import Sample
from scaler.model.task import Weights
from tuner.store.records import (
    Control,
    DecisionRecord,
    EventRecord,
    ObjectiveRecord,
    OrdersRecord,
    RetuningRecord,
    Scaler,
    SourceMark,
    SurrogateRecord,
    Token,
    Trial,
    TuningRun,
)
from tuner.store.rows import dialect

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from sqlalchemy.dialects import postgresql, sqlite

R = TypeVar("R", bound="DataclassInstance")
BATCH = 5_000  # rows
METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
KINDS: dict[str, Any] = {"int": Integer(), "float": Double(), "str": Text(), "bool": Boolean()}
DOCUMENT = JSON(none_as_null=True)  # what is of any other type
PLAIN = {bool, dict, float, int, str, NoneType}


def names_of(kind: type[DataclassInstance], without: Iterable[str] = ()) -> tuple[str, ...]:
    left_out = set(without)
    return tuple(field.name for field in fields(kind) if field.name not in left_out)


def to_sql_value(value: Any) -> Any:
    """What both databases store alike: plain numbers, and None for NaN, which SQLite does not know."""
    if not isinstance(value, bool | int | float | str | Mapping | None) and hasattr(value, "item"):
        value = value.item()  # a number of numpy's, which the drivers would keep as bytes
    if isinstance(value, float) and math.isnan(value):
        return None
    return dict(value) if isinstance(value, Mapping) else value


class RecordTable(Generic[R]):
    """A table whose columns are the fields of one kind of record; a field that may be None is a column that may."""

    def __init__(
        self,
        kind: type[R],
        name: str,
        *items: SchemaItem,
        keys: Sequence[str] = ("id",),
        without: Sequence[str] = (),
        sqlite_with_rowid: bool = True,
    ) -> None:
        """`items` are constraints, indexes, and columns that say more than their field.

        Without SQLite's row ids rows lie in the order of the primary key: one index less to write.
        """
        self.kind, self.keys = kind, keys
        special = {item.key for item in items if isinstance(item, Column)}
        columns = [
            Column(
                field.name,
                KINDS.get(str(field.type).removesuffix(" | None"), DOCUMENT),
                primary_key=field.name in keys,
                nullable=field.name not in keys and str(field.type).endswith("None"),
            )
            for field in fields(kind)
            if field.name not in (*special, *without)
        ]
        self.table = Table(name, METADATA, *columns, *items, sqlite_with_rowid=sqlite_with_rowid)
        self.c = self.table.c
        self.columns = [self.c[name] for name in names_of(kind, without)]
        self.stored = names_of(kind, ("id", *without))
        self.get_stored = attrgetter(*self.stored)

    def to_columns(self, record: R) -> dict[str, Any]:
        """The record's fields besides its id; a mapping as a dict, a number that is none as None."""
        values = self.get_stored(record)
        if not PLAIN.issuperset(map(type, values)) or any(map(ne, values, values)):  # numbers of numpy's, or NaN
            values = tuple(map(to_sql_value, values))
        return dict(zip(self.stored, values, strict=True))

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
        statement = insert(self.table).values(self.to_columns(record))
        values: Any = {"id": session.scalar(statement.returning(self.c.id))}
        return replace(record, **values)

    def update(self, session: Session, values: Mapping[str, Any], *where: ColumnElement[bool]) -> R | None:
        """Change the one record for which this holds; as it is then, None without one."""
        row = session.execute(update(self.table).where(*where).values(values).returning(*self.columns)).first()
        return None if row is None else self.kind(*row)

    def insert(self, session: Session) -> postgresql.Insert | sqlite.Insert:
        """An INSERT of the dialect's own, which knows ON CONFLICT."""
        if dialect(session) == "postgresql":
            from sqlalchemy.dialects.postgresql import insert as insert_postgresql  # loads the drivers' dialects

            return insert_postgresql(self.table)
        from sqlalchemy.dialects.sqlite import insert as insert_sqlite

        return insert_sqlite(self.table)

    def upsert(self, session: Session) -> Insert:
        """An INSERT that overwrites the row of the same primary key."""
        statement = self.insert(session)
        changed = {name: statement.excluded[name] for name in self.stored if name not in self.keys}
        return statement.on_conflict_do_update(index_elements=self.keys, set_=changed)

    def save(self, session: Session, records: Iterable[R], convert: Callable[[R], dict[str, Any]] | None = None) -> int:
        """Write records in batches, over those of the same primary keys; how many."""
        pending, statement, written = map(convert or self.to_columns, records), self.upsert(session), 0
        while batch := list(islice(pending, BATCH)):
            session.connection().execute(statement, batch)
            written += len(batch)
        return written


APPLICATIONS = Table(
    "applications",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created", Double, nullable=False),
)
VERSIONS = Table(
    "application_versions",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("application_id", ForeignKey("applications.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("document", JSON, nullable=False),
    Column("created", Double, nullable=False),
    UniqueConstraint("application_id", "number"),
)
SAMPLES = RecordTable(  # folded ones, which have no key; the node type is "" where the source cannot tell
    Sample,
    "samples",
    Index(None, "end"),
    keys=("application", "operator", "start", "end", "node_type"),
    without=("key",),
    sqlite_with_rowid=False,
)
MARKS = RecordTable(
    SourceMark, "source_marks", Column("position", BigInteger, nullable=False), keys=("application", "source")
)
SURROGATES = RecordTable(
    SurrogateRecord,
    "surrogates",
    Column("number", Integer, nullable=False),
    UniqueConstraint("application", "number"),
)
RUNS = RecordTable(
    TuningRun,
    "tuning_runs",
    Column("application_version_id", ForeignKey("application_versions.id"), nullable=False, index=True),
    Column("seed", BigInteger, nullable=False),
)
TRIALS = RecordTable(
    Trial,
    "trials",
    Column("seed", BigInteger, nullable=False),
    Column("ended", Double, nullable=False, index=True),
    Column("slots", BigInteger),
    Column("surrogate_id", ForeignKey("surrogates.id"), index=True),
    ForeignKeyConstraint(["run_id"], ["tuning_runs.id"], ondelete="CASCADE"),
    UniqueConstraint("run_id", "number"),
    Index(None, "run_id", "price"),
)
OBJECTIVES = RecordTable(
    ObjectiveRecord,
    "objectives",
    *(Column(name, Double, nullable=False) for name in names_of(Weights)),
    Column("version", Integer, nullable=False),
    Column("trial_id", ForeignKey("trials.id"), index=True),
    Column("surrogate_id", ForeignKey("surrogates.id"), index=True),
    Column("changed", Double, nullable=False),
    UniqueConstraint("application", "version"),
    without=("weights",),
)
DECISIONS = RecordTable(
    DecisionRecord,
    "decisions",
    Index(None, "application", "time"),
    Index(None, "time"),
    keys=("application", "operator", "time"),
    sqlite_with_rowid=False,
)
TOKENS = RecordTable(  # who may do what; a page session is a token too, made from another and gone with it
    Token,
    "tokens",
    Column("parent_id", ForeignKey("tokens.id", ondelete="CASCADE"), index=True),
    UniqueConstraint("name"),
    UniqueConstraint("digest"),
)
CONTROLS = RecordTable(Control, "controls", Index(None, "application"))
ORDERS = RecordTable(OrdersRecord, "orders", keys=("application",))
SCALERS = RecordTable(Scaler, "scalers", keys=("application", "operator", "instance"), sqlite_with_rowid=False)
RETUNINGS = RecordTable(RetuningRecord, "watches", keys=("application",))
EVENTS = RecordTable(
    EventRecord, "events", Column("says", Text, key="message", nullable=False), Index(None, "application", "time")
)
