"""What every database must do alike: give back what was saved, once, in the order and the part that was asked for."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from dataclasses import fields, replace

import numpy as np
import pytest
from sqlalchemy import event, update

from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from scaler.model.task import Weights
from tuner.store.applications import (
    add_application,
    list_applications,
    list_surrogates,
    list_versions,
    load_application,
    load_surrogate,
    load_version,
    save_surrogate,
)
from tuner.store.connection import Store
from tuner.store.decisions import list_decisions, save_decisions
from tuner.store.faults import NotFound
from tuner.store.objectives import add_objective, find_full_objective, list_objectives, move_objective
from tuner.store.ordinals import has_unnumbered
from tuner.store.records import DecisionRecord, ObjectiveRecord, SourceMark, SurrogateRecord, Trial, TuningRun
from tuner.store.removal import remove_run, rename_application
from tuner.store.runs import LeaseLost, claim_run, end_run, find_run, list_runs, load_run, release_run, start_run
from tuner.store.samples import (
    count_samples,
    delete_marks,
    delete_samples,
    delete_windows,
    load_marks,
    load_samples,
    save_marks,
    save_samples,
    stream_samples,
)
from tuner.store.tables import APPLICATIONS, RUNS, SAMPLES, TRIALS
from tuner.store.trials import TrialFilter, add_trial, count_trials, find_trial, list_trials, load_history, load_trial

APPLICATION = {"name": "clicks", "operator": [{"name": "parse", "service_rate": 500, "scv": 0.5}]}


def sample(operator: str = "parse", start: float = 0.0, **values: object) -> Sample:
    return Sample("clicks", operator, start, start + 60.0, "records", **values)  # type: ignore[arg-type]


def full_sample() -> Sample:
    """Every column with a value of its own, so that no two can be mixed up unseen."""
    numbers = {field.name: 0.5 + i for i, field in enumerate(fields(Sample)) if "float | None" in str(field.type)}
    sketch = {"-12": 3.0, "40": 97.5}
    return replace(sample(node_type="large", completeness=0.25, responses=sketch), **numbers)  # type: ignore[arg-type]


def start(store: Store, owner: str = "me", now: float = 0.0) -> TuningRun:
    with store.begin() as session:
        version = add_application(session, "clicks", APPLICATION, 1.0)
        assert version.id is not None
        return start_run(session, TuningRun(version.id, "gp", 7, 60, now, {"eta_v": 0.05}), owner, now)


def trial(run: TuningRun, number: int, **values: object) -> Trial:
    assert run.id is not None
    ended = {"state": "complete", "seed": 5, "started": 1.0, "ended": 2.0, **values}
    return Trial(run.id, number, {"bounds": {"parse": 0.01}, "weights": [0.6, 0.2, 0.2]}, **ended)  # type: ignore[arg-type]


class TestSamples:
    def test_every_column_comes_back(self, store: Store) -> None:
        samples = [full_sample(), sample("count")]
        with store.begin() as session:
            assert save_samples(session, samples) == 2
        with store.read() as session:
            assert sorted(load_samples(session, "clicks"), key=lambda s: s.operator) == [samples[1], samples[0]]

    def test_the_table_has_the_columns_of_a_sample(self) -> None:
        assert {c.name for c in SAMPLES.c} == {f.name for f in fields(Sample)} - {"key"}

    def test_a_window_saved_again_is_overwritten(self, store: Store) -> None:
        with store.begin() as session:
            save_samples(session, [sample(arrived=1.0, busy=3.0), sample(node_type="large", arrived=7.0)])
            save_samples(session, [sample(arrived=2.0)])
        with store.read() as session:
            assert load_samples(session, "clicks") == [sample(arrived=2.0), sample(node_type="large", arrived=7.0)]

    def test_what_nobody_knows_stays_unknown(self, store: Store) -> None:
        with store.begin() as session:
            save_samples(session, [sample(arrived=math.nan, backlog=0.0, busy=np.float64("nan"), task_n=np.int64(3))])
        with store.read() as session:
            assert load_samples(session, "clicks") == [sample(backlog=0.0, task_n=3.0)]

    def test_a_part_of_them(self, store: Store) -> None:
        samples = [sample(name, 60.0 * i) for name in ("count", "parse") for i in range(10)]
        longer = replace(sample("parse", 0.0), end=300.0)
        with store.begin() as session:
            save_samples(session, [*samples[::-1], longer, replace(sample(), application="other")])
        with store.read() as session:
            assert load_samples(session, "clicks", window_s=60.0) == samples
            assert load_samples(session, "clicks", window_s=300.0) == [longer]
            some = load_samples(session, "clicks", operators=["parse"], since=120.0, until=240.0)
            assert [s.start for s in some] == [120.0, 180.0]
            latest = list(stream_samples(session, "clicks", newest=True, limit=3))
            assert [(s.start, s.operator) for s in latest] == [(540.0, "count"), (540.0, "parse"), (480.0, "count")]
            assert count_samples(session, "clicks") == {"count": 10, "parse": 11}
        with store.begin() as session:
            assert delete_samples(session, "clicks", since=60.0) == 18
            assert count_samples(session, "clicks") == {"count": 1, "parse": 2}
            delete_windows(session, "clicks", [("parse", 0.0, 60.0), ("count", 0.0, 61.0)])
            delete_windows(session, "clicks", [])
            assert load_samples(session, "clicks") == [samples[0], longer]

    def test_a_fine_sample_is_refused_and_nothing_is_written(self, store: Store) -> None:
        with pytest.raises(BadInput, match=r"key 'task 1'.*fold"), store.begin() as session:
            save_samples(session, [sample(), sample(start=60.0, key="task 1")])
        with store.read() as session:
            assert load_samples(session, "clicks") == []

    def test_marks_go_with_the_samples_or_not_at_all(self, store: Store) -> None:
        marks = [
            SourceMark("clicks", "/logs/a", 2**40, 1.5, {"batch": 3, "late": math.inf}),
            SourceMark("clicks", "/logs/b", 0, 2.0),
        ]
        with store.begin() as session:
            save_marks(session, marks)
        with suppress(ZeroDivisionError), store.begin() as session:
            save_marks(session, [replace(marks[0], position=5)])
            save_samples(session, (sample(start=60.0 / i) for i in (1, 0)))
        with store.read() as session:
            assert load_marks(session, "clicks") == {mark.source: mark for mark in marks}
            assert load_samples(session, "clicks") == []
        with store.begin() as session:
            save_marks(session, [replace(marks[1], position=9)])
            assert load_marks(session, "clicks")["/logs/b"].position == 9
            assert delete_marks(session, "clicks", ["/logs/a"]) == 1
            assert list(load_marks(session, "clicks")) == ["/logs/b"]


class TestApplications:
    def test_a_version_for_each_description_that_differs(self, store: Store) -> None:
        with store.begin() as session:
            first = add_application(session, "clicks", APPLICATION, 1.0)
            assert add_application(session, "clicks", APPLICATION, 2.0) == first
            second = add_application(session, "clicks", {**APPLICATION, "r_max": 0.04}, 3.0)
            other = add_application(session, "ads", {}, 4.0)
        assert (first.number, second.number, other.number) == (1, 2, 1)
        with store.read() as session:
            assert load_application(session, "clicks") == second
            assert load_application(session, "clicks", 1) == first
            assert first.id is not None
            assert load_version(session, first.id) == first
            assert list_applications(session) == [other, second]
            assert list_versions(session, "clicks") == [first, second]
            with pytest.raises(BadInput, match="'clicks' has no version 3; its newest is 2"):
                load_application(session, "clicks", 3)
            with pytest.raises(BadInput, match="no application 'klicks'; did you mean 'clicks'"):
                load_application(session, "klicks")

    def test_surrogates_are_numbered_by_application(self, store: Store) -> None:
        fitted = SurrogateRecord(
            "clicks", {"mean": {"parse": 0.002}, "worst": math.inf}, 0.0, 600.0, 10, "warn", 5.0, 0.07
        )
        with store.begin() as session:
            saved = [save_surrogate(session, s) for s in (fitted, replace(fitted, application="ads"), fitted)]
        assert [s.number for s in saved] == [1, 1, 2]
        with store.read() as session:
            assert load_surrogate(session, "clicks") == saved[2]
            assert load_surrogate(session, "clicks", 1) == saved[0]
            assert list_surrogates(session, "clicks", limit=1) == [saved[2]]
            with pytest.raises(BadInput, match="no surrogate number 3"):
                load_surrogate(session, "clicks", 3)

    def test_objectives_one_of_which_stands(self, store: Store) -> None:
        proposed = ObjectiveRecord("clicks", Weights(0.5, 0.3, 0.2), {"parse": 0.01}, 5.0, provenance="by hand")
        with store.begin() as session:
            first, second = add_objective(session, proposed), add_objective(session, proposed)
            assert (first.version, second.version) == (1, 2)
            assert find_full_objective(session, "clicks") is None
            move_objective(session, "clicks", 1, "proposed", "full", 6.0)
            moved = move_objective(session, "clicks", 2, "proposed", "full", 7.0, {"gain": 0.1})
            assert find_full_objective(session, "clicks") == moved
            assert [o.state for o in list_objectives(session, "clicks")] == ["full", "retired"]
        assert moved == replace(second, state="full", changed=7.0, evidence={"gain": 0.1})
        with pytest.raises(BadInput, match="objective 1 of 'clicks' is retired by now"), store.begin() as session:
            move_objective(session, "clicks", 1, "full", "reverted", 8.0)


class TestTrials:
    def test_every_column_comes_back(self, store: Store) -> None:
        run = start(store)
        with store.begin() as session:
            surrogate = save_surrogate(session, SurrogateRecord("clicks", {}, 0.0, 1.0, 1, "pass", 0.0))
            names = [f.name for f in fields(Trial) if f.type == "float | None"]
            given = trial(run, 0, **{name: 0.5 + i for i, name in enumerate(names)})
            given = replace(given, feasible=True, slots=2**40, surrogate_id=surrogate.id, trace="a", detail={"x": [1]})
            kept = add_trial(session, run, given, 3.0)
        with store.read() as session:
            assert kept.id is not None
            assert load_trial(session, kept.id) == replace(given, ordinal=1, id=kept.id)

    def test_saved_twice_is_saved_once_and_another_in_its_place_is_refused(self, store: Store) -> None:
        run = start(store)
        for _ in range(2):  # as after a commit whose answer was lost
            with store.begin() as session:
                add_trial(session, run, trial(run, 0, price=np.float64(0.25), slots=np.int64(9)), 3.0)
        with pytest.raises(ValueError, match="another trial 0"), store.begin() as session:
            add_trial(session, run, trial(run, 0, seed=6), 3.0)
        with store.read() as session:
            assert [(t.number, t.price, t.slots) for t in load_history(session, run.id or 0)] == [(0, 0.25, 9)]

    def test_what_is_given_back_is_what_will_be_read(self, store: Store) -> None:
        run = start(store)
        given = replace(
            trial(run, 0), parameters={"x": (0.5, np.float64(0.25)), "n": np.int64(3)}, detail={"r": math.inf}
        )
        for _ in range(2):
            with store.begin() as session:
                kept = add_trial(session, run, given, 3.0)
                assert kept == load_trial(session, kept.id or 0)
        assert kept.parameters == {"x": [0.5, 0.25], "n": 3}

    def test_pages_filters_and_sorting(self, store: Store) -> None:
        run = start(store)
        costs = [0.4, None, 0.1, 0.3, 0.2]
        with store.begin() as session:
            for i, cost in enumerate(costs):
                state = "failed" if cost is None else "complete"
                feasible = None if cost is None else cost < 0.35
                add_trial(session, run, trial(run, i, price=cost, state=state, feasible=feasible, ended=10.0 + i), 20.0)
        with store.read() as session:
            mine = TrialFilter(application="clicks")
            assert [t.number for t in list_trials(session, mine, "price")] == [2, 4, 3, 0, 1]
            assert [t.number for t in list_trials(session, mine, "price", descending=True)] == [0, 3, 4, 2, 1]
            assert [t.number for t in list_trials(session, mine, "price", limit=2, offset=1)] == [4, 3]
            assert [t.number for t in list_trials(session, replace(mine, feasible=True))] == [2, 3, 4]
            assert [t.number for t in list_trials(session, replace(mine, feasible=False))] == [0]
            assert [t.number for t in list_trials(session, replace(mine, since=11.0, until=13.0))] == [1, 2]
            assert count_trials(session, replace(mine, state="failed")) == 1
            assert count_trials(session, TrialFilter(application="ads")) == 0
            with pytest.raises(BadInput, match="sorted by 'cost'; sort by one of id, ordinal, number"):
                list_trials(session, mine, "cost")

    def test_a_page_is_one_query(self, store: Store) -> None:
        run = start(store)
        with store.begin() as session:
            for i in range(20):
                add_trial(session, run, trial(run, i), 3.0)
        statements: list[str] = []

        def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
            statements.append(statement)

        event.listen(store.engine, "before_cursor_execute", note)
        with store.read() as session:
            assert len(list_trials(session, TrialFilter(application="clicks"), "price")) == 20
        assert len([s for s in statements if "trials" in s]) == 1

    def test_numbers_without_end_come_back(self, store: Store) -> None:
        run = start(store)
        with store.begin() as session:
            kept = add_trial(session, run, trial(run, 0, price=math.inf, slack=-math.inf, violations=math.nan), 3.0)
        assert (kept.price, kept.slack, kept.violations) == (math.inf, -math.inf, None)


class TestOrdinals:
    def test_every_application_counts_its_own_runs_and_trials(self, store: Store) -> None:
        mine = [start(store), start(store)]
        with store.begin() as session:
            other = add_application(session, "ads", APPLICATION, 1.0)
            theirs = start_run(session, TuningRun(other.id or 0, "gp", 7, 60, 0.0), "me", 0.0)
            given = [add_trial(session, run, trial(run, i), 3.0) for i in range(2) for run in (*mine, theirs)]
            assert [one.ordinal for one in (*mine, theirs)] == [1, 2, 1]
            assert [one.ordinal for one in given] == [1, 2, 1, 3, 4, 2]
            assert find_run(session, "ads", 1) == load_run(session, theirs.id or 0)
            assert find_trial(session, "clicks", 3) == given[3]
            assert [one.ordinal for one in list_trials(session, TrialFilter("clicks"), "ordinal")] == [1, 2, 3, 4]
            with pytest.raises(NotFound, match="'ads' has no trial 3; `tuner trials ads` lists"):
                find_trial(session, "ads", 3)
            with pytest.raises(NotFound, match="'ads' has no tuning run 2; `tuner runs ads` lists"):
                find_run(session, "ads", 2)

    def test_no_number_is_given_again_after_its_run_is_removed(self, store: Store) -> None:
        run = start(store)
        with store.begin() as session:
            add_trial(session, run, trial(run, 0), 3.0)
            remove_run(session, run.id or 0)
        again = start(store)
        with store.begin() as session:
            assert (again.ordinal, add_trial(session, again, trial(again, 0), 3.0).ordinal) == (2, 2)

    def test_a_renamed_application_keeps_its_numbers(self, store: Store) -> None:
        run = start(store)
        with store.begin() as session:
            rename_application(session, "clicks", "ads")
            assert find_run(session, "ads", 1).id == run.id

    def test_rows_of_an_older_program_are_numbered_before_the_next(self, store: Store) -> None:
        """A program of the schema before leaves the new columns empty, and refuses none of the rows."""
        run = start(store, "older")
        with store.begin() as session:
            older = [add_trial(session, run, trial(run, i), 3.0) for i in range(3)]
            for table in (RUNS, TRIALS):
                session.execute(update(table.table).values(application_id=None, ordinal=None))
            session.execute(update(APPLICATIONS).values(last_run=None, last_trial=None))
            assert has_unnumbered(session)
        with store.begin() as session:
            taken = claim_run(session, run.id or 0, "newer", now=100.0)
            assert taken is not None
            assert not has_unnumbered(session)
            newest = add_trial(session, taken, trial(taken, 3), 100.0)
            assert (taken.ordinal, newest.ordinal) == (1, 4)
            assert [find_trial(session, "clicks", i + 1).id for i in range(3)] == [one.id for one in older]


class TestLeases:
    def test_a_held_run_is_not_claimed_until_its_lease_is_over(self, store: Store) -> None:
        run = start(store, "first", now=100.0)
        assert run.id is not None
        with store.begin() as session:
            assert claim_run(session, run.id, "second", now=160.0) is None
            taken = claim_run(session, run.id, "second", now=160.5)
            assert taken is not None
            assert (taken.owner, taken.fence) == ("second", 2)
        with pytest.raises(LeaseLost), store.begin() as session:
            add_trial(session, run, trial(run, 0), now=161.0)
        with store.read() as session:
            assert load_history(session, run.id) == []

    def test_a_trial_renews_the_lease(self, store: Store) -> None:
        run = start(store, "first", now=100.0)
        with store.begin() as session:
            add_trial(session, run, trial(run, 0), now=150.0)
            assert claim_run(session, run.id or 0, "second", now=200.0) is None

    def test_an_ended_run_is_nobodys_and_a_released_one_anybodys(self, store: Store) -> None:
        run, other = start(store), start(store)
        with store.begin() as session:
            ended = end_run(session, run, "done", 5.0)
            assert ended == load_run(session, run.id or 0)
            assert (ended.state, ended.ended, ended.owner) == ("done", 5.0, None)
            assert claim_run(session, run.id or 0, "second", now=1e9) is None
            release_run(session, other)
            assert claim_run(session, other.id or 0, "second", now=0.0) is not None
            assert [r.id for r in list_runs(session, "clicks", "running")] == [other.id]
            assert [r.id for r in list_runs(session)] == [other.id, run.id]
        with pytest.raises(LeaseLost), store.begin() as session:
            end_run(session, run, "failed", 6.0, "too late")


class TestDecisions:
    def test_decision_is_never_overwritten(self, store: Store) -> None:
        """A second writer's decision of a slot replaced the first one, without a trace."""
        honest = DecisionRecord("clicks", "parse", 60.0, "SCALED", "rate rises", instance="driver-1")
        forged = replace(honest, kind="HELD", reason="nothing ever happened", instance="forger")
        other = replace(forged, time=120.0)
        with store.begin() as session:
            assert save_decisions(session, [honest]) == []
            assert save_decisions(session, [forged, other]) == [(forged, honest)]
            assert (
                save_decisions(session, [replace(honest, instance="driver-2")]) == []
            )  # what driver-1 had left to send
            late = replace(other, time=180.0)
            assert save_decisions(session, [late, replace(late, kind="SCALED")]) == [
                (replace(late, kind="SCALED"), late)
            ]
        with store.read() as session:
            assert list_decisions(session, "clicks") == [late, other, honest]

    def test_pages_come_to_all_of_them_the_newest_first(self, store: Store) -> None:
        made = [
            DecisionRecord(
                "clicks", name, 60.0 * i, "BLOCKED" if i % 3 else "SCALED", "cooldown", seen={"response": math.inf}
            )
            for i in range(6)
            for name in ("count", "parse")
        ]
        with store.begin() as session:
            assert save_decisions(session, made) == []
            assert save_decisions(session, made[:3]) == []  # as after a lost answer
        wanted = sorted(made, key=lambda d: (-d.time, d.operator))
        with store.read() as session:
            found: list[DecisionRecord] = []
            while page := list_decisions(
                session, "clicks", limit=5, after=(found[-1].time, found[-1].operator) if found else None
            ):
                found += page
            assert found == wanted
            every = list_decisions(session, "clicks", limit=None)
            assert Counter(decision.kind for decision in every) == {"SCALED": 4, "BLOCKED": 8}
            some = list_decisions(session, "clicks", ["parse"], ["SCALED"], since=60.0, until=600.0)
            assert [d.time for d in some] == [180.0]
            with pytest.raises(BadInput, match="'SCALE', and must be one of SCALED"):
                list_decisions(session, "clicks", kinds=["SCALE"])
