"""Check the schema, the tables and the file of a database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, text

from tuner.store.connection import Store
from tuner.store.faults import translate_errors
from tuner.store.models import Base
from tuner.store.schema import HEAD, VERSION_TABLE, read_revision

Difference = tuple[Any, ...]


def check_store(store: Store) -> list[str]:
    """Nothing where all is well; the schema, the tables as they are, and SQLite's own view of its file."""
    place = store.address.shown
    with translate_errors(place), store.engine.execution_options(reading=True).connect() as connection:
        revision = read_revision(connection, place)
        if revision is None:
            return [f"{place} is empty; `tuner db upgrade` makes its tables"]
        if revision != HEAD:
            return [f"{place} has the older schema {revision}; `tuner db upgrade` brings it to {HEAD}"]
        wrong = [f"{place} is not as its schema says: {describe(difference)}" for difference in compare(connection)]
        if connection.dialect.name == "sqlite":
            wrong += [f"{place} is damaged: {found}" for found in examine(connection)]
        return wrong


def compare(connection: Connection) -> list[Difference]:
    """How the tables differ from the models, as Alembic puts it."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    ours = set(Base.metadata.tables)

    def is_ours(name: str | None, kind: str, parents: object) -> bool:
        return kind != "table" or name in ours

    options = {"version_table": VERSION_TABLE, "compare_type": True, "include_name": is_ours}
    found: list[Difference] = []
    for difference in compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata):
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
