"""Check the schema, the tables and the file of a database, and delete old rows that nothing refers to.

Objectives and marks stay: decisions name the former, and what the latter forget would be read again. Events stay as a
record of who did what. So do running runs, runs with a trial that became an objective, and each newest surrogate.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, func, select, text
from sqlalchemy.orm import Session

from tuner.store.connection import Store, is_current, read_revision
from tuner.store.faults import translate_errors
from tuner.store.rows import count_changed
from tuner.store.schema_version import HEAD, VERSION_TABLE
from tuner.store.tables import (
    DECISIONS,
    METADATA,
    OBJECTIVES,
    RUNS,
    SAMPLES,
    SCALERS,
    SUPERSEDED,
    SURROGATES,
    TOKENS,
    TRIALS,
)

Difference = tuple[Any, ...]


def check_store(store: Store) -> list[str]:
    """Nothing where all is well; the schema, the tables as they are, and SQLite's own view of its file."""
    place = store.address.shown
    with translate_errors(place), store.engine.execution_options(reading=True).connect() as connection:
        revision = read_revision(connection, place)
        if revision is None:
            return [f"{place} is empty; `tuner db upgrade` makes its tables"]
        if not is_current(revision):
            return [f"{place} has the older schema {revision}; `tuner db upgrade` brings it to {HEAD}"]
        differences = [one for one in compare(connection) if revision == HEAD or not one[0].startswith("remove_")]
        wrong = [f"{place} is not as its schema says: {describe(one)}" for one in differences]  # a newer one adds
        if connection.dialect.name == "sqlite":
            wrong += [f"{place} is damaged: {found}" for found in examine(connection)]
        return wrong


def compare(connection: Connection) -> list[Difference]:
    """How the tables differ from the models, as Alembic puts it."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    ours = set(METADATA.tables)

    def is_ours(name: str | None, kind: str, parents: object) -> bool:
        return kind != "table" or name in ours

    options = {"version_table": VERSION_TABLE, "compare_type": True, "include_name": is_ours}
    found: list[Difference] = []
    for difference in compare_metadata(MigrationContext.configure(connection, opts=options), METADATA):
        found += difference if isinstance(difference, list) else [difference]
    return found


def describe(difference: Difference) -> str:
    what, *about = difference
    named = [str(getattr(thing, "name", thing)) for thing in about if thing is not None]
    return f"{what.replace('_', ' ')} {', '.join(named[:3])} would make it so"


def examine(connection: Connection) -> list[str]:
    """What SQLite finds wrong with the file, and rows that refer to others that are not there."""
    pages = [row[0] for row in connection.execute(text("PRAGMA quick_check(5)")) if row[0] != "ok"]
    orphans = connection.execute(text("PRAGMA foreign_key_check")).fetchmany(5)
    return pages + [f"row {row[1]} of {row[0]} refers to a row of {row[2]} that is not there" for row in orphans]


def prune(session: Session, before: float, dry_run: bool = False) -> dict[str, int]:
    """How many rows of each table go, or would."""
    counts: dict[str, int] = {}
    for table, condition in conditions(before):
        if dry_run:
            counts[table.name] = session.scalar(select(func.count()).select_from(table).where(condition)) or 0
        else:
            counts[table.name] = count_changed(session.execute(delete(table).where(condition)))
    return counts


def conditions(before: float) -> list[tuple[Table, ColumnElement[bool]]]:
    """What may go, in an order in which nothing that stays refers to what went."""
    kept_trials = select(OBJECTIVES.c.trial_id).where(OBJECTIVES.c.trial_id.is_not(None))
    kept_runs = select(TRIALS.c.run_id).where(TRIALS.c.id.in_(kept_trials))
    old_run = (RUNS.c.state != "running") & (RUNS.c.ended < before) & RUNS.c.id.not_in(kept_runs)
    old_runs = select(RUNS.c.id).where(old_run)
    used = select(OBJECTIVES.c.surrogate_id).where(OBJECTIVES.c.surrogate_id.is_not(None))
    staying = TRIALS.c.surrogate_id.is_not(None) & TRIALS.c.run_id.not_in(old_runs)
    newest = select(func.max(SURROGATES.c.id)).group_by(SURROGATES.c.application)
    old_surrogate = (
        (SURROGATES.c.created < before)
        & SURROGATES.c.id.not_in(used)
        & SURROGATES.c.id.not_in(select(TRIALS.c.surrogate_id).where(staying))
        & SURROGATES.c.id.not_in(newest)
    )
    return [
        (SAMPLES.table, SAMPLES.c.end < before),
        (DECISIONS.table, DECISIONS.c.time < before),
        (SUPERSEDED.table, SUPERSEDED.c.time < before),
        (TRIALS.table, TRIALS.c.run_id.in_(old_runs)),
        (RUNS.table, old_run),
        (SURROGATES.table, old_surrogate),
        (SCALERS.table, SCALERS.c.last_seen < before),
        (TOKENS.table, TOKENS.c.parent_id.is_not(None) & (TOKENS.c.expires < before)),
    ]
