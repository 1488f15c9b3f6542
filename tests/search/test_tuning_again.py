"""The same seed gives the same run, stopped or not, by whichever engine, and whatever fails on the way."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from scaler.model.errors import BadInput
from tests.search.runs import (
    APP,
    Stop,
    add,
    all_figures,
    of,
    read_objectives,
    read_run,
    recommended,
    run_anew,
    run_in_pieces,
    stop_after,
)
from tuner.search.engines import ENGINES
from tuner.search.evaluation import Evaluation, EvaluationSpec, evaluate_locally
from tuner.search.search_plan import TuneOptions
from tuner.search.space.space import Parameters
from tuner.search.tuning_run import TuningResult, resume_tuning, start_tuning, tune
from tuner.store.connection import Store, open_store

ARRANGED = ("gp", "skopt", "optuna", "random")  # engines that ask for as much as one likes


class TestSameAgain:
    @pytest.mark.parametrize("engine", list(ENGINES))
    def test_the_same_seed_gives_the_same_run(self, engine: str, tmp_path: Path) -> None:
        once = run_anew(tmp_path / "1.db", engine=engine, budget=7, seed=3)
        again = run_anew(tmp_path / "2.db", engine=engine, budget=7, seed=3)
        assert all_figures(once.trials) == all_figures(again.trials)
        assert recommended(once.objective) == recommended(again.objective)
        assert len(of(once, "search")) == (1 if engine == "naive" else 7)
        if engine != "naive":
            other = run_anew(tmp_path / "3.db", engine=engine, budget=7, seed=4)
            assert [t.parameters for t in of(other, "search")] != [t.parameters for t in of(once, "search")]

    @pytest.mark.parametrize("engine", ARRANGED)
    def test_batches_stopped_after_each_trial_go_on_the_same(self, engine: str, tmp_path: Path) -> None:
        whole = run_anew(tmp_path / "whole.db", engine=engine, budget=8, batch=3)
        pieces = range(1, len(whole.trials) + 1)  # the last one: all trials kept, and not yet concluded
        parts = run_anew(tmp_path / "parts.db", pieces, engine=engine, budget=8, batch=3)
        assert all_figures(parts.trials) == all_figures(whole.trials)
        assert recommended(parts.objective) == recommended(whole.objective)
        assert parts.run.fence == 1 + len(pieces)

    def test_stopped_after_each_trial_on_every_database(self, store: Store, tmp_path: Path) -> None:
        whole = run_anew(tmp_path / "whole.db", budget=6)
        add(store)
        parts = run_in_pieces(store, range(1, len(whole.trials) + 1), budget=6)
        assert all_figures(parts.trials) == all_figures(whole.trials)
        assert recommended(parts.objective) == recommended(whole.objective)

    def test_a_run_that_was_resumed_is_not_done_twice(self, file: Store) -> None:
        add(file)
        held = start_tuning(file, APP, {}, TuneOptions(engine="random", budget=3))
        with pytest.raises(Stop):
            tune(file, APP, held, stop_after(2))
        ended = tune(file, APP, resume_tuning(file, APP))
        with pytest.raises(BadInput, match="has no interrupted tuning run"):
            resume_tuning(file, APP)
        assert len(read_objectives(file)) == 1
        assert read_run(file, ended.run.id or 0) == list(ended.trials)


class TestFailures:
    """Some replays fail, the same ones each time."""

    @staticmethod
    def spread(spec: EvaluationSpec, parameters: Sequence[Parameters], ceiling: float) -> Iterator[Evaluation]:
        for one, result in zip(parameters, evaluate_locally(spec, parameters, ceiling), strict=True):
            if one.weights.performance > 0.4 or one.shares[0] > 0.5:
                nan = math.nan
                nothing = replace(result.outcome, price=nan, violations=nan, reconfigurations=nan, whole=False)
                result = replace(result, outcome=nothing, failure="a replica was lost", seeds=(), slots=0, saved=0)
            yield result

    @pytest.mark.parametrize("engine", ARRANGED)
    def test_failed_trials_are_kept_survive_a_stop_and_are_not_recommended(self, engine: str, tmp_path: Path) -> None:
        whole = self.run(tmp_path / "whole.db", engine, [])
        parts = self.run(tmp_path / "parts.db", engine, [4, 7, 9])
        failed = [trial for trial in whole.trials if trial.state == "failed"]
        assert 0 < len(failed) < 8
        for trial in failed:
            assert (trial.price, trial.feasible, trial.failure) == (None, None, "a replica was lost")
        assert not {proof.detail["of"] for proof in of(whole, "verify")} & {trial.number for trial in failed}
        assert all_figures(parts.trials) == all_figures(whole.trials)

    def run(self, path: Path, engine: str, pieces: Sequence[int]) -> TuningResult:
        store = open_store(path)
        add(store)
        held = start_tuning(store, APP, {}, TuneOptions(engine=engine, budget=8))
        for stop in pieces:
            with pytest.raises(Stop):
                tune(store, APP, held, stop_after(stop), spread=self.spread)
            held = resume_tuning(store, APP)
        ended = tune(store, APP, held, spread=self.spread)
        store.close()
        return ended

    def test_where_all_fail_the_baseline_is_all_there_is(self, file: Store) -> None:
        add(file)

        def fail(spec: EvaluationSpec, parameters: Sequence[Parameters], ceiling: float) -> Iterator[Evaluation]:
            for result in evaluate_locally(spec, parameters, ceiling):
                nan = math.nan
                nothing = replace(result.outcome, price=nan, violations=nan, reconfigurations=nan, whole=False)
                yield replace(result, outcome=nothing, failure="no", seeds=(), slots=0, saved=0)

        held = start_tuning(file, APP, {}, TuneOptions(budget=6))
        ended = tune(file, APP, held, spread=fail)
        assert [trial.state for trial in of(ended, "search")] == ["failed"] * 6
        assert [trial.detail["of"] for trial in of(ended, "verify")] == [0]
        assert ended.objective is not None
        assert ended.objective.trial_id == ended.trials[0].id
