"""Copy the database to a file while it is in use; the copy is a SQLite database, whichever the original is.

One form of copy for both databases needs no tools of the server's version, and a copy of one can be restored into the
other. The original's readers and writers go on: SQLite copies one snapshot (online backup), PostgreSQL's rows are read
in one transaction.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import text

from scaler.model.errors import BadInput, Retry
from scaler.model.files import check_place, sync_folder
from tuner.store.audit_log import add_event
from tuner.store.connection import Store, check_all_known, open_store
from tuner.store.epochs import COPY, check_write
from tuner.store.export import OnProgress, being_written, check_not_itself, copy_rows, tell_nobody
from tuner.store.faults import DatabaseFault, translate_errors
from tuner.store.records import EventRecord


def check_copy_target(store: Store, path: Path) -> None:
    check_place(path)
    check_not_itself(store, path)


def back_up(store: Store, path: Path, now: float, tell: OnProgress = tell_nobody) -> None:
    """Write a checked copy that says which moment it shows; it replaces a file of that name when it is whole."""
    check_copy_target(store, path)
    with being_written(path) as part:
        if store.address.path is not None:
            copy_snapshot(store, part)
        else:
            check_all_known(store, "a copy")
            copy_rows(store, part, tell)
        stamp_copy(part, now)
        with part.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(path.absolute().parent)


def record_copying(store: Store, who: str, what: str, path: Path, now: float) -> str:
    """Write the audit log's row of a copy; why that failed, "" where it did not.

    A copy needs no row: it may be what saves the data of a database that takes no writes any more.
    """
    about = {"file": str(path.absolute())}
    event = EventRecord("", now, who, what, f"{who} had the database copied to {path}", about)
    try:
        store.write(lambda session: add_event(session, event))
    except (Retry, DatabaseFault) as error:
        return str(error)
    return ""


def copy_snapshot(store: Store, path: Path) -> None:
    """SQLite's online backup in one step, which sees one state of the database."""
    raw = store.engine.raw_connection()
    try:
        original = raw.driver_connection
        assert isinstance(original, sqlite3.Connection)
        with translate_errors(store.address.shown), closing(sqlite3.connect(path)) as copy:
            original.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a write-ahead log of its own
    finally:
        raw.close()


def stamp_copy(path: Path, now: float) -> None:
    """Note the moment in the copy, and check it: a copy that cannot be restored must be found out now."""
    with closing(open_store(path)) as copy:
        with copy.begin() as session:
            check_write(session, COPY, now)
            damage = [row[0] for row in session.execute(text("PRAGMA quick_check(1)")) if row[0] != "ok"]
        if damage:
            raise BadInput(f"the copy is damaged ({damage[0]}); check the database: tuner db check")
        raw = copy.engine.raw_connection()
        raw.cursor().execute("PRAGMA journal_mode = DELETE")
        raw.close()
