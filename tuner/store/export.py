"""Export the database as JSON lines or as a SQLite copy, in a file that appears when it is whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Table, func, insert, select
from sqlalchemy.orm import Session

from scaler.model.errors import BadInput
from scaler.model.files import check_place, replacing
from tuner.store.connection import HEAD, Store, open_store
from tuner.store.json_fields import write_json
from tuner.store.models import Base
from tuner.store.rows import BATCH

COPIES = (".db", ".sqlite", ".sqlite3")
LINES = (".jsonl", ".ndjson")
Tell = Callable[[int], None]  # how many rows are done


def count_rows(session: Session) -> dict[str, int]:
    """How many rows each table has."""
    return {name: session.scalar(select(func.count()).select_from(table)) or 0 for name, table in tables().items()}


def tables() -> dict[str, Table]:
    """In the order of the models, in which each refers to those before it alone."""
    return dict(Base.metadata.tables)


def check_target(store: Store, path: Path) -> None:
    """Refuse, before the work, a file that cannot be written or whose ending says nothing known."""
    check_place(path)
    if path.suffix.lower() not in (*LINES, *COPIES):
        known = ", ".join((*LINES, *COPIES))
        raise BadInput(f"{path} ends in {path.suffix or 'nothing'}; end it in one of {known}, which says what to write")
    if store.address.path is not None and path.resolve() == store.address.path.resolve():
        raise BadInput(f"{path} is the database itself; name another file")


def tell_nobody(done: int) -> None:
    pass


def export_store(store: Store, path: Path, tell: Tell = tell_nobody) -> None:
    """JSON lines or a SQLite copy, as the file's ending says; one state of the database, others go on writing."""
    check_target(store, path)
    with being_written(path) as part:
        if path.suffix.lower() in LINES:
            write_lines(store, part, tell)
        elif store.address.path is not None:
            copy_file(store, part)
        else:
            copy_rows(store, part, tell)


@contextmanager
def being_written(path: Path) -> Iterator[Path]:
    """A file beside `path` that takes its place when the block ends, and is gone when it raises."""
    try:
        with replacing(path) as part:
            try:
                yield part
            finally:
                for suffix in ("-wal", "-shm", "-journal"):
                    part.with_name(part.name + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}); name another file") from error


def write_lines(store: Store, path: Path, tell: Tell) -> None:
    """First a line that names the schema, then one per row: the table's name and its columns."""
    with path.open("w", encoding="utf-8") as file, store.read() as session:
        file.write(write_json({"table": "tuner_schema", "version_num": HEAD}) + "\n")
        done = 0
        for name, rows in read_tables(session):
            file.writelines(write_json({"table": name, **row}) + "\n" for row in rows)
            tell(done := done + len(rows))


def read_tables(session: Session) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Every table's rows, in batches and in the order of their keys."""
    for name, table in tables().items():
        query = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=BATCH)
        for part in session.execute(query).mappings().partitions():
            yield name, [dict(row) for row in part]


def copy_file(store: Store, path: Path) -> None:
    """SQLite's own copy, without the space that deleted rows left."""
    raw = store.engine.raw_connection()
    try:
        raw.cursor().execute("VACUUM INTO ?", (str(path),))
    except sqlite3.Error as error:
        raise BadInput(f"{path} cannot be written ({error}); name another file") from error
    finally:
        raw.close()


def copy_rows(store: Store, path: Path, tell: Tell) -> None:
    """A new SQLite database with the same rows, ids included."""
    done = 0
    with closing(open_store(path)) as target:
        with store.read() as session, target.begin() as written:
            for name, rows in read_tables(session):
                written.connection().execute(insert(tables()[name]), rows)
                tell(done := done + len(rows))
        raw = target.engine.raw_connection()
        raw.cursor().execute("PRAGMA journal_mode = DELETE")  # brings the write-ahead log into the file, kept alone
        raw.close()
