"""Number the tuning runs and trials of each application from 1 on: the numbers that people see.

No number is given twice, also after the run that had it is removed. Rows that a program of the schema before wrote have
none at first; the next writer numbers them in the order of their ids.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.functions import coalesce

from tuner.store.tables import APPLICATIONS, RUNS, TRIALS, VERSIONS, R, RecordTable

COUNTERS = {"tuning_runs": APPLICATIONS.c.last_run, "trials": APPLICATIONS.c.last_trial}
Ordinal = dict[str, int]  # values of the columns `application_id` and `ordinal`


def take_ordinal(session: Session, table: RecordTable[R], version_id: int) -> Ordinal:
    """Take the next number of this application version's application; others wait until the transaction ends."""
    number_older(session)
    application = select(VERSIONS.c.application_id).where(VERSIONS.c.id == version_id).scalar_subquery()
    return advance(session, table, APPLICATIONS.c.id == application)


def advance(session: Session, table: RecordTable[R], where: ColumnElement[bool]) -> Ordinal:
    counter = COUNTERS[table.table.name]
    changed = update(APPLICATIONS).where(where).values({counter.name: coalesce(counter, 0) + 1})
    application, ordinal = session.execute(changed.returning(APPLICATIONS.c.id, counter)).one()
    return {"application_id": application, "ordinal": ordinal}


def has_unnumbered(session: Session) -> bool:
    """Whether a program of the schema before wrote runs or trials that no newer one has numbered yet."""
    found = (select(table.c.id).where(table.c.application_id.is_(None)).limit(1) for table in (RUNS, TRIALS))
    return any(session.scalar(query) is not None for query in found)


def number_older(session: Session) -> None:
    """Number the rows that programs of the schema before wrote."""
    described = VERSIONS.join(RUNS.table, RUNS.c.application_version_id == VERSIONS.c.id)
    number_rows(session, RUNS, described)
    number_rows(session, TRIALS, described.join(TRIALS.table, TRIALS.c.run_id == RUNS.c.id))


def number_rows(session: Session, table: RecordTable[R], joined: Any) -> None:
    row = table.c
    unnumbered = select(row.id, VERSIONS.c.application_id).select_from(joined).where(row.application_id.is_(None))
    for row_id, application in session.execute(unnumbered.order_by(row.id)).all():
        ordinal = advance(session, table, APPLICATIONS.c.id == application)
        session.execute(update(table.table).where(row.id == row_id, row.application_id.is_(None)).values(ordinal))


def of_ordinal(table: RecordTable[R], application: str, ordinal: int) -> tuple[ColumnElement[bool], ...]:
    """Conditions on the row of this number."""
    named = select(APPLICATIONS.c.id).where(APPLICATIONS.c.name == application).scalar_subquery()
    return table.c.application_id == named, table.c.ordinal == ordinal
