"""Copies of a database in use, and what is true after one was brought back: on SQLite and PostgreSQL, and across."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from scaler.model.errors import BadInput
from scaler.model.task import Weights
from tests.commands import run_or_raise
from tests.store.conftest import POSTGRES
from tests.store.release import FOLDER, fill
from tests.store.test_db_command import everything
from tuner.service.access.token import make_token
from tuner.store.address import parse_address
from tuner.store.applications import add_application
from tuner.store.audit_log import list_events
from tuner.store.backup import back_up
from tuner.store.connection import Store, open_store
from tuner.store.decisions import list_decisions, save_decisions
from tuner.store.epochs import find_epoch, find_floors
from tuner.store.faults import Unavailable
from tuner.store.maintenance import check_store
from tuner.store.objectives import add_objective
from tuner.store.orders import load_orders, save_orders
from tuner.store.records import DecisionRecord, ObjectiveRecord, TuningRun
from tuner.store.restore import restore
from tuner.store.runs import LeaseLost, claim_run, renew_run, start_run
from tuner.store.schema_version import HEAD
from tuner.store.tokens import list_tokens, revoke_token

COPIED, LATER = 1_000.0, 1_060.0
WEIGHTS = Weights(0.5, 0.25, 0.25)


def propose(session: Session, app: str = "shop") -> int:
    return add_objective(session, ObjectiveRecord(app, WEIGHTS, {"parse": 0.1}, 1.0)).version or 0


def decide(session: Session, time: float) -> None:
    save_decisions(session, [DecisionRecord("shop", "parse", time, "HELD", "r")])


def furnish(store: Store) -> None:
    """An application with versions 1 and 2, orders 1, a decision and a token."""
    with store.begin() as session:
        add_application(session, "shop", {}, 1.0)
        assert [propose(session), propose(session)] == [1, 2]
        assert save_orders(session, "shop", {"objective": 1}, 1.0).revision == 1
        make_token(session, "agents", ("report",), "a test", 1.0)
        decide(session, 60.0)


def copy_and_go_on(store: Store, path: Path) -> None:
    """After the copy: versions 3 and 4, orders 2, another decision and application, a revoked token."""
    back_up(store, path, COPIED)
    with store.begin() as session:
        assert [propose(session), propose(session)] == [3, 4]
        assert save_orders(session, "shop", {"objective": 4}, 2.0).revision == 2
        add_application(session, "till", {}, 2.0)
        assert propose(session, "till") == 1
        revoke_token(session, "agents", 2.0)
        decide(session, 120.0)


def test_no_version_is_given_twice_after_a_restoration(store: Store, address: str, tmp_path: Path) -> None:
    furnish(store)
    copy = tmp_path / "copy" / "monday.db"
    copy.parent.mkdir()
    copy_and_go_on(store, copy)
    done = restore(copy, store.address, "ann", LATER)
    assert (done.continued, done.revoked, done.aside) == (True, 1, None)
    with store.begin() as session:  # of before, which goes on
        assert [one.time for one in list_decisions(session, "shop")] == [60.0]
        orders = load_orders(session, "shop")
        assert orders is not None
        assert (orders.revision, orders.document, orders.issued) == (3, {"objective": 1}, 1.0)
        assert [propose(session), propose(session, "till"), propose(session, "new")] == [5, 2, 1]
        assert save_orders(session, "till", {}, 3.0).revision == 1
        assert save_orders(session, "shop", {"objective": 5}, 3.0).revision == 4
        assert [token.revoked for token in list_tokens(session)] == [2.0]
        (event,) = list_events(session, "shop", what=["restored"])
        assert (event.application, event.who, event.detail) == ("shop", "ann", {"epoch": 1})
        epoch = find_epoch(session)
        assert epoch is not None
        assert (epoch.number, epoch.copied, epoch.source) == (1, COPIED, str(copy))
    again = restore(copy, store.address, "ann", LATER + 1.0)
    assert (again.epoch.number, again.continued) == (2, True)
    with store.begin() as session:
        assert propose(session) == 6
    assert check_store(store) == []


def test_a_copy_that_is_taken_meanwhile_is_whole(store: Store, tmp_path: Path) -> None:
    """Every transaction of others is in it or not."""
    furnish(store)
    over = threading.Event()

    def write() -> None:
        number = 2.0
        while not over.is_set():
            with store.begin() as session:
                decide(session, 60.0 * number), decide(session, 60.0 * number + 30.0)
            number += 1.0

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for i in range(3):
            back_up(store, tmp_path / f"{i}.db", COPIED)
    finally:
        over.set()
        thread.join()
    for i in range(3):
        assert (tmp_path / f"{i}.db").stat().st_mode & 0o077 == 0
        with closing(open_store(tmp_path / f"{i}.db")) as copy, copy.read() as session:
            assert len(list_decisions(session, "shop", limit=None)) % 2 == 1
    assert not [path for path in tmp_path.iterdir() if path.name.endswith((".part", "-journal"))]


def test_every_row_comes_back(store: Store, tmp_path: Path) -> None:
    fill(store, HEAD)
    back_up(store, tmp_path / "copy.db", COPIED)
    with store.read() as session:
        wanted = everything(session)
    restore(tmp_path / "copy.db", store.address, "ann", LATER)
    with store.read() as session:
        found = everything(session)
    changed = {name for name in wanted if wanted[name] != found[name]}
    assert changed == {"tuning_runs", "orders", "watches", "events", "epochs", "write_checks"}


@POSTGRES
def test_a_copy_of_sqlite_is_brought_into_postgresql_and_back(server_store: Store, tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "tuner.db")) as store:
        fill(store, HEAD)
        furnish(store)
        back_up(store, tmp_path / "copy.db", COPIED)
        done = restore(tmp_path / "copy.db", server_store.address, "ann", LATER)
        assert not done.continued  # what was given since is not known there
        with server_store.begin() as session:
            assert propose(session) == 2 + 1_000 + 60 + 1
            add_application(session, "after", {}, 3.0)  # its id comes after those of the copy
        back_up(server_store, tmp_path / "back.db", COPIED)
        restore(tmp_path / "back.db", store.address, "ann", LATER)
        with store.read() as session:
            assert find_floors(session, "shop").version >= 1_063
        assert check_store(store) == check_store(server_store) == []


def test_a_log_that_a_killed_process_left_does_not_damage_the_restored_file(tmp_path: Path) -> None:
    """As attacked: the copy in the file's place, with the log of before beside it, was malformed."""
    path, copy = tmp_path / "tuner.db", tmp_path / "copy.db"
    with closing(open_store(path)) as store:
        furnish(store)
        back_up(store, copy, COPIED)
        with store.begin() as session:
            for number in range(3_000):
                decide(session, 60.0 * number)
        for ending in ("", "-wal", "-shm"):  # as a process that is killed leaves them
            shutil.copy(f"{path}{ending}", tmp_path / f"killed.db{ending}")
    killed = tmp_path / "killed.db"
    shutil.copy(copy, killed)  # which is what people do
    done = restore(killed, parse_address(killed), "ann", LATER)
    assert done.counts["decisions"] == 1
    with closing(open_store(killed)) as store:
        assert check_store(store) == []
        with store.begin() as session:
            assert len(list_decisions(session, "shop")) == 1
            assert propose(session) > 2


def test_a_damaged_file_is_put_aside(tmp_path: Path) -> None:
    path, copy = tmp_path / "tuner.db", tmp_path / "copy.db"
    with closing(open_store(path)) as store:
        furnish(store)
        copy_and_go_on(store, copy)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 100_000)
    done = restore(copy, parse_address(path), "ann", LATER)
    assert done.aside is not None
    assert done.aside.exists()
    assert not done.continued
    with closing(open_store(path)) as store:
        assert check_store(store) == []
        with store.begin() as session:
            assert propose(session) == 2 + 1_000 + 60 + 1
            assert propose(session, "till") == 1_061  # the copy does not know it, agents may


def test_what_is_no_copy_changes_nothing(tmp_path: Path) -> None:
    path, notes, empty = tmp_path / "tuner.db", tmp_path / "notes.csv", tmp_path / "empty.db"
    with closing(open_store(path)) as store:
        furnish(store)
    notes.write_text("time,rate\n" * 100)
    empty.touch()
    before = path.read_bytes()
    for source, sentence in (
        (notes, "is no SQLite database"), (empty, "is empty"), (tmp_path / "none.db", "is no file"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=sentence):
            restore(source, parse_address(path), "ann", LATER)
    with pytest.raises(BadInput, match="is no SQLite database"):  # what is somebody else's is not put aside
        restore(path, parse_address(notes), "ann", LATER)
    assert (path.read_bytes(), notes.read_text()) == (before, "time,rate\n" * 100)
    assert sorted(part.name for part in tmp_path.iterdir()) == ["empty.db", "notes.csv", "tuner.db"]


def test_a_copy_of_an_older_schema_comes_up(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db")) as file:
        file.executescript((FOLDER / "0003.sql").read_text())
    with closing(open_store(tmp_path / "tuner.db")) as store:
        restore(tmp_path / "old.db", store.address, "ann", LATER)
        assert check_store(store) == []
        with store.read() as session:
            assert len(list_decisions(session, "clicks")) == 2


def test_a_lease_of_before_does_not_hold_after(store: Store, tmp_path: Path) -> None:
    with store.begin() as session:
        version = add_application(session, "shop", {}, 1.0)
        blank = TuningRun(version.id or 0, "gp", 1, 60, 1.0)
        before = start_run(session, blank, "me", 1.0)
    back_up(store, tmp_path / "copy.db", COPIED)
    with store.begin() as session:
        since = claim_run(session, before.id or 0, "me", 100.0)
    restore(tmp_path / "copy.db", store.address, "ann", LATER)
    with store.begin() as session:
        again = claim_run(session, before.id or 0, "me", 100.0)
    assert since is not None
    assert again is not None
    for run in (before, since):
        with pytest.raises(LeaseLost), store.begin() as session:
            renew_run(session, run, 101.0)


def test_a_file_that_was_swapped_takes_no_writes_until_it_is_restored(tmp_path: Path) -> None:
    """As attacked: `mv copy tuner.db` under a running service."""
    path, copy = tmp_path / "tuner.db", tmp_path / "copy.db"
    with closing(open_store(path)) as store:
        furnish(store)
        copy_and_go_on(store, copy)
        shutil.copy(copy, tmp_path / "swapped.db")
        (tmp_path / "swapped.db").replace(path)
        for _ in range(2):
            with pytest.raises(Unavailable, match="replaced by another file"), store.begin() as session:
                decide(session, 180.0)
            with pytest.raises(Unavailable, match="replaced by another file"), store.read() as session:
                list_decisions(session, "shop")
        restore(copy, store.address, "ann", LATER)
        with store.begin() as session:  # the same open database goes on
            decide(session, 180.0)
            assert [one.time for one in list_decisions(session, "shop")] == [180.0, 60.0]
            assert propose(session) > 4
        assert check_store(store) == []


def test_a_file_that_is_swapped_during_a_transaction_confirms_nothing(tmp_path: Path) -> None:
    path, other = tmp_path / "tuner.db", tmp_path / "other.db"
    open_store(other).close()

    def work(session: Session) -> None:
        decide(session, 60.0)
        other.replace(path)

    with closing(open_store(path)) as store, pytest.raises(Unavailable, match="replaced by another file"):
        store.write(work)


def test_commands_tell_what_they_did(store: Store, address: str, tmp_path: Path) -> None:
    furnish(store)
    copy, env = tmp_path / "copy.db", {"TUNER_STORE": address}
    assert run_or_raise("db", "backup", copy, env=env).output == (
        f"{copy} has 1 application, 1 application version, 2 objectives, 1 decision, 1 token, 1 order and 2 events.\n"
    )
    with pytest.raises(BadInput, match="say --yes"):
        run_or_raise("db", "restore", copy, env=env)
    told = run_or_raise("db", "restore", copy, "--yes", env=env).output
    assert "This begins epoch 1." in told
    assert "Versions go on after those given since; 0 tokens stay revoked." in told
    assert "write check" in run_or_raise("db", "check", env=env).output
