"""Open a database at an address, with its tables up to date, and run transactions in it.

SQLite in WAL mode: readers never wait for the writer. A writing transaction takes its lock when it begins, for one that
turns from reading to writing cannot wait for another such, only fail. Writers wait `patience` seconds for each other.
`synchronous` is FULL: NORMAL would survive a killed process too, but may lose the last commits when the power fails,
and what is committed here took seconds to compute against the milliseconds that a sync takes.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.orm import Session as Session  # the type of transactions, for modules outside the store

from scaler.model.errors import BadInput
from scaler.model.files import create_file
from scaler.model.wire import read_json
from tuner.store.address import DatabaseAddress, make_folder, parse_address
from tuner.store.audit_log import seal_events
from tuner.store.epochs import find_epoch
from tuner.store.faults import Locked, TransientFault, Unavailable, translate_errors
from tuner.store.file_watch import GONE, FileWatch, find_inode
from tuner.store.json_fields import write_json
from tuner.store.schema_version import HEAD, OLDEST, VERSION_TABLE, configure, read_version, state_oldest

UPGRADE_PATIENCE_S, UPGRADE_PAUSE_S = 150.0, 0.5  # while somebody reads a table that is to be changed
TABLE_PATIENCE_MS = 2_000  # for which it is waited for at a time
UPGRADE_LOCK = 0x7475_6E65_72  # "tuner": PostgreSQL's advisory lock for whoever changes tables


def read_revision(connection: Connection, place: str) -> str | None:
    """The revision of the tables, None where the database is empty, or why this database will not do.

    It may be newer than `HEAD`, where the program that upgraded the tables said that this one may go on with them.
    """
    inspector = inspect(connection)
    if inspector.has_table(VERSION_TABLE):
        found = read_version(connection)
        if not found.is_known:
            raise BadInput(f"{place} has the unknown schema {found.revision!r}; name a database that this program made")
        if not found.is_usable:
            raise BadInput(
                f"{place} has schema {found.revision}, made by a newer tuner, and this one knows up to {HEAD}; "
                "upgrade the tuner"
            )
        return str(found.revision)
    others = inspector.get_table_names()
    if others:
        raise BadInput(f"{place} holds tables of something else ({others[0]}, ...); give the tuner one of its own")
    return None


def upgrade(connection: Connection, place: str, target: str = HEAD) -> tuple[str | None, str]:
    """Bring the tables up inside the connection's transaction, one process at a time; what they were and are."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})
        connection.execute(text(f"SET LOCAL lock_timeout = {TABLE_PATIENCE_MS}"))
    before = read_revision(connection, place)  # another process may have been first
    if before is None or before < target:
        from alembic import command

        config = configure()
        config.attributes["connection"] = connection
        command.upgrade(config, target)
        state_oldest(connection, target)
        return before, target
    return before, before


T = TypeVar("T")
PATIENCE = 30.0  # seconds
ATTEMPTS = 5
ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}


@dataclass(frozen=True, slots=True)
class Store:
    """A database ready for use."""

    engine: Engine = field(repr=False)  # its own may show what a URL hides in its query
    address: DatabaseAddress
    file: FileWatch | None = field(default=None, repr=False)

    @contextmanager
    def begin(self) -> Iterator[Session]:
        """One writing transaction: committed when the block ends, its events sealed; undone when it raises."""
        if self.file is not None:
            self.file.check()
        with (
            translate_errors(self.address.shown),
            Session(self.engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session
            seal_events(session)
        if self.file is not None:
            self.file.confirm()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """One transaction that only reads, sees one state of the database throughout, and holds nobody up."""
        if self.file is not None:
            self.file.check()
        reader = self.engine.execution_options(reading=True)
        if reader.dialect.name == "postgresql":
            reader = reader.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with translate_errors(self.address.shown), Session(reader) as session:
            yield session

    def write(self, work: Callable[[Session], T], attempts: int = ATTEMPTS) -> T:
        """`work` in a transaction of its own, and again where the connection was lost; it must bear to be repeated.

        A commit whose answer was lost may have happened, so what `work` does twice must come to the same as once.
        """
        for attempt in range(1, attempts + 1):
            try:
                with self.begin() as session:
                    return work(session)
            except TransientFault:
                if attempt == attempts:
                    raise
                time.sleep(0.1 * 2.0**attempt)
        raise ValueError(f"attempts is {attempts}, and must be at least 1")

    def close(self) -> None:
        self.engine.dispose()


def open_store(place: str | Path | DatabaseAddress, patience: float = PATIENCE) -> Store:
    """The database at a path, a URL or an address, made or brought up to date where that is safe.

    A SQLite file is upgraded where it is. A PostgreSQL database that others may be using with an older program is not:
    an empty one gets its tables, an older one is refused with what to do. A newer one is used as it is, where it says
    that programs of this schema may.
    """
    store = connect_unprepared(place, patience)
    address = store.address
    try:
        create_database(address)
        revision = find_revision(store)
        if revision is not None and revision < HEAD and address.path is None:
            raise BadInput(
                f"{address.shown} has the older schema {revision}; run `tuner db upgrade`, under which programs of "
                f"schema {OLDEST} and newer go on"
            )
        if not is_current(revision):
            if address.path is not None and not is_writable(address.path):
                raise BadInput(
                    f"{address.shown} has the older schema {revision} and is read-only; upgrade a copy of it"
                )
            upgrade_store(store)
    except BaseException:
        store.close()
        raise
    if address.path is None:
        return store
    event.listen(store.engine, "do_connect", partial(refuse_gone, address.path))
    return replace(store, file=FileWatch(address.path, Reopening(store)))


@dataclass(slots=True)
class Reopening:
    """Drop the connections to a file that was replaced, where `tuner db restore` made the one in its place."""

    store: Store
    epoch: float | None = None  # when it began

    def __post_init__(self) -> None:
        self.epoch = find_epoch_start(self.store)

    def __call__(self) -> bool:
        with closing(connect_unprepared(self.store.address)) as found:
            epoch = find_epoch_start(found) if is_current(find_revision(found)) else None
        if epoch is None or epoch == self.epoch:
            return False
        self.store.engine.dispose()
        self.epoch = epoch
        return True


def find_epoch_start(store: Store) -> float | None:
    with store.read() as session:
        epoch = find_epoch(session)
    return None if epoch is None else epoch.began


def refuse_gone(path: Path, *_: object) -> None:
    """A file that was moved away is waited for: SQLite would make an empty one in its place, and work on that."""
    if not path.exists():
        raise Unavailable(f"{path} {GONE}")


def create_database(address: DatabaseAddress) -> None:
    """Make the file where there is none, its owner's alone, as SQLite then makes its write-ahead log."""
    if address.path is None:
        return
    try:
        create_file(address.path)
    except FileExistsError:
        return
    except OSError as error:
        raise BadInput(f"the database {address.path} cannot be made ({error.strerror}); name another file") from error


def find_revision(store: Store) -> str | None:
    place = store.address.shown
    with translate_errors(place), store.engine.execution_options(reading=True).connect() as connection:
        return read_revision(connection, place)


def is_current(revision: str | None) -> bool:
    """Whether the tables have all that this program needs."""
    return revision is not None and revision >= HEAD


def check_all_known(store: Store, doing: str, named: str = "") -> None:
    """Refuse what copies or replaces whole tables where a newer program added to them: that would be lost."""
    revision = find_revision(store)
    if revision is not None and revision > HEAD:
        raise BadInput(
            f"{named or store.address.shown} has schema {revision}, and this program knows {HEAD}, so that {doing} "
            "would lose the rest; use the tuner that upgraded it"
        )


def upgrade_store(store: Store) -> tuple[str | None, str]:
    """Make the tables or bring them up, all or nothing; which schema there was and is.

    On a server whoever reads a table is waited for, and others who want it wait behind: so not for long, but often.
    """
    create_database(store.address)
    find_revision(store)  # refuses what is not ours before it is touched
    if store.address.path is not None:
        with translate_errors(store.address.shown):
            use_wal(store.engine)
    until = time.monotonic() + (UPGRADE_PATIENCE_S if store.address.path is None else 0.0)
    while True:
        try:
            with translate_errors(store.address.shown), store.engine.begin() as connection:
                return upgrade(connection, store.address.shown)
        except Locked:
            if time.monotonic() > until:
                raise
            time.sleep(UPGRADE_PAUSE_S)


def connect_unprepared(place: str | Path | DatabaseAddress, patience: float = PATIENCE) -> Store:
    """The database as it is, for looking at its schema or upgrading it."""
    address = place if isinstance(place, DatabaseAddress) else parse_address(place)
    if address.own_folder and address.path is not None:
        make_folder(address.path)
    return Store(make_engine(address, patience), address)


def is_writable(path: Path) -> bool:
    """Whether SQLite can write to the file, and make its log beside it; of one that is not there, the folder counts."""
    places = [path.absolute().parent, *([path] if path.exists() else [])]
    return all(os.access(place, os.W_OK, effective_ids=True) for place in places)


def read_only_url(path: Path) -> URL:
    """A file that nobody here may write to, read as it is: a log beside it cannot be made, nor is one needed."""
    logged = find_inode(path.with_name(f"{path.name}-wal")) is not None
    how = "mode=ro" if logged else "mode=ro&immutable=1"
    return make_url(f"sqlite+pysqlite:///file:{quote(str(path.absolute()))}?{how}&uri=true")


def make_engine(address: DatabaseAddress, patience: float) -> Engine:
    settings: dict[str, Any] = {"json_serializer": write_json, "json_deserializer": read_json}
    if address.path is not None:
        url = address.url if is_writable(address.path) or not address.path.exists() else read_only_url(address.path)
        engine = create_engine(url, connect_args={"timeout": patience}, **settings)
        event.listen(engine, "connect", set_up_sqlite)
        event.listen(engine, "begin", begin_sqlite)
        return engine
    given = address.url.query.get("options", ())
    options = [
        f"-c lock_timeout={int(patience * 1000)} -c timezone=UTC",
        *([given] if isinstance(given, str) else given),
    ]
    connecting = {"connect_timeout": max(2, int(patience)), "options": " ".join(options), **ALIVE}  # the URL's win
    engine = create_engine(address.url, connect_args=connecting, pool_pre_ping=True, **settings)
    event.listen(engine, "checkout", write_as_server_says)
    return engine


def write_as_server_says(connection: Any, record: object, proxy: object) -> None:
    """After a transaction that only read SQLAlchemy would have the next one write even where the server says no."""
    connection.read_only = None


def set_up_sqlite(connection: sqlite3.Connection, record: object) -> None:
    connection.isolation_level = None  # transactions are begun by `begin_sqlite`
    for pragma in ("foreign_keys = ON", "synchronous = FULL", "temp_store = MEMORY", "cache_size = -65536"):
        connection.execute(f"PRAGMA {pragma}")


def begin_sqlite(connection: Connection) -> None:
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def use_wal(engine: Engine, patience: float = PATIENCE) -> None:
    """Set once, the file remembers; the switch does not wait for other processes by itself."""
    until = time.monotonic() + patience
    raw = engine.raw_connection()
    try:
        while True:
            try:
                raw.cursor().execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.02)
    finally:
        raw.close()
