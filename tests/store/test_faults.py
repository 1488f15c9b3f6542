"""What goes wrong with databases: processes that die or fight, locks, disks, servers, and files that are none."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from scaler.model.errors import BadInput, Retry
from scaler.model.sample import Sample
from tests.store.conftest import POSTGRES
from tuner.store.applications import add_application, load_application
from tuner.store.connection import Store, open_store
from tuner.store.faults import TransientFault
from tuner.store.maintenance import check_store
from tuner.store.records import TuningRun
from tuner.store.runs import (
    LeaseLost,
    claim_abandoned,
    claim_run,
    is_owner_dead,
    load_run,
    name_owner,
    renew_run,
    start_run,
)
from tuner.store.samples import count_samples, save_samples
from tuner.store.trials import load_history

ROOT = Path(__file__).parents[2]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `tests.store.processes` with these arguments; what still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.store.processes", *map(str, arguments)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        started.append(subprocess.Popen(command, cwd=ROOT, **pipes))  # type: ignore[call-overload]
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def expect(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"{line}\n"


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def make_runs(store: Store, count: int, now: float = 0.0) -> list[int]:
    with store.begin() as session:
        version = add_application(session, "clicks", {}, now)
        blank = TuningRun(version.id or 0, "gp", 1, 60, now)
        return [start_run(session, blank, "gone", now).id or 0 for _ in range(count)]


def add_sample(session: Session, number: int = 0) -> int:
    return save_samples(session, [Sample("clicks", "parse", 60.0 * number, 60.0 * number + 60.0, "records")])


def test_every_abandoned_run_is_taken_over_exactly_once(store: Store, address: str, start: Start) -> None:
    runs = make_runs(store, 30, now=0.0)
    rivals = [start("claim", address, f"rival {i}", 100.0, *runs) for i in range(3)]
    for rival in rivals:
        expect(rival, "ready")
    for rival in rivals:
        go(rival)
    taken = [int(line) for rival in rivals for line in rival.communicate()[0].split()]
    assert sorted(taken) == runs
    with store.read() as session:
        assert [load_run(session, run_id).fence for run_id in runs] == [2] * 30


def test_a_holder_that_slept_finds_its_run_taken_and_stops(store: Store) -> None:
    (run_id,) = make_runs(store, 1, now=0.0)
    with store.begin() as session:
        slept = load_run(session, run_id)
        assert claim_abandoned(session, "clicks", "next", now=59.0) is None
        taken = claim_abandoned(session, "clicks", "next", now=61.0)
        assert taken is not None
    with pytest.raises(LeaseLost, match=f"run {run_id} was taken over"), store.begin() as session:
        renew_run(session, slept, now=62.0)


def test_killing_a_writer_loses_no_committed_trial_and_leaves_no_half_one(
    store: Store, address: str, start: Start
) -> None:
    (run_id,) = make_runs(store, 1)
    told: list[int] = []
    for life, now in enumerate((100.0, 200.0, 300.0)):
        writer = start("write", address, run_id, f"life {life}", now)
        assert writer.stdout is not None
        told += [int(writer.stdout.readline()) for _ in range(5 + 3 * life)]
        writer.kill()
        told += map(int, writer.stdout.read().split())
    with store.read() as session:
        found = load_history(session, run_id)
    assert [t.number for t in found] == list(range(len(found)))
    assert set(told) <= {t.number for t in found}
    assert len(found) - len(told) <= 3  # one a life may have been committed and not told of
    assert all(t.parameters == {"x": [0.5] * 40} and t.price == t.number for t in found)
    assert check_store(store) == []
    with store.begin() as session:
        assert claim_run(session, run_id, "after", now=359.0) is None
        assert claim_run(session, run_id, "after", now=361.0) is not None


def test_a_process_of_this_machine_is_known_to_be_dead_before_its_lease_is_over(
    store: Store, address: str, start: Start
) -> None:
    (run_id,) = make_runs(store, 1)
    writer = start("write", address, run_id, "itself", 100.0)
    expect(writer, "0")
    with store.begin() as session:
        assert claim_abandoned(session, "clicks", "next", now=101.0) is None
    writer.kill()
    writer.communicate()
    with store.begin() as session:
        assert claim_abandoned(session, "clicks", "next", now=102.0) is not None
        assert claim_abandoned(session, "clicks", "another", now=103.0) is None


def test_only_a_process_of_this_machine_can_be_known_to_be_dead() -> None:
    mine = name_owner()
    machine, _, chance = mine.split(":")
    assert not is_owner_dead(mine)
    assert not is_owner_dead(f"elsewhere:{2**22 + 1}:{chance}")  # beyond the highest process id
    assert is_owner_dead(f"{machine}:{2**22 + 1}:{chance}")
    assert not is_owner_dead("a name of somebody's own")


def test_processes_that_find_no_database_make_it_once(address: str, start: Start) -> None:
    makers = [start("make", address) for _ in range(3)]
    for maker in makers:
        expect(maker, "ready")
    for maker in makers:
        go(maker)
    for maker in makers:
        assert maker.communicate()[0] == "open\n"
    store = open_store(address)
    assert check_store(store) == []
    store.close()


def test_a_lock_is_waited_for_and_then_refused_in_a_sentence(store: Store, address: str, start: Start) -> None:
    holder = start("hold", address)
    expect(holder, "held")
    impatient = open_store(address, patience=0.2)
    with pytest.raises(Retry, match="is locked by another process that has not let go in time"):
        impatient.write(add_sample)
    impatient.close()
    waiting = threading.Thread(target=store.write, args=(add_sample,))
    waiting.start()
    go(holder)
    waiting.join()
    with store.read() as session:
        assert count_samples(session, "clicks") == {"parse": 1}


def test_reading_waits_for_no_writer(store: Store) -> None:
    with store.begin() as writing, store.read() as session:
        add_sample(writing)
        assert count_samples(session, "clicks") == {}
    with store.read() as session:
        assert count_samples(session, "clicks") == {"parse": 1}


def test_a_full_disk_is_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "tuner.db")
    store.write(add_sample)

    @event.listens_for(store.engine, "begin")
    def leave_no_room(connection: object) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")  # type: ignore[attr-defined]  # SQLite keeps what is used

    with pytest.raises(Retry, match="on a disk that is full"):
        store.write(lambda session: [add_sample(session, i) for i in range(5000)])
    with store.read() as session:
        assert count_samples(session, "clicks") == {"parse": 1}
    store.close()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"time,rate\n1,2\n" * 500, "is no SQLite database"),
        (b"SQLite format 3\0" + b"\0" * 4080, "is no SQLite database"),
    ],
)
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "rates.csv"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=sentence):
        open_store(path)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE places (id INTEGER)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(BadInput, match=r"holds tables of something else \(places, ...\)"):
        open_store(path)
    assert path.read_bytes() == before


def test_a_damaged_database_is_found_out(tmp_path: Path) -> None:
    path = tmp_path / "tuner.db"
    store = open_store(path)
    store.write(lambda session: [add_sample(session, i) for i in range(2000)])
    store.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size // 4))
    store = open_store(path)
    assert any("is damaged" in sentence for sentence in check_store(store))
    store.close()


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(Retry, match="does not answer") as refused:
        open_store(f"postgresql://me:hunter2@/tuner?host={tmp_path}", patience=2.0)
    assert "hunter2" not in str(refused.value)


@POSTGRES
class TestServer:
    """What only a server does."""

    def test_a_database_that_is_not_there(self, postgres: str) -> None:
        with pytest.raises(BadInput, match="is not there; make it"):
            open_store(postgres.replace("/postgres?", "/nowhere?"))

    def test_a_user_that_is_not_there(self, postgres: str) -> None:
        with pytest.raises(BadInput, match="does not let this user in"):
            open_store(postgres.replace("//postgres:@", "//nobody:@"))

    def test_a_connection_lost_in_the_middle_costs_one_more_try(self, server_store: Store) -> None:
        tries: list[int] = []

        def work(session: Session) -> int:
            tries.append(add_sample(session, len(tries)))
            if len(tries) == 1:
                session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
            return len(tries)

        assert server_store.write(work) == 2
        with server_store.read() as session:
            assert count_samples(session, "clicks") == {"parse": 1}

    def test_a_connection_lost_every_time_is_a_sentence(self, server_store: Store) -> None:
        with pytest.raises(Retry, match="does not answer; see that it runs"):
            server_store.write(lambda s: s.execute(text("SELECT pg_terminate_backend(pg_backend_pid())")), attempts=2)

    @pytest.mark.parametrize(
        ("code", "kind", "sentence"),
        [
            ("53100", Retry, "on a disk that is full"),
            ("53300", Retry, "no more connections"),
            ("40001", TransientFault, "another process's change"),
            ("42501", BadInput, "rights"),
            ("25006", BadInput, "takes no writes"),
        ],
    )
    def test_what_the_server_says(self, server_store: Store, code: str, kind: type[Exception], sentence: str) -> None:
        fail = text(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$")
        with pytest.raises(kind, match=sentence), server_store.begin() as session:
            session.execute(fail)


def test_a_file_that_was_moved_away_is_waited_for_and_not_made_anew(tmp_path: Path) -> None:
    path, aside = tmp_path / "tuner.db", tmp_path / "aside.db"
    with closing(open_store(path)) as store:
        with store.begin() as session:
            add_application(session, "shop", {}, 1.0)
        store.engine.dispose()  # so that the next one connects
        path.rename(aside)
        with pytest.raises(Retry, match="not there any more; put it back"), store.read() as session:
            load_application(session, "shop")
        assert not path.exists()
        aside.rename(path)
        with store.read() as session:
            assert load_application(session, "shop").number == 1
