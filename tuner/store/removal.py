"""Remove an application or a tuning run from the database, and rename an application; the audit log stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Table, delete, func, select, union, update
from sqlalchemy.orm import Session

from tuner.store.ordinals import lock_applications
from tuner.store.rows import count_changed
from tuner.store.runs import of_application
from tuner.store.tables import (
    APPLICATIONS,
    CONTROLS,
    DECISIONS,
    KNOWN_HISTORIES,
    MARKS,
    OBJECTIVES,
    ORDERS,
    RETUNINGS,
    RUNS,
    SAMPLES,
    SCALERS,
    SUPERSEDED,
    SURROGATES,
    TRIALS,
    VERSIONS,
)

# that nothing refers to
BY_NAME = (SAMPLES, MARKS, DECISIONS, SUPERSEDED, CONTROLS, ORDERS, KNOWN_HISTORIES, SCALERS, RETUNINGS)
FEW = (MARKS, SCALERS, SURROGATES, OBJECTIVES)  # rows; whatever sent samples left one of these


def list_undescribed(session: Session) -> list[str]:
    """Names under which something was monitored, and that nobody described."""
    described = set(session.scalars(select(APPLICATIONS.c.name)))
    named = union(*(select(table.c.application).distinct() for table in FEW))
    return sorted({str(name) for name in session.scalars(named)} - described)


def remove_application(session: Session, name: str) -> dict[str, int]:
    """Delete all that is stored of an application but what was done to it; how many rows of each table."""
    lock_applications(session, APPLICATIONS.c.name == name)
    runs = of_application(select(RUNS.c.id), name)
    statements: Iterator[tuple[Table, Any]] = iter((
        *((table.table, table.c.application == name) for table in (*BY_NAME, OBJECTIVES)),
        (TRIALS.table, TRIALS.c.run_id.in_(runs)),
        (RUNS.table, RUNS.c.id.in_(runs)),
        (SURROGATES.table, SURROGATES.c.application == name),
        (VERSIONS, VERSIONS.c.application_id.in_(select(APPLICATIONS.c.id).where(APPLICATIONS.c.name == name))),
        (APPLICATIONS, APPLICATIONS.c.name == name),
    ))  # fmt: skip
    return {table.name: count_changed(session.execute(delete(table).where(where))) for table, where in statements}


def rename_application(session: Session, name: str, new: str) -> None:
    """Give all that is stored of an application another name."""
    lock_applications(session, APPLICATIONS.c.name == name)
    orphans = KNOWN_HISTORIES.c.application == new  # stored while an application of that name was removed
    session.execute(delete(KNOWN_HISTORIES.table).where(orphans))
    for table in (*BY_NAME, OBJECTIVES, SURROGATES):
        session.execute(update(table.table).where(table.c.application == name).values(application=new))
    session.execute(update(APPLICATIONS).where(APPLICATIONS.c.name == name).values(name=new))


def count_made_of(session: Session, run_id: int) -> int:
    """How many objectives were made of trials of a run."""
    trials = select(TRIALS.c.id).where(TRIALS.c.run_id == run_id)
    return (
        session.scalar(select(func.count()).select_from(OBJECTIVES.table).where(OBJECTIVES.c.trial_id.in_(trials))) or 0
    )


def remove_run(session: Session, run_id: int) -> int:
    """Delete a run with its trials; how many these were."""
    count = count_changed(session.execute(delete(TRIALS.table).where(TRIALS.c.run_id == run_id)))
    session.execute(delete(RUNS.table).where(RUNS.c.id == run_id))
    return count
