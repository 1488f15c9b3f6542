"""A program goes on with a database that is one schema ahead and says that it may; migrations only add."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect, text

from scaler.model.errors import BadInput
from tests.store.conftest import POSTGRES, make_database
from tests.store.release import fill
from tuner.service.app import find_store_fault
from tuner.store.backup import back_up
from tuner.store.connection import Store, connect_unprepared, find_revision, open_store, upgrade, upgrade_store
from tuner.store.decisions import list_decisions
from tuner.store.export import export_store
from tuner.store.maintenance import check_store
from tuner.store.restore import restore
from tuner.store.schema_version import HEAD, OLDEST, VERSION_TABLE

PATIENCE = 60.0  # seconds
NEXT, LATER = f"{int(HEAD) + 1:04}", f"{int(HEAD) + 2:04}"


def move_ahead(store: Store, revision: str, oldest: str | None) -> None:
    """As a newer program leaves the database: with a table and a column more."""
    with store.begin() as session:
        session.execute(text("CREATE TABLE news (id INTEGER PRIMARY KEY)"))
        session.execute(text("ALTER TABLE decisions ADD COLUMN mood TEXT"))
        row = {"revision": revision, "oldest": oldest}
        session.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = :revision, oldest = :oldest"), row)


def test_a_database_one_schema_ahead_is_used_as_it_is(store: Store, address: str, tmp_path: Path) -> None:
    move_ahead(store, NEXT, HEAD)
    with closing(open_store(address)) as opened:
        fill(opened, HEAD)
        with opened.read() as session:
            assert len(list_decisions(session, "clicks")) > 1
        assert check_store(opened) == []
        assert find_store_fault(opened, 1.0) == ""
        assert upgrade_store(opened) == (NEXT, NEXT)
        assert find_revision(opened) == NEXT
        with opened.begin() as session:
            session.execute(text("DROP TABLE samples"))
        assert "add table samples" in check_store(opened)[0]


@pytest.mark.parametrize(("revision", "oldest"), [(LATER, HEAD), (NEXT, NEXT), (NEXT, None)])
def test_a_newer_database_that_does_not_say_so_is_refused(
    store: Store, address: str, revision: str, oldest: str | None
) -> None:
    move_ahead(store, revision, oldest)
    with pytest.raises(BadInput, match=f"has schema {revision}, made by a newer tuner, .* upgrade the tuner"):
        open_store(address)
    assert find_store_fault(store, 1.0) == "schema"


def test_what_would_lose_a_newer_programs_rows_is_refused(store: Store, address: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    back_up(store, copy, 1.0)
    move_ahead(store, NEXT, HEAD)
    refused = pytest.raises(BadInput, match=f"has schema {NEXT}, and this program knows {HEAD}, .* would lose the rest")
    with refused:
        restore(copy, store.address, "a test", 2.0)
    with refused:
        export_store(store, tmp_path / "all.jsonl")
    if store.address.path is None:
        with refused:
            back_up(store, tmp_path / "second.db", 3.0)
        return
    back_up(store, tmp_path / "second.db", 3.0)  # of the whole file
    with closing(connect_unprepared(tmp_path / "second.db")) as second:
        assert "news" in inspect(second.engine).get_table_names()
    with pytest.raises(BadInput, match=r"second\.db has schema .* so that a restoration would lose"):
        restore(tmp_path / "second.db", store.address, "a test", 4.0)


def test_a_schema_says_whose_programs_may_use_it(address: str) -> None:
    with closing(connect_unprepared(address)) as store:
        with store.engine.begin() as connection:
            upgrade(connection, "the new database", OLDEST)
            before = describe_tables(connection)
            known = {name: set(columns) for name, (columns, _) in before.items()}
        with store.engine.begin() as connection:
            upgrade(connection, "the database", HEAD)
            after = describe_tables(connection, known)
            stated = connection.execute(text(f"SELECT version_num, oldest FROM {VERSION_TABLE}")).one()
    assert tuple(stated) == (HEAD, OLDEST)
    assert int(HEAD) - int(OLDEST) in (0, 1)
    for name, (columns, constraints) in before.items():
        assert columns.items() <= after[name][0].items()
        assert after[name][1] == constraints
        added = [after[name][0][column] for column in after[name][0].keys() - columns]
        assert all(nullable or default is not None for _, nullable, default in added)


def describe_tables(
    connection: Any, known: dict[str, set[str]] | None = None
) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """Columns of each table, and what refuses rows; no index over columns that are null in older programs' rows."""
    found, inspector = {}, inspect(connection)
    for name in inspector.get_table_names():
        columns = {
            column["name"]: (str(column["type"]), column["nullable"], column["default"])
            for column in inspector.get_columns(name)
        }
        written = columns.keys() if known is None or name not in known else known[name]
        indexes = [one for one in inspector.get_indexes(name) if one["unique"]]
        unique = [str(index) for index in indexes if written & set(index["column_names"])]
        refusing = (inspector.get_unique_constraints, inspector.get_foreign_keys, inspector.get_check_constraints)
        constraints = [str(one) for find in refusing for one in find(name)]
        found[name] = (columns, sorted([*unique, *constraints, str(inspector.get_pk_constraint(name))]))
    return found


@POSTGRES
@pytest.mark.slow
def test_an_upgrade_that_waits_for_a_reader_lets_others_read(postgres: str) -> None:
    """A page that takes long to read holds up the upgrade, which is not to hold up everybody behind it."""
    address = make_database(postgres)
    with closing(connect_unprepared(address)) as made, made.engine.begin() as connection:
        upgrade(connection, "the server", "0009")
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'")
    read = text("SELECT count(*) FROM events")
    with closing(connect_unprepared(address)) as store, ThreadPoolExecutor() as pool:
        with store.engine.connect() as reader, store.engine.connect() as other:
            assert reader.scalar(read) == 0
            upgrading = pool.submit(upgrade_store, store)
            until = time.monotonic() + PATIENCE
            while not other.scalar(waiting):
                assert time.monotonic() < until
                time.sleep(0.01)
            assert other.scalar(read) == 0  # behind the upgrade, which gives up meanwhile
            other.rollback()
            assert not upgrading.done()
        assert upgrading.result(PATIENCE) == ("0009", HEAD)
