"""The tables: a column for each field of the records that they hold; the history in migrations/ builds the same.

Names of applications are spelled out in samples, marks, surrogates, objectives and decisions: these arrive from
clusters for applications that nobody has described yet, and must not be turned away for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import islice
from operator import attrgetter, ne
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.orm import Session
from sqlalchemy.schema import SchemaItem

from scaler.model.sample import Sample
from scaler.model.task import Weights
from tuner.store import records
from tuner.store.rows import dialect

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from sqlalchemy.dialects import postgresql, sqlite

R = TypeVar("R", bound="DataclassInstance")
BATCH = 5_000  # rows
STREAMED = 50  # rows at a time
METADATA = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
KINDS: dict[str, Any] = {"int": sa.Integer(), "float": sa.Double(), "str": sa.Text(), "bool": sa.Boolean()}
DOCUMENT = sa.JSON(none_as_null=True)  # what is of any other type
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
        special = {item.key for item in items if isinstance(item, sa.Column)}
        columns = [
            sa.Column(
                field.name,
                KINDS.get(str(field.type).removesuffix(" | None"), DOCUMENT),
                primary_key=field.name in keys,
                nullable=field.name not in keys and str(field.type).endswith("None"),
            )
            for field in fields(kind)
            if field.name not in (*special, *without)
        ]
        self.table = sa.Table(name, METADATA, *columns, *items, sqlite_with_rowid=sqlite_with_rowid)
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

    def select(self, *where: sa.ColumnElement[bool]) -> sa.Select[Any]:
        return sa.select(*self.columns).where(*where)

    def load(self, session: Session, query: sa.Select[Any]) -> list[R]:
        return [self.kind(*row) for row in session.execute(query)]

    def stream(self, session: Session, query: sa.Select[Any]) -> Iterator[R]:
        """The records one by one, a few rows in memory at a time; for as long as the session is open."""
        with session.execute(query.execution_options(yield_per=STREAMED)) as found:  # may not be read to its end
            for row in found:
                yield self.kind(*row)

    def find(self, session: Session, *where: sa.ColumnElement[bool]) -> R | None:
        """The one record for which this holds, None without one."""
        row = session.execute(self.select(*where)).first()
        return None if row is None else self.kind(*row)

    def add(self, session: Session, record: R) -> R:
        """Insert it; the same with the id that it got."""
        statement = sa.insert(self.table).values(self.to_columns(record))
        values: Any = {"id": session.scalar(statement.returning(self.c.id))}
        return replace(record, **values)

    def update(self, session: Session, values: Mapping[str, Any], *where: sa.ColumnElement[bool]) -> R | None:
        """Change the one record for which this holds; as it is then, None without one."""
        row = session.execute(sa.update(self.table).where(*where).values(values).returning(*self.columns)).first()
        return None if row is None else self.kind(*row)

    def insert(self, session: Session) -> postgresql.Insert | sqlite.Insert:
        """An INSERT of the dialect's own, which knows ON CONFLICT."""
        if dialect(session) == "postgresql":
            from sqlalchemy.dialects.postgresql import insert as insert_postgresql  # loads the drivers' dialects

            return insert_postgresql(self.table)
        from sqlalchemy.dialects.sqlite import insert as insert_sqlite

        return insert_sqlite(self.table)

    def save(self, session: Session, new: Iterable[R], convert: Callable[[R], dict[str, Any]] | None = None) -> int:
        """Write records in batches, over those of the same primary keys; how many."""
        insertion = self.insert(session)
        changed = {name: insertion.excluded[name] for name in self.stored if name not in self.keys}
        statement = insertion.on_conflict_do_update(index_elements=self.keys, set_=changed)
        pending, written = map(convert or self.to_columns, new), 0
        while batch := list(islice(pending, BATCH)):
            session.connection().execute(statement, batch)
            written += len(batch)
        return written

    def add_new(self, session: Session, new: Iterable[R]) -> list[R]:
        """Insert records whose primary keys are new; the others, which change nothing."""
        get_key = attrgetter(*self.keys)
        statement = self.insert(session).on_conflict_do_nothing(index_elements=self.keys)
        returning = statement.returning(*(self.c[name] for name in self.keys))
        pending, standing = iter(new), list[R]()
        while batch := list(islice(pending, BATCH)):
            rows = session.connection().execute(returning, [self.to_columns(one) for one in batch])
            inserted = {tuple(row) for row in rows}
            for one in batch:
                if get_key(one) in inserted:
                    inserted.remove(get_key(one))  # a second one of the same key stands after the first
                else:
                    standing.append(one)
        return standing


APPLICATIONS = sa.Table(
    "applications",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("last_run", sa.Integer),  # ordinals given so far
    sa.Column("last_trial", sa.Integer),
)
VERSIONS = sa.Table(
    "application_versions",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("application_id", sa.ForeignKey("applications.id", ondelete="CASCADE"), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("document", sa.JSON, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.UniqueConstraint("application_id", "number"),
)
SAMPLES = RecordTable(  # folded ones, which have no key; the node type is "" where the source cannot tell
    Sample,
    "samples",
    sa.Index(None, "end"),
    keys=("application", "operator", "start", "end", "node_type"),
    without=("key",),
    sqlite_with_rowid=False,
)
MARKS = RecordTable(
    records.SourceMark,
    "source_marks",
    sa.Column("position", sa.BigInteger, nullable=False),
    keys=("application", "source"),
)
SURROGATES = RecordTable(
    records.SurrogateRecord,
    "surrogates",
    sa.Column("number", sa.Integer, nullable=False),
    sa.UniqueConstraint("application", "number"),
)
RUNS = RecordTable(
    records.TuningRun,
    "tuning_runs",
    sa.Column("application_version_id", sa.ForeignKey("application_versions.id"), nullable=False, index=True),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("application_id", sa.Integer),
    sa.Index(None, "application_id", "ordinal", unique=True),
)
TRIALS = RecordTable(
    records.Trial,
    "trials",
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("ended", sa.Double, nullable=False, index=True),
    sa.Column("slots", sa.BigInteger),
    sa.Column("surrogate_id", sa.ForeignKey("surrogates.id"), index=True),
    sa.ForeignKeyConstraint(["run_id"], ["tuning_runs.id"], ondelete="CASCADE"),
    sa.UniqueConstraint("run_id", "number"),
    sa.Index(None, "run_id", "price"),
    sa.Column("application_id", sa.Integer),
    sa.Index(None, "application_id", "ordinal", unique=True),
)
OBJECTIVES = RecordTable(
    records.ObjectiveRecord,
    "objectives",
    *(sa.Column(name, sa.Double, nullable=False) for name in names_of(Weights)),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("trial_id", sa.ForeignKey("trials.id"), index=True),
    sa.Column("surrogate_id", sa.ForeignKey("surrogates.id"), index=True),
    sa.Column("changed", sa.Double, nullable=False),
    sa.UniqueConstraint("application", "version"),
    without=("weights",),
)
DECISIONS = RecordTable(
    records.DecisionRecord,
    "decisions",
    sa.Column("sequence", sa.BigInteger),
    sa.Index(None, "application", "time"),
    sa.Index(None, "time"),
    keys=("application", "operator", "time"),
    sqlite_with_rowid=False,
)
SUPERSEDED = RecordTable(
    records.SupersededDecision,
    "superseded_decisions",
    sa.Index(None, "application", "time"),
    keys=("application", "operator", "time", "number"),
    sqlite_with_rowid=False,
)
TOKENS = RecordTable(  # who may do what; a page session is a token too, made from another and gone with it
    records.Token,
    "tokens",
    sa.Column("parent_id", sa.ForeignKey("tokens.id", ondelete="CASCADE"), index=True),
    sa.UniqueConstraint("name"),
    sa.UniqueConstraint("digest"),
)
CONTROLS = RecordTable(records.Control, "controls", sa.Index(None, "application"))
ORDERS = RecordTable(records.OrdersRecord, "orders", keys=("application",))
KNOWN_HISTORIES = RecordTable(records.KnownHistory, "experiences", keys=("application", "version"))
SCALERS = RecordTable(records.Scaler, "scalers", keys=("application", "operator", "instance"), sqlite_with_rowid=False)
RETUNINGS = RecordTable(records.RetuningRecord, "watches", keys=("application",))
EVENTS = RecordTable(
    records.EventRecord,
    "events",
    sa.Column("says", sa.Text, key="message", nullable=False),
    sa.Index(None, "application", "time"),
    sa.Index(None, "number", unique=True),
)
EPOCHS = RecordTable(records.Epoch, "epochs", keys=("number",))
QUOTA_USES = RecordTable(records.QuotaUse, "quota_uses", keys=("manager", "kind", "key"), sqlite_with_rowid=False)
WRITE_CHECKS = RecordTable(records.WriteCheck, "write_checks", keys=("writer",))
