"""The audit log under attack, under several writers, across restorations, and after an older program wrote to it."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from tests.commands import refuse, run, succeed
from tuner.store.applications import add_application
from tuner.store.audit_log import (
    FOUND,
    GENESIS,
    LOG,
    ChainCheck,
    add_event,
    chain,
    check_chain,
    compute_hash,
    find_head,
    list_events,
)
from tuner.store.backup import back_up
from tuner.store.connection import Store, open_store
from tuner.store.faults import IntegrityError
from tuner.store.records import EventRecord
from tuner.store.restore import restore
from tuner.store.tables import EVENTS

WRITERS, EACH = 4, 12
Attack = Callable[[Session], object]


def act(store: Store, *messages: str) -> None:
    for message in messages:
        with store.begin() as session:
            add_event(session, EventRecord("shop", 1.5, "ann", "pushed", message, {"of": message, "bound": math.inf}))


def check(store: Store, head: str | None = None) -> ChainCheck:
    with store.read() as session:
        return check_chain(session, head)


def load(session: Session, number: int) -> EventRecord:
    found = EVENTS.find(session, EVENTS.c.number == number)
    assert found is not None
    return found


def edit(session: Session) -> None:
    session.execute(text("UPDATE events SET says = 'nothing happened' WHERE number = 3"))


def edit_detail(session: Session) -> None:
    session.execute(text("""UPDATE events SET detail = '{"of": "c"}' WHERE number = 3"""))


def garble(session: Session) -> None:
    if session.get_bind().dialect.name == "postgresql":  # whose columns refuse what is no JSON
        edit(session)
    else:
        session.execute(text("UPDATE events SET detail = '{', time = 'never' WHERE number = 3"))


def edit_with_hash(session: Session) -> None:
    edit(session)
    session.execute(text("UPDATE events SET hash = :hash WHERE number = 3"), {"hash": compute_hash(load(session, 3))})


def remove(session: Session) -> None:
    session.execute(text("DELETE FROM events WHERE number = 3"))


def remove_first(session: Session) -> None:
    session.execute(text("DELETE FROM events WHERE number = 1"))


def remove_and_close_up(session: Session) -> None:
    remove(session)
    session.execute(text("UPDATE events SET number = 3 WHERE number = 4"))
    session.execute(text("UPDATE events SET number = 4 WHERE number = 5"))


def insert_between(session: Session) -> None:
    for number in (5, 4, 3):
        session.execute(text("UPDATE events SET number = number + 1 WHERE number = :number"), {"number": number})
    forged = chain(EventRecord("shop", 1.5, "bob", "pushed", "it was bob", id=90), load(session, 2))
    session.execute(insert(EVENTS.table).values({**EVENTS.to_columns(forged), "id": 90}))


def swap(session: Session) -> None:
    for before, after in ((3, 9), (4, 3), (9, 4)):
        session.execute(text("UPDATE events SET number = :a WHERE number = :b"), {"a": after, "b": before})


def move_id(session: Session) -> None:
    """The page lists events by id."""
    session.execute(text("UPDATE events SET id = 99 WHERE number = 3"))


ATTACKS: dict[Attack, str] = {
    edit: "row 3 was changed",
    edit_detail: "row 3 was changed",
    garble: "row 3 was changed",
    edit_with_hash: "row 4 does not follow row 3",
    remove: "row 3 is missing: row 4 comes after row 2",
    remove_first: "row 1 is missing: row 2 comes after row 0",
    remove_and_close_up: "row 3 was changed",
    insert_between: "row 4 was changed",
    swap: "row 3 was changed",
    move_id: "row 3 was changed",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_first_wrong_row_is_named(store: Store, attack: Attack) -> None:
    act(store, *"abcde")
    assert check(store).fault is None
    with store.begin() as session:
        attack(session)
    found = check(store).fault
    assert found is not None
    assert found.startswith(ATTACKS[attack])


def test_an_end_that_was_cut_off_shows_against_a_noted_head(store: Store) -> None:
    act(store, *"abc")
    noted = check(store).head
    act(store, *"de")
    assert (check(store, noted).fault, check(store, noted).found) == (None, 3)
    with store.begin() as session:
        session.execute(text("DELETE FROM events WHERE number > 2"))
    assert check(store).fault is None
    act(store, *"xyz")
    cut = check(store, noted)
    assert cut.fault is not None
    assert cut.fault.startswith(f"none of the 5 rows has the hash {noted}: the end was cut off, or rows were replaced")


def test_a_chain_that_was_written_anew_shows_against_a_noted_head(store: Store) -> None:
    act(store, *"abcde")
    noted = check(store).head
    with store.begin() as session:
        edit(session)
        for number in (3, 4, 5):
            row = chain(load(session, number), load(session, number - 1))
            columns = {"hash": row.hash, "previous": row.previous, "number": number}
            session.execute(
                text("UPDATE events SET hash = :hash, previous = :previous WHERE number = :number"), columns
            )
    assert check(store).fault is None
    assert check(store, noted).fault is not None


def test_hashes_are_what_anybody_computes_from_the_rows(tmp_path: Path) -> None:
    """As the guide says it: no code of ours, SQLite's own tool and SHA-256."""
    with closing(open_store(tmp_path / "tuner.db")) as store:
        act(store, "ä", "b")
        before = GENESIS
        names = ("number", "previous", "id", "application", "time", "who", "what", "says", "detail", "hash")
        with store.read() as session:
            rows = session.execute(text(f"SELECT {', '.join(names)} FROM events ORDER BY number")).all()
        for row in rows:
            said = dict(zip(names, row, strict=True))
            stated, said["message"] = said.pop("hash"), said.pop("says")
            said["detail"] = json.loads(said["detail"])
            assert (said["previous"], said["detail"]["bound"]) == (before, "Infinity")
            before = hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
            assert before == stated


def test_an_act_that_is_undone_leaves_no_row(store: Store) -> None:

    def fail(session: Session) -> None:
        add_event(session, EventRecord("shop", 1.0, "ann", "pushed", "never"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.write(fail)
    act(store, "a")
    assert (check(store).rows, check(store).fault) == (1, None)


def test_several_writers_make_one_chain(store: Store, address: str) -> None:
    """Of threads with connections of their own; the rows of a transaction follow each other."""
    begin, failed = threading.Barrier(WRITERS), list[BaseException]()

    def write(name: str) -> None:
        try:
            with closing(open_store(address)) as mine:
                begin.wait()
                for i in range(EACH):
                    with mine.begin() as session:
                        for part in "ab":
                            add_event(session, EventRecord("shop", float(i), name, "pushed", f"{i}{part}"))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(f"writer {i}",)) for i in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    checked = check(store)
    assert (checked.rows, checked.fault, checked.unsealed) == (2 * WRITERS * EACH, None, 0)
    with store.read() as session:
        rows = sorted(list_events(session, limit=None), key=lambda event: event.number or 0)
    assert all((one.who, one.time) == (two.who, two.time) for one, two in zip(rows[::2], rows[1::2], strict=True))


def test_no_two_rows_can_follow_the_same_one(store: Store) -> None:
    """Whatever a program does wrong: the database refuses the fork."""
    act(store, "a", "b")

    def append(session: Session) -> None:
        fork = chain(EventRecord("shop", 1.0, "bob", "pushed", "also b", id=70), load(session, 1))
        session.execute(insert(EVENTS.table).values({**EVENTS.to_columns(fork), "id": 70}))

    with pytest.raises(IntegrityError):
        store.write(append)


def test_rows_of_an_older_program_are_sealed_with_the_next(store: Store) -> None:
    act(store, "a")
    with store.begin() as session:
        older = EventRecord("shop", 2.0, "bob", "pushed", "by an older program")
        EVENTS.add(session, older), EVENTS.add(session, older)
    checked = check(store)
    assert (checked.rows, checked.unsealed, checked.fault) == (1, 2, None)
    act(store, "b")
    checked = check(store)
    assert (checked.rows, checked.unsealed, checked.fault) == (5, 0, None)
    with store.read() as session:
        stated, own, *_ = events = list_events(session)
    assert sorted(event.number or 0 for event in events) == [1, 2, 3, 4, 5]
    assert (own.number, own.message) == (5, "b")
    assert (stated.number, stated.who, stated.what) == (4, LOG, FOUND)
    assert stated.detail == {"ids": [2, 3]}
    assert stated.message.startswith("2 rows (ids 2 to 3) had no place in the log")


def test_row_inserted_by_hand_is_told_of_when_sealed(store: Store) -> None:
    """As attacked: a forged row without a number was sealed with the next act, and looked like any other."""
    act(store, "a")
    forged = (
        "INSERT INTO events (application, time, who, what, says, detail) VALUES ('shop', 1, 'ann', 'pushed', 'x', '{}')"
    )
    with store.begin() as session:
        session.execute(text(forged))
    act(store, "b", "c")
    with store.read() as session:
        assert check_chain(session).fault is None
        (stated,) = list_events(session, what=[FOUND])
    assert stated.detail == {"ids": [2]}
    assert stated.message.startswith("row 2 had no place in the log")


def test_a_restoration_undoes_no_row(store: Store, tmp_path: Path) -> None:
    """The log of the database stays where it goes on from the copy's; so does a hash that was noted since."""
    with store.begin() as session:
        add_application(session, "shop", {}, 1.0)
    act(store, "a")
    back_up(store, tmp_path / "copy.db", 10.0)
    act(store, "b", "c")
    noted = check(store).head
    restore(tmp_path / "copy.db", store.address, "ann", 20.0)
    act(store, "d")
    checked = check(store, noted)
    assert (checked.rows, checked.found, checked.fault) == (6, 3, None)
    with store.read() as session:
        whole = list_events(session, "", what=["restored"])
        assert [(event.detail["epoch"], event.detail["log"]) for event in whole] == [(1, "stays")]


def test_a_copy_of_another_database_brings_its_own_log(store: Store, tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "other.db")) as other:
        act(other, "x", "y")
        back_up(other, tmp_path / "copy.db", 10.0)
    act(store, "a")
    with store.read() as session:
        head = find_head(session)
    assert head is not None
    restore(tmp_path / "copy.db", store.address, "ann", 20.0)
    assert (check(store).rows, check(store).fault) == (3, None)
    with store.read() as session:
        (whole,) = list_events(session, "", what=["restored"])
    assert (whole.detail["log"], whole.detail["replaced"]) == ("replaced", {"number": 1, "hash": head.hash})


def test_a_copy_mends_a_log_that_was_changed(store: Store, tmp_path: Path) -> None:
    act(store, *"abc")
    noted = check(store).head
    back_up(store, tmp_path / "copy.db", 10.0)
    with store.begin() as session:
        edit(session)
    restore(tmp_path / "copy.db", store.address, "ann", 20.0)
    assert (check(store, noted).found, check(store, noted).fault) == (3, None)


def test_commands_show_and_verify_the_log(address: str) -> None:
    with closing(open_store(address)) as store:
        assert succeed("audit", "verify", "--store", address) == "The audit log is empty.\n"
        act(store, "first", "second")
        with store.begin() as session:
            add_event(session, EventRecord("", 3.0, "bob", "logged in", "bob logged in"))
    shown = succeed("audit", "show", "--store", address)
    assert [shown.index(word) for word in ("first", "second", "bob logged in")] == sorted(
        shown.index(word) for word in ("first", "second", "bob logged in")
    )
    (row,) = json.loads(succeed("audit", "show", "--who", "bob", "--json", "--store", address))
    assert (row["number"], row["application"], row["what"]) == (3, "", "logged in")
    (newest,) = json.loads(succeed("audit", "show", "--app", "shop", "--limit", 1, "--json", "--store", address))
    assert newest["message"] == "second"
    assert run("audit", "show", "--since", "1h", "--store", address).stderr == "There are no such rows.\n"
    head = json.loads(succeed("audit", "verify", "--json", "--store", address))["head"]
    assert head == row["hash"]
    said = succeed("audit", "verify", "--head", head, "--store", address)
    assert said.startswith("3 rows are as they were written. The hash is that of row 3")
    assert "must be the 64 hex digits" in refuse("audit", "verify", "--head", "abc", "--store", address)
    with closing(open_store(address)) as store, store.begin() as session:
        session.execute(text("DELETE FROM events WHERE number = 2"))
    wrong = run("audit", "verify", "--store", address)
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert wrong.stderr.endswith(": row 2 is missing: row 3 comes after row 1.\n")
