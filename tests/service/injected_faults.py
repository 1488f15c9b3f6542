"""Faults of a database under a running service, that begin and end: of a SQLite file, and of a PostgreSQL server."""

from __future__ import annotations

import random
import resource
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from tests.store.conftest import run_sql

TABLES = ("decisions", "samples", "applications", "objectives", "tokens", "scalers", "events", "controls", "orders")
ROLE = "svc_fuzz"
Fault = Callable[[random.Random], AbstractContextManager[None]]
SECONDS = (0.05, 0.4)  # that a fault lasts
PAUSE = (0.02, 0.3)  # until the next
PATIENCE = 90.0  # seconds


def list_file_faults(path: Path, pid: int) -> Mapping[str, Fault]:
    """`pid` is the service's, whose limits are lowered: its disk is full, or it has no more descriptors."""

    @contextmanager
    def locked(rng: random.Random) -> Iterator[None]:
        with connect() as raw:
            raw.execute("BEGIN IMMEDIATE")
            yield
            raw.execute("ROLLBACK")

    @contextmanager
    def table_gone(rng: random.Random) -> Iterator[None]:
        name = rng.choice(TABLES)
        with connect() as raw:
            raw.execute(f"ALTER TABLE {name} RENAME TO elsewhere")
            yield
            raw.execute(f"ALTER TABLE elsewhere RENAME TO {name}")

    @contextmanager
    def file_gone(rng: random.Random) -> Iterator[None]:
        away = path.with_name("away.db")
        path.rename(away)
        yield
        away.rename(path)

    @contextmanager
    def disk_full(rng: random.Random) -> Iterator[None]:
        with limited(pid, resource.RLIMIT_FSIZE, 4096):
            yield

    @contextmanager
    def no_descriptors(rng: random.Random) -> Iterator[None]:
        with limited(pid, resource.RLIMIT_NOFILE, 20):
            yield

    @contextmanager
    def connect() -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(path, timeout=60.0, isolation_level=None)) as raw:
            raw.execute("PRAGMA legacy_alter_table = ON")  # what refers to a renamed table refers to it by its old name
            yield raw

    faults: list[Fault] = [locked, table_gone, file_gone, disk_full, no_descriptors]
    return {fault.__name__: fault for fault in faults}


@contextmanager
def limited(pid: int, what: int, least: int) -> Iterator[None]:
    soft, hard = resource.prlimit(pid, what)
    resource.prlimit(pid, what, (least, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, what, (soft, hard))


def make_role(server: str, database: str) -> str:
    """The address of a database for a user of its own, as people set it up."""
    run_sql(server, f"CREATE ROLE {ROLE} LOGIN")
    run_sql(server, f"GRANT ALL ON SCHEMA {find_schema(database)} TO {ROLE}")
    return database.replace("//postgres:@", f"//{ROLE}:@")


def drop_role(server: str) -> None:
    run_sql(server, f"DROP OWNED BY {ROLE}")
    run_sql(server, f"DROP ROLE {ROLE}")


def find_schema(database: str) -> str:
    return database.rpartition("%3D")[2]


def list_server_faults(server: str, database: str) -> Mapping[str, Fault]:
    """Of the database that `make_role` made an address of."""
    schema = find_schema(database)
    drop = f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '{ROLE}'"
    statements = {  # how each begins and ends; connections are dropped after both, so that they meet it
        "dropped": ("SELECT 1", "SELECT 1"),
        "login_refused": (f"ALTER ROLE {ROLE} NOLOGIN", f"ALTER ROLE {ROLE} LOGIN"),
        "read_only": (f"ALTER ROLE {ROLE} SET default_transaction_read_only = on", f"ALTER ROLE {ROLE} RESET ALL"),
        "in_haste": (f"ALTER ROLE {ROLE} SET statement_timeout = 1", f"ALTER ROLE {ROLE} RESET ALL"),
        "no_rights": (
            f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {ROLE}",
            f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {ROLE}",
        ),
    }

    def change(begin: str, end: str) -> Fault:
        @contextmanager
        def fault(rng: random.Random) -> Iterator[None]:
            run_sql(server, begin)
            run_sql(server, drop)
            yield
            run_sql(server, end)
            run_sql(server, drop)

        return fault

    @contextmanager
    def table_gone(rng: random.Random) -> Iterator[None]:
        name = rng.choice(TABLES)
        run_sql(server, f"ALTER TABLE {schema}.{name} RENAME TO elsewhere")
        yield
        run_sql(server, f"ALTER TABLE {schema}.elsewhere RENAME TO {name}")

    return {**{name: change(*both) for name, both in statements.items()}, "table_gone": table_gone}


@contextmanager
def injecting(faults: Mapping[str, Fault], number: int, done: list[str]) -> Iterator[None]:
    """One after another by chance, each for a moment, all of them at least once; `done` gets their names."""
    over, rng = threading.Event(), random.Random(number)

    def run() -> None:
        while not over.is_set() or set(done) < set(faults):
            for name in rng.sample(list(faults), len(faults)):
                with faults[name](rng):
                    time.sleep(rng.uniform(*SECONDS))
                done.append(name)
                time.sleep(rng.uniform(*PAUSE))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()
