"""Folded samples, upserted by application, operator, window and node type; how far each source was read.

Save marks in the transaction that saves what was read up to them: then both are there after a crash, or neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from sqlalchemy import ColumnElement, Select, bindparam, case, delete, func, null, select
from sqlalchemy.orm import Session
from sqlalchemy.sql.operators import ge, in_op, lt

from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from tuner.store.records import SourceMark
from tuner.store.rows import count_changed, given
from tuner.store.tables import BATCH, MARKS, SAMPLES, names_of

SampleWindow = tuple[str, float, float]  # operator, start, end
# operator, start, end, arrived, tuples_in, backlog, batches, batch_time, completeness
BatchRow = tuple[str, float, float, float | None, float | None, float | None, float | None, float | None, float]
ROW = SAMPLES.c
SPECIAL = {"key": null(), "node_type": func.nullif(ROW.node_type, "")}
READ = [SPECIAL[name] if name in SPECIAL else ROW[name] for name in names_of(Sample)]


def save_samples(session: Session, samples: Iterable[Sample]) -> int:
    """Write these, over what there was of the same windows; how many. Of a window given twice the later one stays."""
    return SAMPLES.save(session, samples, to_row)


def to_row(sample: Sample) -> dict[str, Any]:
    if sample.key is not None:
        raise BadInput(
            f"a sample of {sample.operator!r} is a fine one (key {sample.key!r}); fold it into a window first"
        )
    row = SAMPLES.to_columns(sample)
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
    since: float | None = None,
    until: float | None = None,
    window_s: float | None = None,
    limit: int | None = None,
    newest: bool = False,
) -> Iterator[Sample]:
    """Samples whose window starts in [since, until), by operator and time, or the `newest` first; not all at once."""
    order: tuple[Any, ...] = (ROW.operator, ROW.start, ROW.end, ROW.node_type)
    if newest:
        order = (ROW.start.desc(), ROW.operator, ROW.end, ROW.node_type)
    chosen = given((ROW.operator, in_op, operators), (ROW.start, ge, since), (ROW.start, lt, until))
    query = select(*READ).where(ROW.application == application, *chosen)
    if window_s is not None:
        query = query.where(func.abs(ROW.end - ROW.start - window_s) < 1e-6)
    with session.execute(query.order_by(*order).limit(limit).execution_options(yield_per=BATCH)) as found:
        for row in found:
            yield Sample(*row)


def list_batch_figures(
    session: Session, application: str, operators: Sequence[str], since: float, until: float
) -> Sequence[BatchRow]:
    """What batches did in each window that starts in [since, until), over all node types, by time."""

    def merge(column: ColumnElement[Any]) -> ColumnElement[Any]:
        """A sample of no node type is of all of them; else those of single types add up."""
        return func.coalesce(
            func.max(case((ROW.node_type == "", column))), func.sum(case((ROW.node_type != "", column)))
        )

    figures = (merge(ROW[name]) for name in ("arrived", "tuples_in", "backlog", "batches", "batch_time"))
    query = select(ROW.operator, ROW.start, ROW.end, *figures, func.max(ROW.completeness))
    mine = (ROW.application == application, ROW.operator.in_(operators), ROW.start >= since, ROW.start < until)
    query = query.where(*mine).group_by(ROW.operator, ROW.start, ROW.end).order_by(ROW.start)
    return cast(Sequence[BatchRow], session.connection().execute(query).all())


def count_samples(session: Session, application: str) -> dict[str, int]:
    """How many samples each operator has."""
    query: Select[str, int] = select(ROW.operator, func.count()).where(ROW.application == application)
    return dict(session.execute(query.group_by(ROW.operator)).all())


def list_node_types(session: Session, application: str) -> list[str]:
    """The node types that samples name, in alphabetical order."""
    query = select(ROW.node_type).where(ROW.application == application, ROW.node_type != "").distinct()
    return sorted(session.scalars(query))


def delete_samples(session: Session, application: str, since: float = -math.inf, until: float = math.inf) -> int:
    """Take out the windows that start in [since, until), as one does before folding that stretch anew; how many."""
    statement = delete(SAMPLES.table).where(ROW.application == application, ROW.start >= since, ROW.start < until)
    return count_changed(session.execute(statement))


def delete_windows(session: Session, application: str, windows: Iterable[SampleWindow]) -> None:
    """Take out all samples of these windows, on whichever node types, as one does before saving them anew."""
    statement = delete(SAMPLES.table).where(
        ROW.application == application,
        ROW.operator == bindparam("of"),
        ROW.start == bindparam("since"),
        ROW.end == bindparam("until"),
    )
    places = [{"of": operator, "since": start, "until": end} for operator, start, end in windows]
    if places:
        session.connection().execute(statement, places)


def save_marks(session: Session, marks: Iterable[SourceMark]) -> int:
    return MARKS.save(session, marks)


def load_marks(session: Session, application: str) -> dict[str, SourceMark]:
    """The marks of an application by source."""
    query = MARKS.select(MARKS.c.application == application).order_by(MARKS.c.source)
    return {mark.source: mark for mark in MARKS.load(session, query)}


def delete_marks(session: Session, application: str, sources: Sequence[str] | None = None) -> int:
    """Forget how far these sources (None: all of the application's) were read, so that they are read anew; how many."""
    chosen = given((MARKS.c.source, in_op, sources))
    return count_changed(session.execute(delete(MARKS.table).where(MARKS.c.application == application, *chosen)))
