"""Open a database at an address, with its tables up to date, and run transactions in it.

SQLite in WAL mode: readers never wait for the writer. A writing transaction takes its lock when it begins, for one that
turns from reading to writing cannot wait for another such, only fail. Writers wait `patience` seconds for each other.
`synchronous` is FULL: NORMAL would survive a killed process too, but may lose the last commits when the power fails,
and what is committed here took seconds to compute against the milliseconds that a sync takes.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Engine, column, create_engine, event, inspect, select, table, text
from sqlalchemy.orm import Session as Session  # the type of transactions, for modules outside the store

from scaler.model.errors import BadInput, Retry
from scaler.model.wire import read_json
from tuner.store.address import DatabaseAddress, make_folder, parse_address
from tuner.store.faults import TransientFault, translate_errors
from tuner.store.json_fields import write_json

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0005"  # spelled out, for reading the history takes longer than opening a database; a test compares them
VERSION_TABLE = "tuner_schema"  # Alembic's own name may be another program's in a shared database
UPGRADE_LOCK = 0x7475_6E65_72  # "tuner": PostgreSQL's advisory lock for whoever changes tables


def read_revision(connection: Connection, place: str) -> str | None:
    """The revision of the tables, None where the database is empty, or why this database will not do."""
    inspector = inspect(connection)
    if inspector.has_table(VERSION_TABLE):
        found = connection.scalar(select(column("version_num")).select_from(table(VERSION_TABLE)))
        if isinstance(found, str) and found.isdecimal():
            if found > HEAD:
                raise BadInput(
                    f"{place} has schema {found}, made by a newer tuner, and this one knows up to {HEAD}; "
                    "upgrade the tuner"
                )
            return found
        raise BadInput(f"{place} has the unknown schema {found!r}; name a database that this program made")
    others = inspector.get_table_names()
    if others:
        raise BadInput(f"{place} holds tables of something else ({others[0]}, ...); give the tuner one of its own")
    return None


def upgrade(connection: Connection, place: str, target: str = HEAD) -> tuple[str | None, str]:
    """Bring the tables up inside the connection's transaction, one process at a time; what they were and are."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})
    before = read_revision(connection, place)  # another process may have been first
    if before is None or before < target:
        from alembic import command

        config = configure()
        config.attributes["connection"] = connection
        command.upgrade(config, target)
        return before, target
    return before, before


def configure() -> Config:
    """Return Alembic's configuration for the history of this installation."""
    from alembic.config import Config

    packaged = Path(__file__).with_name("migrations")  # inside the package in a wheel, at the root of a checkout
    history = packaged if packaged.is_dir() else Path(__file__).parents[2] / "migrations"
    config = Config()
    config.set_main_option("script_location", str(history).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


T = TypeVar("T")
PATIENCE = 30.0  # seconds
ATTEMPTS = 5
ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}


@dataclass(frozen=True, slots=True)
class Store:
    """A database ready for use."""

    engine: Engine = field(repr=False)  # its own may show what a URL hides in its query
    address: DatabaseAddress

    @contextmanager
    def begin(self) -> Iterator[Session]:
        """One writing transaction: committed when the block ends, undone when it raises."""
        with (
            translate_errors(self.address.shown),
            Session(self.engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """One transaction that only reads, sees one state of the database throughout, and holds nobody up."""
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
    an empty one gets its tables, an older one is refused with what to do.
    """
    store = connect_unprepared(place, patience)
    address = store.address
    try:
        revision = find_revision(store)
        if revision is not None and revision != HEAD and address.path is None:
            raise BadInput(
                f"{address.shown} has the older schema {revision}; run `tuner db upgrade` when nobody tunes with it"
            )
        if revision != HEAD:
            upgrade_store(store)
    except BaseException:
        store.close()
        raise
    if address.path is not None:
        event.listen(store.engine, "do_connect", partial(refuse_gone, address.path))
    return store


def refuse_gone(path: Path, *_: object) -> None:
    """A file that was moved away is waited for: SQLite would make an empty one in its place, and work on that."""
    if not path.exists():
        raise Retry(f"{path} is not there any more; put it back, nothing that was committed is lost")


def find_revision(store: Store) -> str | None:
    place = store.address.shown
    with translate_errors(place), store.engine.execution_options(reading=True).connect() as connection:
        return read_revision(connection, place)


def upgrade_store(store: Store) -> tuple[str | None, str]:
    """Make the tables or bring them up, all or nothing; which schema there was and is."""
    find_revision(store)  # refuses what is not ours before it is touched
    with translate_errors(store.address.shown):
        if store.address.path is not None:
            use_wal(store.engine)
        with store.engine.begin() as connection:
            return upgrade(connection, store.address.shown)


def connect_unprepared(place: str | Path | DatabaseAddress, patience: float = PATIENCE) -> Store:
    """The database as it is, for looking at its schema or upgrading it."""
    address = place if isinstance(place, DatabaseAddress) else parse_address(place)
    if address.own_folder and address.path is not None:
        make_folder(address.path)
    return Store(make_engine(address, patience), address)


def make_engine(address: DatabaseAddress, patience: float) -> Engine:
    settings: dict[str, Any] = {"json_serializer": write_json, "json_deserializer": read_json}
    if address.path is not None:
        engine = create_engine(address.url, connect_args={"timeout": patience}, **settings)
        event.listen(engine, "connect", set_up_sqlite)
        event.listen(engine, "begin", begin_sqlite)
        return engine
    given = address.url.query.get("options", ())
    options = [
        f"-c lock_timeout={int(patience * 1000)} -c timezone=UTC",
        *([given] if isinstance(given, str) else given),
    ]
    connecting = {"connect_timeout": max(2, int(patience)), "options": " ".join(options), **ALIVE}  # the URL's win
    return create_engine(address.url, connect_args=connecting, pool_pre_ping=True, **settings)


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
