"""Number the tuning runs and trials of each application from 1 on: the numbers that people see.

No number is given twice, also after the run that had it is removed. Rows that a program of the schema before wrote have
none at first; the application's next writer numbers them in the order of their ids, or a daemon does.

Locks are taken in one order, so that no two writers wait for each other: applications by their ids, then their rows.
A writer locks the application that it writes for, and a daemon all that have rows to number.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Select, Text, cast, func, literal, select, union, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.functions import coalesce

from tuner.store.tables import APPLICATIONS, OBJECTIVES, RUNS, TRIALS, VERSIONS, R, RecordTable

COUNTERS = {"tuning_runs": APPLICATIONS.c.last_run, "trials": APPLICATIONS.c.last_trial}
DESCRIBED = VERSIONS.join(RUNS.table, RUNS.c.application_version_id == VERSIONS.c.id)
JOINED = {"tuning_runs": DESCRIBED, "trials": DESCRIBED.join(TRIALS.table, TRIALS.c.run_id == RUNS.c.id)}
Ordinal = dict[str, int]  # values of the columns `application_id` and `ordinal`


def name_origin(trial: ColumnElement[int], run: ColumnElement[int]) -> ColumnElement[str]:
    return literal("trial ", Text) + cast(trial, Text) + literal(" of run ", Text) + cast(run, Text)


BY_ORDINAL = name_origin(TRIALS.c.ordinal, RUNS.c.ordinal)
# An older program names an objective's trial and run by their ids, which a newer one does only where the numbers agree.
NAMED_BY_ID = (
    TRIALS.c.id == OBJECTIVES.c.trial_id,
    RUNS.c.id == TRIALS.c.run_id,
    OBJECTIVES.c.provenance == name_origin(TRIALS.c.id, RUNS.c.id),
    OBJECTIVES.c.provenance != coalesce(BY_ORDINAL, ""),
)


def take_ordinal(session: Session, table: RecordTable[R], version_id: int) -> Ordinal:
    """Take the next number of this application version's application; others wait until the transaction ends."""
    number_older_of(session, version_id)
    counter = COUNTERS[table.table.name]
    changed = update(APPLICATIONS).where(is_described_by(version_id)).values({counter.name: coalesce(counter, 0) + 1})
    application, ordinal = session.execute(changed.returning(APPLICATIONS.c.id, counter)).one()
    return {"application_id": application, "ordinal": ordinal}


def lock_numbers(session: Session, version_id: int) -> None:
    """Lock the numbers of this version's application, before any row of its runs is locked."""
    lock_applications(session, is_described_by(version_id))


def is_described_by(version_id: int) -> ColumnElement[bool]:
    described = select(VERSIONS.c.application_id).where(VERSIONS.c.id == version_id)
    return APPLICATIONS.c.id == described.scalar_subquery()


def lock_applications(session: Session, *where: ColumnElement[bool]) -> Sequence[int]:
    """Lock these applications in the order of their ids, which they are; SQLite has one writer at a time anyway."""
    query = select(APPLICATIONS.c.id).where(*where).order_by(APPLICATIONS.c.id)
    return session.scalars(query.with_for_update(key_share=True)).all()


def select_unnumbered(table: RecordTable[R]) -> Select[tuple[int]]:
    """Their applications."""
    return (
        select(VERSIONS.c.application_id).select_from(JOINED[table.table.name]).where(table.c.application_id.is_(None))
    )


def has_unnumbered(session: Session) -> bool:
    """Whether a program of the schema before wrote what no newer one has numbered, or an origin by ids, yet."""
    misnamed = select(OBJECTIVES.c.id).where(*NAMED_BY_ID)
    found = (select_unnumbered(RUNS), select_unnumbered(TRIALS), misnamed)
    return any(session.scalar(query.limit(1)) is not None for query in found)


def number_older(session: Session) -> None:
    """Number the rows that programs of the schema before wrote, of all applications."""
    older = union(select_unnumbered(RUNS), select_unnumbered(TRIALS))
    number_rows(session, lock_applications(session, APPLICATIONS.c.id.in_(older)))
    rename_origins(session)


def number_older_of(session: Session, version_id: int) -> None:
    """Number the rows of this application version's application that programs of the schema before wrote."""
    older = union(select_unnumbered(RUNS), select_unnumbered(TRIALS))
    locked = lock_applications(session, is_described_by(version_id), APPLICATIONS.c.id.in_(older))
    if locked:
        number_rows(session, locked)
        rename_origins(session, TRIALS.c.application_id.in_(locked))


def number_rows(session: Session, applications: Sequence[int]) -> None:
    """Number what is unnumbered of applications that are locked: another may have numbered it before they were."""
    if not applications:
        return
    for table in (RUNS, TRIALS):
        row, counter = table.c, COUNTERS[table.table.name]
        place = func.row_number().over(partition_by=APPLICATIONS.c.id, order_by=row.id)
        joined = JOINED[table.table.name].join(APPLICATIONS, APPLICATIONS.c.id == VERSIONS.c.application_id)
        numbered = (
            select(row.id, APPLICATIONS.c.id.label("application"), (coalesce(counter, 0) + place).label("ordinal"))
            .select_from(joined)
            .where(row.application_id.is_(None), APPLICATIONS.c.id.in_(applications))
            .subquery("numbered")
        )
        values = {"application_id": numbered.c.application, "ordinal": numbered.c.ordinal}
        session.execute(update(table.table).where(row.id == numbered.c.id).values(values))
        last = select(func.max(row.ordinal)).where(row.application_id == APPLICATIONS.c.id).scalar_subquery()
        counted = update(APPLICATIONS).where(APPLICATIONS.c.id.in_(applications), last > coalesce(counter, 0))
        session.execute(counted.values({counter.name: last}))


def rename_origins(session: Session, *where: ColumnElement[bool]) -> None:
    """Name by their numbers the trials that objectives of older programs were made of."""
    named = update(OBJECTIVES.table).where(*NAMED_BY_ID, BY_ORDINAL.is_not(None), *where)
    session.execute(named.values(provenance=BY_ORDINAL))


def of_ordinal(table: RecordTable[R], application: str, ordinal: int) -> tuple[ColumnElement[bool], ...]:
    """Conditions on the row of this number."""
    named = select(APPLICATIONS.c.id).where(APPLICATIONS.c.name == application).scalar_subquery()
    return table.c.application_id == named, table.c.ordinal == ordinal
