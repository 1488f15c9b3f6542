"""What earlier runs tell a new one: from which, how much it counts, and that it is worth something."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.search.problems import evaluate, quadratic
from tests.search.runs import APP, Stop, add, all_figures, describe, put, recommended, run, stop_after
from tuner.search.engines import Suggestion
from tuner.search.evaluation import Evaluation, EvaluationSpec
from tuner.search.search_plan import TuneOptions, load_plan
from tuner.search.space.space import EvaluationOutcome, Parameters, fits
from tuner.search.tuning_run import TuningResult, resume_tuning, start_tuning, tune
from tuner.search.warm_start import EACH, MOST, OLDEST, STRANGER, YOUNGEST
from tuner.store.connection import Store, open_store

OTHER = "views"


def ages(store: Store, app: str = APP, flags: Mapping[str, Any] | None = None, **wanted: Any) -> list[float]:
    """Of what a run that starts now would begin with."""
    return [outcome.age for outcome in earlier(store, app, flags, **wanted)]


def earlier(
    store: Store, app: str = APP, flags: Mapping[str, Any] | None = None, **wanted: Any
) -> tuple[EvaluationOutcome, ...]:
    held = start_tuning(store, app, flags or {}, TuneOptions(**wanted))
    with store.read() as session:
        return load_plan(session, app, held).earlier


def rename(document: Mapping[str, Any]) -> dict[str, Any]:
    """The same graph under other names."""
    new = {"parse": "read", "enrich": "join", "count": "add"}
    application = document["application"]
    operators = [{**operator, "name": new[operator["name"]]} for operator in application["operator"]]
    edges = [{**edge, "from": new[edge["from"]], "to": new[edge["to"]]} for edge in application["edge"]]
    sources = {new[name]: share for name, share in application.get("sources", {}).items()}
    stated = {**application, "name": OTHER, "operator": operators, "edge": edges}
    return {**document, "application": {**stated, "sources": sources} if sources else stated}


def change(document: Mapping[str, Any], table: str, **values: Any) -> dict[str, Any]:
    return {**document, table: {**document[table], **values}}


class TestAges:
    def test_an_empty_database_tells_nothing(self, file: Store) -> None:
        add(file)
        assert ages(file) == []

    def test_the_same_workload_is_as_young_as_another_run_can_be(self, file: Store) -> None:
        add(file)
        run(file, engine="random", budget=5)
        assert ages(file) == [YOUNGEST] * 5

    def test_they_grow_with_the_distance_of_the_workloads(self, file: Store) -> None:
        add(file)
        run(file, engine="random", budget=3)
        found = []
        for factor in (1.0, 1.05, 1.2, 1.6):
            rates = {"low": 80.0 * factor, "high": 900.0 * factor}
            put(file, APP, change(describe(), "trace", **rates))
            found.append(ages(file)[0])
        assert found == sorted(found)
        assert len(set(found)) == 4
        # the mean and the high rate both grow by the factor, but for the noise, which grows less
        assert [age - YOUNGEST for age in found[1:]] == pytest.approx(
            [2 * math.log(factor) for factor in (1.05, 1.2, 1.6)], rel=0.1
        )

    def test_so_with_another_r_max_and_other_service_times(self, file: Store) -> None:
        add(file)
        run(file, engine="random", budget=3)
        assert ages(file, flags={"qos": {"r_max": 0.072}})[0] == pytest.approx(YOUNGEST + math.log(1.2))
        document = describe()
        operators = [
            {**operator, "service_time": 1.1 * operator["service_time"]}
            for operator in document["application"]["operator"]
        ]
        put(file, APP, change(document, "application", operator=operators))
        assert ages(file)[0] == pytest.approx(YOUNGEST + math.log(1.1))

    def test_costs_are_scaled_with_the_rates(self, file: Store) -> None:
        add(file)
        ended = run(file, engine="random", budget=3)
        put(file, APP, change(describe(), "trace", low=80.0 * 1.3, high=900.0 * 1.3))
        was = sorted(trial.price or 0.0 for trial in ended.trials[1:4])
        now = sorted(outcome.price for outcome in earlier(file))
        assert now == pytest.approx([1.3 * cost for cost in was], rel=0.02)

    def test_what_is_too_far_tells_nothing(self, file: Store) -> None:
        add(file)
        run(file, engine="random", budget=3)
        rates = {"low": 80.0 * math.exp(OLDEST), "high": 900.0 * math.exp(OLDEST)}
        slow = [{**operator, "k_max": 60} for operator in describe()["application"]["operator"]]
        put(file, APP, change(change(describe(), "trace", **rates), "application", operator=slow))
        assert ages(file) == []


class TestWhichRuns:
    def test_another_policy_or_other_node_types_tell_nothing(self, file: Store) -> None:
        add(file)
        run(file, engine="random", budget=3)
        assert len(ages(file)) == 3
        assert ages(file, flags={"policy": {"name": "threshold-c"}}) == []
        nodes = describe()["infrastructure"]["node"]
        put(file, APP, change(describe(), "infrastructure", node=[{**nodes[0], "price": 1.1}, *nodes[1:]]))
        assert ages(file) == []
        put(file, APP, change(describe(), "infrastructure", node=[*nodes[:2], {**nodes[2], "speedup": 0.8}]))
        assert ages(file) == []

    def test_another_graph_tells_nothing(self, file: Store) -> None:
        add(file)
        run(file, engine="random", budget=3)
        application = describe()["application"]
        edges = [application["edge"][0], {"from": "parse", "to": "count"}]
        put(file, APP, change(describe(), "application", edge=edges))
        assert ages(file) == []

    def test_another_application_of_the_same_shape_counts_less(self, file: Store) -> None:
        add(file)
        ended = run(file, engine="random", budget=4)
        put(file, OTHER, rename(describe()))
        found = earlier(file, OTHER)
        assert [outcome.age for outcome in found] == pytest.approx([YOUNGEST + STRANGER] * 4)
        was = sorted(tuple(trial.parameters["shares"].values()) for trial in ended.trials[1:5])
        now = sorted(outcome.parameters.shares for outcome in found)
        assert np.array(now) == pytest.approx(np.array(was))

    def test_its_own_runs_come_first_and_there_is_an_end_to_it(self, file: Store) -> None:
        put(file, OTHER, rename(describe(slots=300)))
        add(file, slots=300)
        for seed in range(3):
            run(file, OTHER, engine="random", budget=20, seed=seed)
            run(file, engine="random", budget=20, seed=10 + seed)
        found = ages(file)
        assert found[: 3 * EACH] == pytest.approx([YOUNGEST] * 3 * EACH)
        assert found[3 * EACH :] == pytest.approx([YOUNGEST + STRANGER] * (MOST - 3 * EACH))

    def test_the_cheapest_that_are_feasible_and_some_of_the_others(self, file: Store) -> None:
        add(file)
        ended = run(file, engine="random", budget=40)
        searched = [trial for trial in ended.trials if trial.detail["purpose"] == "search"]
        feasible = sorted(trial.price or 0.0 for trial in searched if trial.feasible)
        found = earlier(file)
        assert len(found) == EACH
        costs = [outcome.price for outcome in found]
        assert costs[: EACH // 2] == feasible[: EACH // 2]
        assert any(outcome.violations > 0.05 for outcome in found)

    def test_shares_are_made_to_fit_the_space_that_is_searched_now(self, file: Store) -> None:
        add(file)
        run(file, engine="random", budget=6)
        held = start_tuning(file, APP, {"qos": {"paths": {"parse -> enrich -> count": 0.05}}}, TuneOptions())
        with file.read() as session:
            plan = load_plan(session, APP, held)
        assert len(plan.earlier) == 6
        shares = np.array([outcome.parameters.shares for outcome in plan.earlier])
        assert np.all(fits(plan.problem.space, shares))


class TestSearch:
    @pytest.mark.parametrize("engine", ["gp", "skopt", "optuna", "random"])
    def test_cold_is_as_in_a_fresh_database(self, engine: str, file: Store, tmp_path: Path) -> None:
        add(file)
        run(file, engine="random", budget=5, seed=9)
        cold = run(file, engine=engine, budget=6, cold=True)
        with closing(open_store(tmp_path / "fresh.db")) as fresh:
            add(fresh)
            first = run(fresh, engine=engine, budget=6)
        assert all_figures(cold.trials) == all_figures(first.trials)
        assert recommended(cold.objective) == recommended(first.objective)

    def test_a_warm_run_that_is_stopped_goes_on_the_same(self, file: Store, tmp_path: Path) -> None:
        add(file)
        run(file, engine="random", budget=8, seed=9)
        with closing(open_store(tmp_path / "other.db")) as other:
            add(other)
            run(other, engine="random", budget=8, seed=9)
            whole = run(other, budget=6)
        parts = self.run_with_a_rival(file, budget=6)
        assert all_figures(parts.trials) == all_figures(whole.trials)
        assert recommended(parts.objective) == recommended(whole.objective)
        cold = run(file, budget=6, cold=True)
        assert [trial.parameters for trial in cold.trials] != [trial.parameters for trial in whole.trials]

    def run_with_a_rival(self, store: Store, **wanted: Any) -> TuningResult:
        """Another run ends while this one is stopped, and must tell it nothing."""
        held = start_tuning(store, APP, {}, TuneOptions(**wanted))
        with pytest.raises(Stop):
            tune(store, APP, held, stop_after(3))
        run(store, engine="random", budget=5, seed=11)
        held = resume_tuning(store, APP)
        with pytest.raises(Stop):
            tune(store, APP, held, stop_after(6))
        return tune(store, APP, resume_tuning(store, APP))

    @pytest.mark.long
    @pytest.mark.slow
    def test_what_took_many_evaluations_takes_few_the_next_time(self, tmp_path: Path) -> None:
        """How many evaluations until a feasible trial is as cheap as the best of a cold run of fourteen; by chance
        alone, nine of ten pairs or more would favour the warm ones in one case of ninety."""
        with closing(open_store(tmp_path / "tuner.db")) as store:
            add(store, slots=300)
            search_quadratic(store, budget=20, seed=100)
        warm, cold = [], []
        for seed in range(10):
            learning = search_copy(tmp_path, budget=14, seed=seed, cold=True)
            again = search_copy(tmp_path, budget=14, seed=seed)
            goal = min(learning)
            cold.append(learning.index(goal) + 1)
            warm.append(next((n for n, cost in enumerate(again, 1) if cost <= 1.01 * goal), 15))
        assert sum(w < c for w, c in zip(warm, cold, strict=True)) >= 9
        assert 2 * np.median(warm) <= np.median(cold)


def search_copy(folder: Path, **wanted: Any) -> list[float]:
    """A search in a copy of the database, under a load 5 % higher than that of the run in there."""
    shutil.copy(folder / "tuner.db", folder / "copy.db")
    with closing(open_store(folder / "copy.db")) as store:
        put(store, APP, change(describe(slots=300), "trace", low=84.0, high=945.0))
        return search_quadratic(store, **wanted)


def search_quadratic(store: Store, **wanted: Any) -> list[float]:
    """The costs of the trials of a search, infinite where not feasible."""
    problem = quadratic()

    def judge(spec: EvaluationSpec, parameters: Sequence[Parameters], ceiling: float) -> Iterator[Evaluation]:
        for one in parameters:
            yield Evaluation(evaluate(problem, Suggestion(one)), spec.seeds, 0, 0, 0.0, np.zeros((3, 3)))

    ended = tune(store, APP, start_tuning(store, APP, {}, TuneOptions(**wanted)), spread=judge)
    searched = [trial for trial in ended.trials if trial.detail["purpose"] == "search"]
    return [(trial.price or math.inf) if trial.feasible else math.inf for trial in searched]
