"""Folded samples, upserted by application, operator, window and node type; how far each source was read.

Save marks in the transaction that saves what was read up to them: then both are there after a crash, or neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter, ne
from types import NoneType
from typing import Any

from sqlalchemy import Select, bindparam, delete, func, null, select
from sqlalchemy.orm import Session

from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from tuner.store.models import SampleRow, SourceMarkRow
from tuner.store.records import SourceMark
from tuner.store.rows import BATCH, RecordTable, count_changed, names_of, to_columns, to_sql_value, upsert_all

SampleWindow = tuple[str, float, float]  # operator, start, end
STORED = names_of(Sample, without=("key",))  # a folded sample has none
read_fields = attrgetter(*STORED)
PLAIN = {float, str, NoneType}
READ = [
    null()
    if name == "key"
    else func.nullif(SampleRow.node_type, "")
    if name == "node_type"
    else getattr(SampleRow, name)
    for name in names_of(Sample)
]


def save_samples(session: Session, samples: Iterable[Sample]) -> int:
    """Write these, over what there was of the same windows; how many. Of a window given twice the later one stays."""
    return upsert_all(session, SampleRow, map(to_row, samples))


def to_row(sample: Sample) -> dict[str, Any]:
    if sample.key is not None:
        raise BadInput(
            f"a sample of {sample.operator!r} is a fine one (key {sample.key!r}); fold it into a window first"
        )
    values = read_fields(sample)
    if not PLAIN.issuperset(map(type, values)) or any(map(ne, values, values)):  # numbers of numpy's, or NaN
        values = tuple(map(to_sql_value, values))
    row = dict(zip(STORED, values, strict=True))
    if row["start"] is None or row["end"] is None:
        raise BadInput(
            f"a sample of {sample.operator!r} has a window from {sample.start} to {sample.end}; give both ends"
        )
    row["node_type"] = sample.node_type or ""
    return row


def load_samples(session: Session, application: str, **chosen: Any) -> list[Sample]:
    """The samples of an application, as `stream_samples` chooses and orders them."""
    return list(stream_samples(session, application, **chosen))


def stream_samples(
    session: Session,
    application: str,
    operators: Sequence[str] | None = None,
    since: float = -math.inf,
    until: float = math.inf,
    window_s: float | None = None,
    limit: int | None = None,
    newest: bool = False,
) -> Iterator[Sample]:
    """Samples whose window starts in [since, until), by operator and time, without all of them in memory at once.

    `newest` orders by time alone, the latest first.
    """
    order: tuple[Any, ...] = (SampleRow.operator, SampleRow.start, SampleRow.end, SampleRow.node_type)
    if newest:
        order = (SampleRow.start.desc(), SampleRow.operator, SampleRow.end, SampleRow.node_type)
    query = choose(select(*READ), application, operators, since, until)
    if window_s is not None:
        query = query.where(func.abs(SampleRow.end - SampleRow.start - window_s) < 1e-6)
    found = session.execute(query.order_by(*order).limit(limit).execution_options(yield_per=BATCH))
    return (Sample(*row) for row in found)


def choose(
    query: Select[Any], application: str, operators: Sequence[str] | None, since: float, until: float
) -> Select[Any]:
    query = query.where(SampleRow.application == application)
    if operators is not None:
        query = query.where(SampleRow.operator.in_(operators))
    if since > -math.inf:
        query = query.where(SampleRow.start >= since)
    if until < math.inf:
        query = query.where(SampleRow.start < until)
    return query


def count_samples(session: Session, application: str) -> dict[str, int]:
    """How many samples each operator has."""
    query = select(SampleRow.operator, func.count()).where(SampleRow.application == application)
    return dict(session.execute(query.group_by(SampleRow.operator)).all())


def delete_samples(session: Session, application: str, since: float = -math.inf, until: float = math.inf) -> int:
    """Take out the windows that start in [since, until), as one does before folding that stretch anew; how many."""
    statement = delete(SampleRow).where(
        SampleRow.application == application, SampleRow.start >= since, SampleRow.start < until
    )
    return count_changed(session.execute(statement))


def delete_windows(session: Session, application: str, windows: Iterable[SampleWindow]) -> None:
    """Take out all samples of these windows, on whichever node types, as one does before saving them anew."""
    statement = delete(SampleRow).where(
        SampleRow.application == application,
        SampleRow.operator == bindparam("of"),
        SampleRow.start == bindparam("since"),
        SampleRow.end == bindparam("until"),
    )
    places = [{"of": operator, "since": start, "until": end} for operator, start, end in windows]
    if places:
        session.connection().execute(statement, places)


def save_marks(session: Session, marks: Iterable[SourceMark]) -> int:
    return upsert_all(session, SourceMarkRow, map(to_columns, marks))


def load_marks(session: Session, application: str) -> dict[str, SourceMark]:
    """The marks of an application by source."""
    marks = RecordTable(SourceMarkRow, SourceMark)
    query = marks.select(SourceMarkRow.application == application).order_by(SourceMarkRow.source)
    return {mark.source: mark for mark in marks.load(session, query)}


def delete_marks(session: Session, application: str, sources: Sequence[str] | None = None) -> int:
    """Forget how far these sources (None: all of the application's) were read, so that they are read anew; how many."""
    statement = delete(SourceMarkRow).where(SourceMarkRow.application == application)
    if sources is not None:
        statement = statement.where(SourceMarkRow.source.in_(sources))
    return count_changed(session.execute(statement))
