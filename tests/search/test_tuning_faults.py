"""What goes wrong around a search: rivals, locks, disks, servers, signals; it goes on, or stops in a sentence."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from scaler.model.errors import BadInput, Retry
from tests.search.processes import ROOT, Tuners, open_tuners
from tests.search.runs import (
    APP,
    Stop,
    add,
    all_figures,
    read_objectives,
    read_run,
    read_runs,
    recommended,
    run_anew,
    stop_after,
)
from tests.store.conftest import POSTGRES
from tuner.cli.tune_command import describe_interrupted
from tuner.search.search_plan import TuneOptions
from tuner.search.tuning_run import TuningResult, resume_tuning, start_tuning, tune
from tuner.store.connection import Store, open_store
from tuner.store.records import TuningRun
from tuner.store.runs import LEASE_S, LeaseLost, claim_run, renew_lease

SLOTS, BUDGET = 48_000, 8
ENDED = (0, 1)  # exit codes: with a recommendation, and without one
OVER = "was taken over by another process, or has ended; this one stops"


@pytest.fixture(scope="module")
def tuners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tuners]:
    with open_tuners(tmp_path_factory.mktemp("log") / "said") as opened:
        yield opened


@pytest.fixture(scope="module")
def whole(tuners: Tuners, tmp_path_factory: pytest.TempPathFactory) -> TuningResult:
    """What nobody disturbed, of a process like those that are."""
    path = tmp_path_factory.mktemp("whole") / "tuner.db"
    with closing(open_store(path)) as store:
        add(store, slots=SLOTS)
        assert tuners.run(*begin(path)) in ENDED, tuners.said()
        return TuningResult(read_runs(store)[0], tuple(read_run(store, 1)), next(iter(read_objectives(store)), None))


def begin(address: object, seed: int = 0) -> list[object]:
    return ["tune", APP, "--store", address, "--budget", BUDGET, "--cold", "--seed", seed]


def resume(address: object) -> list[object]:
    return ["tune", APP, "--store", address, "--resume"]


def wait_until(there: Callable[[], bool], tuners: Tuners, child: int) -> None:
    while not there():
        assert tuners.runs(child) or there(), tuners.said()
        time.sleep(0.002)


def wait_for(store: Store, count: int, tuners: Tuners, child: int, run_id: int = 1) -> None:
    """Until a run has so many trials."""
    wait_until(lambda: len(read_run(store, run_id)) >= count, tuners, child)


def check_same(store: Store, whole: TuningResult, run_id: int = 1) -> None:
    assert all_figures(read_run(store, run_id)) == all_figures(whole.trials)
    proposed = [one for one in read_objectives(store) if one.evidence["run"] == run_id]
    assert [recommended(one) for one in proposed] == ([recommended(whole.objective)] if whole.objective else [])


@pytest.mark.slow
class TestRivals:
    def test_two_searches_at_the_same_time_and_one_that_is_killed(
        self, store: Store, address: str, tuners: Tuners, whole: TuningResult
    ) -> None:
        add(store, slots=SLOTS)
        first = tuners.start(*begin(address))
        wait_for(store, 3, tuners, first)
        send_to_sleep(first, address)  # asleep, but alive: else it might end before the other has begun
        second = tuners.start(*begin(address, seed=5))
        wait_for(store, 1, tuners, second, 2)
        send_to_sleep(second, address)
        assert tuners.run(*resume(address)) == 2
        assert f"'{APP}' has no interrupted tuning run" in tuners.said()
        assert tuners.kill(first) == -signal.SIGKILL
        third = tuners.start(*resume(address))
        os.kill(second, signal.SIGCONT)
        for child in (third, second):  # at the same time, each on a run of its own
            assert tuners.wait(child) in ENDED, tuners.said()
        check_same(store, whole)
        other, mine = read_runs(store)
        assert (other.state, other.fence, other.seed, mine.fence) == ("done", 1, 5, 2)
        trials = read_run(store, 2)
        assert [trial.number for trial in trials] == list(range(len(trials)))
        assert len([trial for trial in trials if trial.detail["purpose"] == "search"]) == BUDGET
        assert {one.evidence["run"] for one in read_objectives(store)} <= {1, 2}

    def test_one_that_slept_while_another_took_its_run_stops_and_writes_no_more(
        self, store: Store, address: str, tuners: Tuners, whole: TuningResult
    ) -> None:
        add(store, slots=SLOTS)
        sleeper = tuners.start(*begin(address))
        wait_for(store, 3, tuners, sleeper)
        send_to_sleep(sleeper, address)
        there = read_run(store, 1)
        taken = resume_tuning(store, APP, clock=lambda: time.time() + LEASE_S + 1.0)
        os.kill(sleeper, signal.SIGCONT)
        assert tuners.wait(sleeper) == 1
        assert f"tuning run 1 {OVER}" in tuners.said()
        assert read_run(store, 1) == there
        held = read_runs(store)[0]
        assert (held.owner, held.fence, held.state) == (taken.owner, 2, "running")
        ended = tune(store, APP, taken)
        assert ended.run.state == "done"
        assert [trial.number for trial in ended.trials] == list(range(len(whole.trials)))
        assert all_figures(ended.trials[: len(there)]) == all_figures(whole.trials[: len(there)])

    def test_one_that_slept_until_another_had_ended_its_run(
        self, store: Store, address: str, tuners: Tuners, whole: TuningResult
    ) -> None:
        add(store, slots=SLOTS)
        sleeper = tuners.start(*begin(address))
        wait_for(store, 3, tuners, sleeper)
        send_to_sleep(sleeper, address)
        with store.begin() as session:  # as where its lease is over
            session.execute(text("UPDATE tuning_runs SET lease_until = 0"))
        assert tuners.run(*resume(address)) in ENDED, tuners.said()
        check_same(store, whole)
        os.kill(sleeper, signal.SIGCONT)
        assert tuners.wait(sleeper) == 1
        check_same(store, whole)


def send_to_sleep(child: int, address: str) -> None:
    """Stop a process at a moment when it holds no lock."""
    with closing(open_store(address, patience=0.1)) as impatient:
        while True:
            os.kill(child, signal.SIGSTOP)
            with suppress(Retry), impatient.begin() as session:
                session.execute(text("UPDATE tuning_runs SET seed = seed"))
                return
            os.kill(child, signal.SIGCONT)
            time.sleep(0.003)


def check_for_ever(check: Callable[[], None]) -> None:
    while True:
        check()
        time.sleep(0.005)


class TestLease:
    """The thread that renews it while an evaluation takes long."""

    @pytest.fixture
    def held(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> TuningRun:
        monkeypatch.setattr("tuner.store.runs.LEASE_S", 0.04)  # between two renewals, four times
        add(store, slots=300)
        return start_tuning(store, APP, {}, TuneOptions(), clock=lambda: 1_000.0)

    def test_it_is_renewed_again_and_again(self, store: Store, held: TuningRun) -> None:
        now = [1_000.0]
        with renew_lease(store, held, lambda: now[0]) as check:
            for moment in (1_100.0, 1_200.0):
                now[0] = moment
                while (heartbeat := read_runs(store)[0].heartbeat or 0.0) < moment:
                    time.sleep(0.005)
                assert heartbeat == moment
            check()

    def test_who_lost_it_is_told(self, store: Store, held: TuningRun) -> None:
        with store.begin() as session:
            assert claim_run(session, held.id or 0, "another", 2_000.0) is not None
        with pytest.raises(LeaseLost, match=OVER), renew_lease(store, held, lambda: 2_001.0) as check:
            check_for_ever(check)
        assert read_runs(store)[0].owner == "another"


def lock(session: Session) -> None:
    """Keep all others from writing, but not from reading; SQLite has been locked by beginning."""
    on_server = session.get_bind().dialect.name == "postgresql"
    session.execute(text("LOCK TABLE trials IN EXCLUSIVE MODE" if on_server else "SELECT 1"))


class TestLocks:
    @pytest.mark.slow
    def test_a_lock_is_waited_for(self, store: Store, address: str, tuners: Tuners, whole: TuningResult) -> None:
        add(store, slots=SLOTS)
        child = tuners.start(*begin(address))
        wait_for(store, 2, tuners, child)
        with store.begin() as session:
            lock(session)
            there = len(read_run(store, 1))
            time.sleep(0.5)
            assert len(read_run(store, 1)) == there
            assert tuners.runs(child)
        assert tuners.wait(child) in ENDED, tuners.said()
        check_same(store, whole)

    def test_one_that_is_held_for_too_long_stops_the_search_which_can_be_resumed(
        self, store: Store, address: str, tmp_path: Path
    ) -> None:
        undisturbed = run_anew(tmp_path / "whole.db", engine="random", budget=5)
        add(store)
        with closing(open_store(address, patience=0.2)) as impatient:
            held = start_tuning(impatient, APP, {}, TuneOptions(engine="random", budget=5))
            with pytest.raises(Stop):
                tune(impatient, APP, held, stop_after(2))
            held = resume_tuning(impatient, APP)
            with store.begin() as session:
                lock(session)
                with pytest.raises(Retry, match="is locked by another process that has not let go in time"):
                    tune(impatient, APP, held)
            if read_runs(store)[0].owner is not None:  # not even that could be written
                with pytest.raises(BadInput, match="has no interrupted tuning run"):
                    resume_tuning(impatient, APP)
            held = resume_tuning(impatient, APP, clock=lambda: time.time() + LEASE_S + 1.0)
            ended = tune(impatient, APP, held)
        assert all_figures(ended.trials) == all_figures(undisturbed.trials)
        assert recommended(ended.objective) == recommended(undisturbed.objective)

    @POSTGRES
    @pytest.mark.slow
    def test_and_the_command_says_so(
        self, server_store: Store, address_of_server: str, tuners: Tuners, whole: TuningResult
    ) -> None:
        add(server_store, slots=SLOTS)
        address = f"{address_of_server}%20-clock_timeout%3D300"
        child = tuners.start(*begin(address))
        wait_for(server_store, 2, tuners, child)
        with server_store.begin() as session:
            lock(session)
            assert tuners.wait(child) == 1
        assert "is locked by another process that has not let go in time" in tuners.said()
        assert "Traceback" not in tuners.said()
        assert tuners.run(*resume(address)) in ENDED, tuners.said()
        check_same(server_store, whole)


class TestDisk:
    def test_a_full_disk_stops_the_search_which_can_be_resumed(self, tmp_path: Path) -> None:
        undisturbed = run_anew(tmp_path / "whole.db", budget=8)
        store = open_store(tmp_path / "tuner.db")
        add(store)
        held = start_tuning(store, APP, {}, TuneOptions(budget=8))
        with pytest.raises(Stop):
            tune(store, APP, held, stop_after(2))
        held = resume_tuning(store, APP)

        def leave_no_room(connection: Connection) -> None:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")  # SQLite keeps what is used

        event.listen(store.engine, "begin", leave_no_room)
        with pytest.raises(Retry, match="is on a disk that is full; make room there"):
            tune(store, APP, held)
        event.remove(store.engine, "begin", leave_no_room)
        store.close()
        with closing(open_store(tmp_path / "tuner.db")) as store:
            there = read_run(store, 1)
            assert 2 <= len(there) < len(undisturbed.trials)
            ended = tune(store, APP, resume_tuning(store, APP, clock=lambda: time.time() + LEASE_S + 1.0))
        assert list(ended.trials[: len(there)]) == there
        assert all_figures(ended.trials) == all_figures(undisturbed.trials)


@pytest.mark.slow
def test_a_newer_schema_is_refused_in_a_sentence(store: Store, address: str, tuners: Tuners) -> None:
    add(store, slots=300)
    with store.begin() as session:
        session.execute(text("UPDATE tuner_schema SET version_num = '9000'"))
    for command in (begin(address), resume(address)):
        before = len(tuners.said())
        assert tuners.run(*command) == 2
        said = tuners.said()[before:]
        assert "has schema 9000, made by a newer tuner" in said
        assert "Traceback" not in said
    assert read_runs(store) == []


def cut_off_every_other(store: Store, postgres: str, *statements: str) -> list[bool]:
    """End the connection just before it says such a statement for the first time, the third, ...; whether it was."""
    cut: list[bool] = []

    def cut_off(connection: Connection, _: object, statement: str, *__: object) -> None:
        if statement.startswith(statements):
            cut.append(len(cut) % 2 == 0)
            if cut[-1]:
                pid = connection.connection.dbapi_connection.info.backend_pid  # type: ignore[union-attr]
                with psycopg.connect(postgres, autocommit=True) as other:
                    other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))

    event.listen(store.engine, "before_cursor_execute", cut_off)
    return cut


@POSTGRES
class TestConnections:
    def test_each_trial_whose_transaction_is_cut_off_is_written_once(
        self, server_store: Store, postgres: str, tmp_path: Path
    ) -> None:
        undisturbed = run_anew(tmp_path / "whole.db", engine="random", budget=12)
        assert undisturbed.objective is not None
        add(server_store)
        held = start_tuning(server_store, APP, {}, TuneOptions(engine="random", budget=12))
        cut = cut_off_every_other(server_store, postgres, "INSERT INTO trials", "INSERT INTO objectives")
        ended = tune(server_store, APP, held)
        assert len(cut) == 2 * (len(undisturbed.trials) + 1)
        assert all_figures(ended.trials) == all_figures(undisturbed.trials)
        assert recommended(ended.objective) == recommended(undisturbed.objective)
        assert len(read_objectives(server_store)) == 1

    def test_a_lease_whose_renewal_is_cut_off_is_renewed_again(
        self, server_store: Store, postgres: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tuner.store.runs.LEASE_S", 0.04)
        add(server_store, slots=300)
        held = start_tuning(server_store, APP, {}, TuneOptions(), clock=lambda: 1_000.0)
        cut = cut_off_every_other(server_store, postgres, "UPDATE tuning_runs")
        with renew_lease(server_store, held, lambda: 1_100.0) as check:
            while len(cut) < 6:
                check()
                time.sleep(0.005)
        assert read_runs(server_store)[0].heartbeat == 1_100.0

    def test_a_commit_whose_answer_is_lost_is_repeated_and_comes_to_the_same(
        self, server_store: Store, tmp_path: Path
    ) -> None:
        undisturbed = run_anew(tmp_path / "whole.db", engine="random", budget=12)
        assert undisturbed.objective is not None
        add(server_store)
        held = start_tuning(server_store, APP, {}, TuneOptions(engine="random", budget=12))
        commits: list[bool] = []

        def lose(connection: Connection) -> None:
            commits.append(len(commits) % 2 == 0)
            if commits[-1]:
                connection.connection.dbapi_connection.commit()  # type: ignore[union-attr]
                raise OperationalError("COMMIT", {}, psycopg.OperationalError("server closed the connection"))

        event.listen(server_store.engine, "commit", lose)
        ended = tune(server_store, APP, held)
        event.remove(server_store.engine, "commit", lose)
        assert len(commits) == 2 * (len(undisturbed.trials) + 1)
        assert all_figures(ended.trials) == all_figures(undisturbed.trials)
        assert [recommended(one) for one in read_objectives(server_store)] == [recommended(undisturbed.objective)]
        assert ended.objective == read_objectives(server_store)[0]

    @pytest.mark.slow
    def test_connections_ended_at_random_moments(self, postgres: str, server_store: Store, address_of_server: str,
                                                 tuners: Tuners, whole: TuningResult) -> None:  # fmt: skip
        chance = random.Random(4)
        add(server_store, slots=SLOTS)
        child = tuners.start(*begin(address_of_server))
        with psycopg.connect(postgres, autocommit=True) as other:
            for count in range(1, len(whole.trials) - 1):
                wait_for(server_store, count, tuners, child)
                time.sleep(chance.uniform(0.0, 0.05))
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
                )
        assert tuners.wait(child) in ENDED, tuners.said()
        check_same(server_store, whole)


@pytest.fixture
def address_of_server(postgres: str, server_store: Store) -> str:
    options = str(server_store.address.url.query["options"])
    return f"{postgres}&options={options.replace('=', '%3D')}"


@pytest.mark.slow
class TestSignals:
    @pytest.mark.parametrize(
        ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long)]
    )
    def test_interrupted_again_and_again_it_ends_the_same(
        self, number: int, code: int, store: Store, address: str, tuners: Tuners, whole: TuningResult
    ) -> None:
        chance = random.Random(number)
        add(store, slots=SLOTS)
        child = tuners.start(*begin(address))
        there = 0
        for count in (1, 3, 6):
            wait_for(store, max(count, there + 1), tuners, child)  # it listens as soon as it adds to what is there
            time.sleep(chance.uniform(0.0, 0.05))
            before = len(tuners.said())
            ended_as = tuners.kill(child, number)
            said = tuners.said()[before:]
            assert "Traceback" not in said
            there = len(read_run(store, 1))
            if read_runs(store)[0].state == "done":  # on a busy machine the signal may come too late
                assert ended_as in ENDED or (ended_as == code and f"show it with: tuner report {APP}" in said), said
                break
            assert ended_as == code, said
            assert "is interrupted; " in said
            assert f"Resume it with: tuner tune {APP} --resume" in said
            child = tuners.start(*resume(address))
        else:
            assert tuners.wait(child) in ENDED, tuners.said()
        check_same(store, whole)

    def test_interrupted_after_its_end_it_shows_where_the_result_is(self, tmp_path: Path) -> None:
        ended = run_anew(tmp_path / "whole.db", engine="random", budget=2)
        with closing(open_store(tmp_path / "whole.db")) as done:
            assert describe_interrupted(done, APP, ended.run).endswith(f"show it with: tuner report {APP}")

    def test_ctrl_c_in_a_process_of_its_own(self, tmp_path: Path, whole: TuningResult) -> None:
        path = tmp_path / "tuner.db"
        command = [sys.executable, "-c", "from tuner.cli import main; main()"]
        with closing(open_store(path)) as store:
            add(store, slots=SLOTS)
            words = [str(word) for word in begin(path)]
            with subprocess.Popen([*command, *words], cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
                try:
                    while not (read_runs(store) and len(read_run(store, 1)) >= 3):
                        assert process.poll() is None
                        time.sleep(0.01)
                    process.send_signal(signal.SIGINT)
                    said = process.communicate(timeout=60)[1]
                finally:
                    process.kill()
            assert process.returncode == 130
            assert said.count("\n") <= 3
            assert "Resume it with: tuner tune clicks --resume" in said
            assert read_runs(store)[0].state == "running"
            there = read_run(store, 1)
            assert all_figures(there) == all_figures(whole.trials[: len(there)])
