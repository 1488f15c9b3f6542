"""Restore the database from a copy, under running services and agents.

The rows are replaced in one transaction: who uses the database sees the state before or the one after, a write-ahead
log that a killed process left is applied to the file that it belongs to, and what must outlive the restoration is read
in the same transaction: the numbers that are used up (`epochs`), and the tokens that were revoked. The audit log is not
replaced where it continues that of the copy: a restoration undoes what was done, not that it was done. Only a file that
cannot be read any more is put aside, with its write-ahead log, and a new one takes its place.
"""

from __future__ import annotations

import math
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Table, delete, insert, select, text, update
from sqlalchemy.orm import Session

from scaler.model.errors import BadInput
from scaler.model.units import format_moment
from tuner.store.address import DatabaseAddress
from tuner.store.audit_log import add_event, continues_log, find_head
from tuner.store.connection import Store, check_all_known, connect_unprepared, find_revision, open_store, upgrade_store
from tuner.store.epochs import COPY, OTHERS, Floors, find_write_check, list_used_numbers
from tuner.store.export import count_rows, read_tables
from tuner.store.faults import DatabaseFault, is_damage, translate_errors
from tuner.store.maintenance import check_store
from tuner.store.records import Epoch, EventRecord
from tuner.store.rows import dialect
from tuner.store.tables import APPLICATIONS, EPOCHS, EVENTS, METADATA, ORDERS, RETUNINGS, RUNS, TOKENS
from tuner.store.wakeups import send_wakeup

UNSEEN_NUMBERS = 1_000  # given in a burst after the copy; besides, one a second
UNSEEN_CLAIMS = 1_000_000  # of leases
COMPANIONS = ("", "-wal", "-shm", "-journal")  # files of a SQLite database
SQLITE_HEADER = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class Restoration:
    """What was restored, and what became of the database before it."""

    epoch: Epoch
    counts: dict[str, int]
    revoked: int  # tokens that the copy had as live, and that were revoked since
    continued: bool  # the numbers that are used up were read from the database before
    aside: Path | None  # where the unreadable file of before is


@dataclass(frozen=True, slots=True)
class Replaced:
    """What outlives the rows that are replaced."""

    epochs: list[Epoch]
    used: dict[str, Floors]
    applications: set[tuple[str, float]]
    revoked: dict[str, float]  # by digest


def restore(source: Path, address: DatabaseAddress, who: str, now: float) -> Restoration:
    """Replace the database at an address by the copy; on a fault it stays as it is."""
    with prepared_copy(source, address) as copy:
        aside = None if address.path is None else put_unreadable_aside(address.path, now)
        with closing(connect_unprepared(address)) as unprepared:
            upgrade_store(unprepared)
        with closing(open_store(address)) as target:
            check_all_known(target, "a restoration")
            return target.write(lambda session: replace_rows(session, copy, source, who, now, aside))


@contextmanager
def prepared_copy(source: Path, address: DatabaseAddress) -> Iterator[Store]:
    """A copy of the copy, which stays as it is: with its own log applied, at this schema, and checked."""
    if not source.is_file():
        raise BadInput(f"{source} is no file; name a copy that `tuner db backup` made")
    beside = None if address.path is None else address.path.absolute().parent
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=beside) as folder:
        path = Path(folder) / "copy.db"
        own = address.path is not None and address.path.exists() and source.samefile(address.path)
        with translate_errors(str(source)):
            read_copy(source, path, alone=own)
        with closing(connect_unprepared(path)) as unprepared:
            if find_revision(unprepared) is None:
                raise BadInput(f"{source} is empty; name a copy that `tuner db backup` made")
        with closing(open_store(path)) as copy:
            check_all_known(copy, "a restoration", str(source))
            if wrong := check_store(copy):
                raise BadInput(f"{source} cannot be restored: {wrong[0].removeprefix(str(path)).strip()}")
            yield copy


def read_copy(source: Path, path: Path, alone: bool) -> None:
    """A copy that was put in the database's place by hand is read alone: the log beside it is another file's."""
    logged = source.with_name(f"{source.name}-wal").exists()
    options = "mode=ro" if logged and not alone else "immutable=1"  # the latter writes nothing beside it
    with (
        closing(sqlite3.connect(f"file:{quote(str(source.absolute()))}?{options}", uri=True)) as original,
        closing(sqlite3.connect(path)) as copy,
    ):
        original.backup(copy)


def put_unreadable_aside(path: Path, now: float) -> Path | None:
    """Rename the files of a database that is damaged, or a log whose database is gone; where they are then."""
    found = [part for ending in COMPANIONS if (part := path.with_name(path.name + ending)).exists()]
    if not found or (path.exists() and not is_damaged(path)):
        return None
    aside = path.with_name(f"{path.name}.damaged-{math.floor(now)}")
    for part in found:
        part.rename(aside.with_name(aside.name + part.name.removeprefix(path.name)))
    return aside


def is_damaged(path: Path) -> bool:
    """Whether SQLite cannot read what begins as its file; what is something else's is refused."""
    try:
        with closing(connect_unprepared(path)) as store:
            find_revision(store)
            with translate_errors(str(path)), store.engine.execution_options(reading=True).connect() as connection:
                return connection.scalar(text("PRAGMA quick_check(1)")) != "ok"
    except DatabaseFault as fault:
        if is_damage(fault) and begins_as_sqlite(path):
            return True
        raise


def begins_as_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(SQLITE_HEADER)) == SQLITE_HEADER


def replace_rows(session: Session, copy: Store, source: Path, who: str, now: float, aside: Path | None) -> Restoration:
    """All rows of the copy for all that there are; the epoch, tokens and leases as they must be after it."""
    lock_writers(session)
    before = read_replaced(session)
    with copy.read() as original:
        moment = find_write_check(original, COPY)
        copied = source.stat().st_mtime if moment is None else moment
        kept = read_replaced(original)
        log_stays, head = continues_log(session, original), find_head(session)
        write_copy(session, original, copy.address.path, without=[EVENTS.table] if log_stays else [])
        counts = count_rows(original)
    continued = bool(kept.applications) and kept.applications <= before.applications
    leap = 0 if continued else UNSEEN_NUMBERS + max(0, math.ceil(now - copied))
    epoch = begin_epoch(session, before, kept, Epoch(0, now, who, str(source), copied, {}, {}), leap)
    free_leases(session)
    for app, revision in session.execute(select(ORDERS.c.application, ORDERS.c.revision)).all():
        after = max(revision, epoch.revisions.get(app, 0)) + 1
        session.execute(update(ORDERS.table).where(ORDERS.c.application == app).values(revision=after))
    lost = "; what was recorded since is gone" + (", but for the audit log" if log_stays else "")
    message = f"{who} restored the database from a copy of {format_moment(copied)}{lost}"
    about = {"source": str(source), "copied": copied, "log": "stays" if log_stays else "replaced"}
    if head is not None and not log_stays:
        about["replaced"] = {"number": head.number, "hash": head.hash}
    for name, more in [("", about), *((name, {}) for name in session.scalars(select(APPLICATIONS.c.name)))]:
        add_event(session, EventRecord(name, now, who, "restored", message, {"epoch": epoch.number, **more}))
    send_wakeup(session)
    return Restoration(epoch, counts, revoke_again(session, before), continued, aside)


def lock_writers(session: Session) -> None:
    """Others may read meanwhile; SQLite has the lock already."""
    if dialect(session) == "postgresql":
        names = ", ".join(METADATA.tables)
        session.execute(text(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE"))


def read_replaced(session: Session) -> Replaced:
    applications = {
        (name, created) for name, created in session.execute(select(APPLICATIONS.c.name, APPLICATIONS.c.created))
    }
    revoked = {
        token.digest: token.revoked for token in TOKENS.load(session, TOKENS.select()) if token.revoked is not None
    }
    return Replaced(EPOCHS.load(session, EPOCHS.select()), list_used_numbers(session), applications, revoked)


def write_copy(session: Session, original: Session, path: Path | None, without: Sequence[Table]) -> None:
    """Rows with their ids, but for these tables; between two files SQLite copies them itself, twenty times as fast."""
    tables = [table for table in METADATA.sorted_tables if table not in without]
    for table in reversed(tables):
        session.execute(delete(table))
    if dialect(session) == "sqlite":
        session.execute(text("ATTACH :path AS copied"), {"path": str(path)})
        for table in tables:
            names = ", ".join(f'"{column.name}"' for column in table.c)
            session.execute(text(f"INSERT INTO main.{table.name} ({names}) SELECT {names} FROM copied.{table.name}"))
        return
    for name, rows in read_tables(original):
        table = METADATA.tables[name]
        if table in without:
            continue
        keyed = [{column.key: row[column.name] for column in table.c} for row in rows]
        session.connection().execute(insert(table), keyed)
    for table in tables:  # the numbers that come next follow those of the copy
        if "id" in table.c:
            highest = f"SELECT max(id) FROM {table.name}"
            session.execute(text(f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), ({highest}))"))


def begin_epoch(session: Session, before: Replaced, kept: Replaced, blank: Epoch, leap: int) -> Epoch:
    """Begin the epoch after all that either database knows."""
    names = {*before.used, *kept.used}
    used = {name: find_highest(before.used, kept.used, name, leap) for name in names}
    earlier = [epoch for epoch in before.epochs if epoch not in kept.epochs]
    EPOCHS.save(session, earlier)
    number = 1 + max((epoch.number for epoch in (*before.epochs, *kept.epochs)), default=0)
    versions = {name: floors.version for name, floors in used.items()}
    revisions = {name: floors.revision for name, floors in used.items()}
    epoch = Epoch(number, blank.began, blank.who, blank.source, blank.copied, versions, revisions)
    EPOCHS.save(session, [epoch])
    return epoch


def find_highest(before: dict[str, Floors], kept: dict[str, Floors], name: str, leap: int) -> Floors:
    seen, copied = (used.get(name, used[OTHERS]) for used in (before, kept))
    return Floors(max(seen.version, copied.version + leap), max(seen.revision, copied.revision + leap))


def free_leases(session: Session) -> None:
    """Whoever holds a lease finds its fence outdated, and stops; a lease that was given after the copy too."""
    for table in (RUNS, RETUNINGS):
        freed = {"owner": None, "lease_until": None, "fence": table.c.fence + UNSEEN_CLAIMS}
        session.execute(update(table.table).values(freed))


def revoke_again(session: Session, before: Replaced) -> int:
    """Revoke what was revoked after the copy; how many."""
    count = 0
    for digest, when in before.revoked.items():
        live = (TOKENS.c.digest == digest, TOKENS.c.revoked.is_(None))
        again = update(TOKENS.table).where(*live).values(revoked=when).returning(TOKENS.c.id)
        count += session.execute(again).first() is not None
    return count
