"""Rows of a program of the schema before are numbered once, without a gap, whoever writes at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing

import pytest
from sqlalchemy import event, insert, select

from scaler.model.task import Weights
from tuner.rollout.known_history import keep_history
from tuner.rollout.removal import remove, rename
from tuner.store.applications import add_application
from tuner.store.connection import Store, open_store
from tuner.store.faults import NotFound
from tuner.store.known_histories import list_histories, save_history
from tuner.store.objectives import add_objective, load_objective
from tuner.store.ordinals import COUNTERS, has_unnumbered, number_older
from tuner.store.records import KnownHistory, ObjectiveRecord, Trial, TuningRun
from tuner.store.runs import claim_run, find_run, start_run
from tuner.store.tables import APPLICATIONS, RUNS, TRIALS
from tuner.store.trials import add_trial, find_trial

APPS = ("clicks", "ads")
DOCUMENT = {"name": "clicks", "operator": [{"name": "parse", "service_rate": 500, "scv": 0.5}]}


@pytest.fixture
def versions(store: Store) -> list[int]:
    with store.begin() as session:
        return [add_application(session, app, DOCUMENT, 1.0).id or 0 for app in APPS]


def write_older(store: Store, version: int, trials: int) -> tuple[int, list[int]]:
    """A run with trials, as a program that knows no numbers writes them; their ids."""
    run = TuningRun(version, "gp", 1, 60, 1.0, owner="older:1:x", lease_until=1.0, fence=1)
    with store.begin() as session:
        run_id = session.scalar(insert(RUNS.table).values(RUNS.to_columns(run)).returning(RUNS.c.id)) or 0
        rows = [
            TRIALS.to_columns(Trial(run_id, i, {}, "complete", 1, 1.0, 2.0)) | {"detail": {}} for i in range(trials)
        ]
        made = [session.scalar(insert(TRIALS.table).values(row).returning(TRIALS.c.id)) or 0 for row in rows]
    return run_id, made


def write_newer(store: Store, version: int, owner: str) -> TuningRun:
    run = store.write(lambda session: start_run(session, TuningRun(version, "gp", 1, 60, 5.0), owner, 5.0))
    for number in range(3):
        trial = Trial(run.id or 0, number, {}, "complete", 1, 5.0, 6.0)
        store.write(lambda session, trial=trial: add_trial(session, run, trial, 6.0))  # type: ignore[misc]
    return run


def run_at_once(works: Sequence[Callable[[], object]]) -> None:
    together, faults = threading.Barrier(len(works)), list[BaseException]()

    def work(one: Callable[[], object]) -> None:
        together.wait()
        try:
            one()
        except BaseException as error:  # of a thread, which nobody would see
            faults.append(error)

    threads = [threading.Thread(target=work, args=(one,)) for one in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults


def check_numbers(store: Store) -> None:
    """Every application's numbers are 1, 2, ..., and its counter is at the last."""
    with store.read() as session:
        for table in (RUNS, TRIALS):
            counter = COUNTERS[table.table.name]
            for application, last in session.execute(select(APPLICATIONS.c.id, counter)).all():
                mine = select(table.c.ordinal).where(table.c.application_id == application).order_by(table.c.ordinal)
                assert session.scalars(mine).all() == list(range(1, (last or 0) + 1))
        assert not has_unnumbered(session)


def test_writers_at_once_leave_no_gap(address: str, store: Store, versions: list[int]) -> None:
    """Of both applications, while daemons number all of them and older programs write on."""
    for _ in range(10):
        for version in versions:
            write_older(store, version, 10)

    def act(work: Callable[[Store], object]) -> Callable[[], object]:
        def opened() -> None:
            with closing(open_store(address)) as own:
                for _ in range(6):
                    work(own)

        return opened

    works = [act(lambda own, i=i: write_newer(own, versions[i % 2], f"newer {i}")) for i in range(4)]  # type: ignore[misc]
    works += [act(lambda own, version=version: write_older(own, version, 4)) for version in versions]  # type: ignore[misc]
    works += [act(lambda own: own.write(number_older))] * 2
    run_at_once(works)
    store.write(number_older)
    check_numbers(store)


def test_numbering_takes_as_many_statements_for_any_rows(store: Store, versions: list[int]) -> None:
    counts = []
    for many in (2, 200):
        write_older(store, versions[0], many)
        statements: list[str] = []

        def note(
            connection: object, cursor: object, statement: str, *rest: object, seen: list[str] = statements
        ) -> None:
            seen.append(statement)

        event.listen(store.engine, "before_cursor_execute", note)
        store.write(number_older)
        event.remove(store.engine, "before_cursor_execute", note)
        counts.append(len(statements))
    assert counts[0] == counts[1] < 12
    check_numbers(store)


def test_a_writer_numbers_its_own_application(store: Store, versions: list[int]) -> None:
    """In the order of ids, on from those given; of another application it locks nothing."""
    write_newer(store, versions[0], "newer")
    older = [write_older(store, version, 2) for version in versions]
    assert write_newer(store, versions[0], "newer").ordinal == 3
    with store.read() as session:
        assert find_run(session, "clicks", 2).id == older[0][0]
        assert [find_trial(session, "clicks", i).id for i in (4, 5)] == older[0][1]
        with pytest.raises(NotFound):
            find_run(session, "ads", 1)
    store.write(number_older)
    check_numbers(store)


@pytest.mark.parametrize("numbered_first", [False, True])
def test_an_origin_by_ids_gets_the_numbers(store: Store, versions: list[int], numbered_first: bool) -> None:
    """Also where the older program ends its run after a newer one numbered it."""
    write_newer(store, versions[0], "newer")
    run_id, (trial_id, _) = write_older(store, versions[1], 2)
    if numbered_first:
        store.write(number_older)
    told = {f"trial {trial_id} of run {run_id}": "trial 1 of run 1", "by hand": "by hand"}
    with store.begin() as session:
        for origin in told:
            made = ObjectiveRecord("ads", Weights(0.5, 0.25, 0.25), {}, 3.0, provenance=origin, trial_id=trial_id)
            add_objective(session, made)
    with store.read() as session:
        assert has_unnumbered(session)
    store.write(number_older)
    with store.read() as session:
        assert not has_unnumbered(session)
        assert [load_objective(session, "ads", i).provenance for i in (1, 2)] == list(told.values())


def test_who_resumes_an_older_run_names_its_origin(store: Store, versions: list[int]) -> None:
    write_newer(store, versions[0], "newer")
    run_id, (trial_id,) = write_older(store, versions[1], 1)
    origin = f"trial {trial_id} of run {run_id}"
    with store.begin() as session:
        add_objective(
            session,
            ObjectiveRecord("ads", Weights(0.5, 0.25, 0.25), {}, 3.0, provenance=origin, trial_id=trial_id),
        )
    with store.begin() as session:
        taken = claim_run(session, run_id, "newer", 100.0)
        assert taken is not None
        assert taken.ordinal == 1
        assert load_objective(session, "ads", 1).provenance == "trial 1 of run 1"


def test_no_history_is_stored_of_a_removed_application(
    store: Store, versions: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.begin() as session:
        add_objective(session, ObjectiveRecord("clicks", Weights(0.5, 0.25, 0.25), {}, 3.0))

    def replay(*_: object) -> str:
        removing = threading.Thread(target=take_out)
        removing.start()
        removing.join()
        return "nothing was monitored"

    def take_out() -> None:
        with store.begin() as session:
            remove(session, "clicks", "Ann", "misspelt", 4.0)

    monkeypatch.setattr("tuner.rollout.known_history.prepare_replay", replay)
    with pytest.raises(NotFound, match="has no objective 1"):
        keep_history(store, "clicks", 1, 5.0)
    with store.read() as session:
        assert list_histories(session, "clicks") == {}


def test_a_name_with_an_orphaned_history_can_be_taken(store: Store, versions: list[int]) -> None:
    with store.begin() as session:
        for app, slots in (("clicks", 200), ("taps", 100)):
            save_history(session, KnownHistory(app, 1, 1.0, slots, 60.0, None))
        rename(session, "clicks", "taps", "Ann", "misspelt", 2.0)
        assert list_histories(session, "taps") == {1: 12_000.0}
