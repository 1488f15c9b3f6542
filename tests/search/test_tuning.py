"""What a whole tuning does: trials in stages, a recommendation with its evidence, and refusals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scaler.errors import BadInput
from scaler.problem import Weights
from sim.setting import Setting
from sim.simulate import simulate
from sim.trace import window
from tests.search.runs import (
    APP,
    Stop,
    add,
    all_figures,
    describe,
    put,
    read_objectives,
    read_run,
    read_runs,
    recommended,
    run,
    run_anew,
    run_in_pieces,
    stop_after,
)
from tests.surrogate.worlds import WINDOW, queue_stream
from tuner.description import scenario_of
from tuner.pipeline.sample import Sample
from tuner.search.brief import Wanted, read_brief
from tuner.search.crowd import spread_here
from tuner.search.engines import ENGINES
from tuner.search.evaluation import HOPELESS, Exam, Result, evaluate
from tuner.search.history import measure_slack
from tuner.search.parameters import Parameters, from_document
from tuner.search.recommendation import CONFIDENCE, MOST_PROVED, PROVED, find_least_infeasible
from tuner.search.tuning import Ended, resume_tuning, start_tuning, tune
from tuner.store.connection import Store, open_store
from tuner.store.records import Trial
from tuner.store.samples import save_samples
from tuner.store.surrogates import save_surrogate
from tuner.surrogate.fit import fit
from tuner.surrogate.kept import to_record
from tuner.surrogate.surrogate import Surrogate

SLOTS, SEARCHED = 104_000, 83_200  # of a trace that is looked at first
OPERATORS = ("parse", "enrich", "count")
ARRANGED = ("gp", "skopt", "optuna", "random")  # engines that ask for as much as one likes


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Store]:
    """For what is the same on every database."""
    opened = open_store(tmp_path / "tuner.db")
    yield opened
    opened.close()


def of(ended: Ended, purpose: str) -> list[Trial]:
    return [trial for trial in ended.trials if trial.detail["purpose"] == purpose]


def setting_of(ended: Ended, parameters: Parameters, r_max: float) -> Setting:
    """The setting in which a trial was replayed, from the run's document and the simulator's own words alone."""
    document = ended.run.settings["document"]
    setting = scenario_of(document).settings[0]
    bounds = {name: share * r_max for name, share in zip(OPERATORS, parameters.shares, strict=True)}
    highest = float(setting.trace.rates.max())
    return replace(setting, r_max=r_max, bounds=bounds, weights=parameters.weights, highest_rate=highest)


def replay(setting: Setting, seeds: Sequence[int]) -> tuple[float, float, float]:
    """Cost, violations and reconfigurations, as means over seeds."""
    runs = [simulate(setting, seed) for seed in seeds]
    means = np.mean([(r.resources, r.violations, r.reconfigurations) for r in runs], axis=0)
    return float(means[0]), float(means[1]), float(means[2])


class TestStages:
    def test_baseline_search_proofs_and_an_objective(self, store: Store) -> None:
        add(store)
        ended = run(store, engine="random", budget=8)
        purposes = [trial.detail["purpose"] for trial in ended.trials]
        proofs = of(ended, "verify")
        assert purposes == ["baseline"] + ["search"] * 8 + ["verify"] * len(proofs)
        assert [trial.number for trial in ended.trials] == list(range(len(ended.trials)))
        assert PROVED <= len(proofs) <= MOST_PROVED
        assert (ended.run.state, ended.run.owner, ended.run.lease_until) == ("done", None, None)
        assert read_run(store, ended.run.id or 0) == list(ended.trials)
        assert read_objectives(store) == [ended.objective]

    def test_the_baseline_is_equal_shares_and_weights(self, file: Store) -> None:
        add(file)
        baseline = run(file, engine="random", budget=1).trials[0]
        assert baseline.parameters["shares"] == pytest.approx(dict.fromkeys(OPERATORS, 1 / 3))
        assert baseline.parameters["weights"] == pytest.approx(dict.fromkeys(("perf", "rcf", "res"), 1 / 3))

    def test_what_is_proposed_is_the_cheapest_that_was_proved(self, file: Store) -> None:
        add(file)
        ended = run(file, engine="random", budget=12)
        proofs, candidates = of(ended, "verify"), [*of(ended, "baseline"), *of(ended, "search")]
        numbers = [proof.detail["of"] for proof in proofs]
        assert len(set(numbers)) == len(numbers)
        assert set(numbers) <= {trial.number for trial in candidates if trial.state == "complete"}
        assert all(proof.parameters == ended.trials[proof.detail["of"]].parameters for proof in proofs)
        passing = [
            proof
            for proof in proofs
            if proof.feasible
            and proof.detail["confidence"] >= CONFIDENCE
            and proof.detail["held_out"]["violations"] <= 0.05
            and proof.detail["held_out"]["reconfigurations"] <= 0.1
        ]
        assert 1 < len(passing) < len(proofs)  # else nothing was chosen
        best = min(passing, key=lambda proof: proof.cost or math.inf)
        objective, chosen = ended.objective, ended.trials[best.detail["of"]]
        assert objective is not None
        assert (objective.state, objective.trial_id) == ("proposed", chosen.id)
        assert objective.provenance == f"trial {chosen.number} of run {ended.run.id}"
        assert objective.bounds == {name: 0.06 * share for name, share in chosen.parameters["shares"].items()}
        weights = objective.weights
        stated = {"perf": weights.performance, "rcf": weights.reconfiguration, "res": weights.resources}
        assert stated == chosen.parameters["weights"]
        evidence, baseline = objective.evidence, ended.trials[0]
        for name in ("cost", "violations", "reconfigurations"):
            assert evidence[name] == getattr(best, name)
            assert evidence["baseline"][name] == getattr(baseline, name)
        assert evidence["held_out"] == best.detail["held_out"]
        assert evidence["held_out"]["slots"] == 600
        assert evidence["confidence"] == best.detail["confidence"]

    def test_the_figures_are_those_that_a_replay_gives(self, file: Store) -> None:
        add(file)
        ended = run(file, engine="random", budget=12)
        for trial in (ended.trials[0], *of(ended, "search"), *of(ended, "verify")):
            setting = setting_of(ended, from_document(OPERATORS, trial.parameters), 0.06)
            if trial.detail["purpose"] != "verify":
                setting = replace(setting, trace=window(setting.trace, 0, 2400))
            cost, violations, moves = replay(setting, trial.detail["seeds"])
            assert (trial.cost, trial.violations, trial.reconfigurations) == pytest.approx((cost, violations, moves))
        assert ended.objective is not None
        number = int(ended.objective.provenance.split()[1])
        proof = next(trial for trial in of(ended, "verify") if trial.detail["of"] == number)
        assert ended.objective.evidence["verified_on"] == {"seeds": proof.detail["seeds"], "slots": 3000}
        seen = {seed for trial in ended.trials[:13] for seed in trial.detail["seeds"]}
        assert not seen & {seed for trial in of(ended, "verify") for seed in trial.detail["seeds"]}

    def test_without_a_held_out_end_all_slots_are_searched(self, file: Store) -> None:
        add(file, slots=1000)
        ended = run(file, engine="random", budget=3, held_out=0.0)
        assert ended.trials[0].slots == 1000 * len(ended.trials[0].detail["seeds"])
        assert all(
            proof.detail["held_out"]["cost"] == proof.cost and proof.detail["held_out"]["slots"] == 0
            for proof in of(ended, "verify")
        )


class TestNothingFeasible:
    """Thirty milliseconds are too few for a threshold that knows nothing of them."""

    @pytest.fixture
    def ended(self, file: Store) -> Ended:
        add(file, qos={"r_max": 0.03})
        return run(file, flags={"policy": {"name": "threshold-c"}}, engine="random", budget=4)

    def test_nothing_is_proposed_and_the_nearest_is_shown(self, ended: Ended, file: Store) -> None:
        assert (ended.objective, read_objectives(file)) == (None, [])
        assert ended.run.state == "done"
        assert ended.nearest is not None
        assert {proof.detail["of"] for proof in of(ended, "verify")} == {0, 1, 2, 3, 4}
        assert all(trial.slack is not None and trial.slack < 0.0 for trial in ended.trials)

    def test_a_relief_is_the_first_step_that_meets_the_constraints(self, ended: Ended) -> None:
        longer, replicas, faster = ended.relief
        assert ended.nearest is not None
        parameters = from_document(OPERATORS, ended.nearest.parameters)

        def try_longer(step: float) -> tuple[float, float, float]:
            setting = setting_of(ended, parameters, 0.03 * step)
            return replay(replace(setting, trace=window(setting.trace, 0, 2400)), ended.run.settings["seeds"])

        assert longer.what == "an R_max of 45 ms instead of 30 ms"
        cost, violations, moves = try_longer(1.5)
        assert violations <= 0.05
        assert moves <= 0.1
        assert longer.outcome is not None
        found = longer.outcome
        assert (found.cost, found.violations, found.reconfigurations) == pytest.approx((cost, violations, moves))
        assert try_longer(1.25)[1] > 0.05
        assert (replicas.outcome, faster.outcome) == (None, None)
        assert replicas.what.startswith("no more replicas")
        assert faster.what.startswith("no faster node type")

    def test_the_nearest_has_most_slack_by_its_proof(self, file: Store) -> None:
        add(file, qos={"r_max": 0.03, "eta_v": 0.001})
        ended = run(file, engine="random", budget=8)
        proved = {proof.detail["of"]: proof.slack for proof in of(ended, "verify")}
        by_proof = {trial.number: proved.get(trial.number, trial.slack) for trial in of(ended, "search")}
        assert ended.objective is None
        assert ended.nearest is not None
        assert ended.nearest.number == max(by_proof, key=lambda number: by_proof[number] or 0.0)

    def test_of_several_that_are_feasible_the_cheapest_is_nearest(self, file: Store) -> None:
        add(file)
        brief = read_brief_of(file)
        outcomes = [evaluate(brief.exam, Parameters((0.3, 0.4, 0.3), Weights(0.4, 0.4, 0.2))).outcome] * 3
        dear, cheap = replace(outcomes[0], cost=9.0, violations=0.0), replace(outcomes[0], cost=7.0, violations=0.0)
        broken = replace(outcomes[0], cost=1.0, violations=0.5)
        assert find_least_infeasible([broken, dear, cheap], brief.exam.qos) == 2


def read_brief_of(store: Store, app: str = APP, flags: Mapping[str, Any] | None = None, **wanted: Any) -> Any:
    held = start_tuning(store, app, flags or {}, Wanted(**wanted))
    with store.read() as session:
        return read_brief(session, app, held)


class TestRefusals:
    @pytest.mark.parametrize(
        ("flags", "wanted", "sentence"),
        [
            ({"qos": {"r_max": 0.001}}, {}, "no deployment answers within"),
            ({"policy": {"name": "nosuch"}}, {}, "nosuch"),
            ({"qos": {"eta_v": 1.5}}, {}, "eta_v"),
            ({"trace": {"slots": -3}}, {}, "slots"),
            ({}, {"engine": "nosuch"}, "there is no engine 'nosuch'; choose one of gp, skopt"),
            ({}, {"held_out": 0.95}, "--held-out is 0.95, and must lie between 0 and 0.9"),
        ],
    )
    def test_what_cannot_be_searched_is_refused_before_anything_is_written(
        self, file: Store, flags: dict[str, Any], wanted: dict[str, Any], sentence: str
    ) -> None:
        add(file)
        with pytest.raises(BadInput, match=sentence):
            run(file, flags=flags, budget=3, **wanted)
        assert read_runs(file) == []

    def test_an_application_that_is_not_there(self, file: Store) -> None:
        add(file)
        with pytest.raises(BadInput, match="there is no application 'nosuch'; there are clicks"):
            run(file, "nosuch")
        with pytest.raises(BadInput, match="there is no application 'nosuch'"):
            resume_tuning(file, "nosuch")

    def test_nothing_waits_to_be_resumed(self, file: Store) -> None:
        add(file)
        run(file, engine="random", budget=1)
        with pytest.raises(BadInput, match="no run of 'clicks' waits to be resumed; start one with: tuner tune clicks"):
            resume_tuning(file, APP)

    def test_neither_a_trace_nor_samples(self, file: Store) -> None:
        document = {name: table for name, table in describe().items() if name != "trace"}
        put(file, APP, document)
        with pytest.raises(BadInput, match="nothing says at which rates tuples come to 'clicks'; name a file with"):
            run(file)


class TestTime:
    def test_asking_stops_after_so_many_seconds_and_proofs_follow(self, file: Store) -> None:
        add(file)
        ticks = count(1_000)
        held = start_tuning(file, APP, {}, Wanted(engine="random", budget=500))
        ended = tune(file, APP, held, seconds=40.0, clock=lambda: float(next(ticks)))
        searched = of(ended, "search")
        assert 3 < len(searched) < 20
        assert all(trial.ended < 1_041.0 for trial in searched)
        assert len(of(ended, "verify")) == PROVED
        assert ended.run.state == "done"

    def test_no_time_at_all_leaves_the_baseline(self, file: Store) -> None:
        add(file)
        ticks = count(1_000)
        held = start_tuning(file, APP, {}, Wanted(engine="random", budget=5))
        ended = tune(file, APP, held, seconds=0.5, clock=lambda: float(next(ticks)))
        assert [trial.detail["purpose"] for trial in ended.trials] == ["baseline", "verify"]
        assert ended.objective is not None  # which is feasible here, and proved like any other
        assert ended.objective.trial_id == ended.trials[0].id


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
        held = start_tuning(file, APP, {}, Wanted(engine="random", budget=3))
        with pytest.raises(Stop):
            tune(file, APP, held, stop_after(2))
        ended = tune(file, APP, resume_tuning(file, APP))
        with pytest.raises(BadInput, match="waits to be resumed"):
            resume_tuning(file, APP)
        assert len(read_objectives(file)) == 1
        assert read_run(file, ended.run.id or 0) == list(ended.trials)


class TestFailures:
    """Some replays fail, the same ones each time."""

    @staticmethod
    def spread(exam: Exam, parameters: Sequence[Parameters], ceiling: float) -> Iterator[Result]:
        for one, result in zip(parameters, spread_here(exam, parameters, ceiling), strict=True):
            if one.weights.performance > 0.4 or one.shares[0] > 0.5:
                nan = math.nan
                nothing = replace(result.outcome, cost=nan, violations=nan, reconfigurations=nan, whole=False)
                result = replace(result, outcome=nothing, failure="a replica was lost", seeds=(), slots=0, saved=0)
            yield result

    @pytest.mark.parametrize("engine", ARRANGED)
    def test_failed_trials_are_kept_survive_a_stop_and_are_not_recommended(self, engine: str, tmp_path: Path) -> None:
        whole = self.run(tmp_path / "whole.db", engine, [])
        parts = self.run(tmp_path / "parts.db", engine, [4, 7, 9])
        failed = [trial for trial in whole.trials if trial.state == "failed"]
        assert 0 < len(failed) < 8
        for trial in failed:
            assert (trial.cost, trial.feasible, trial.failure) == (None, None, "a replica was lost")
        assert not {proof.detail["of"] for proof in of(whole, "verify")} & {trial.number for trial in failed}
        assert all_figures(parts.trials) == all_figures(whole.trials)

    def run(self, path: Path, engine: str, pieces: Sequence[int]) -> Ended:
        store = open_store(path)
        add(store)
        held = start_tuning(store, APP, {}, Wanted(engine=engine, budget=8))
        for stop in pieces:
            with pytest.raises(Stop):
                tune(store, APP, held, stop_after(stop), spread=self.spread)
            held = resume_tuning(store, APP)
        ended = tune(store, APP, held, spread=self.spread)
        store.close()
        return ended

    def test_where_all_fail_the_baseline_is_all_there_is(self, file: Store) -> None:
        add(file)

        def fail(exam: Exam, parameters: Sequence[Parameters], ceiling: float) -> Iterator[Result]:
            for result in spread_here(exam, parameters, ceiling):
                nan = math.nan
                nothing = replace(result.outcome, cost=nan, violations=nan, reconfigurations=nan, whole=False)
                yield replace(result, outcome=nothing, failure="no", seeds=(), slots=0, saved=0)

        held = start_tuning(file, APP, {}, Wanted(budget=6))
        ended = tune(file, APP, held, spread=fail)
        assert [trial.state for trial in of(ended, "search")] == ["failed"] * 6
        assert [trial.detail["of"] for trial in of(ended, "verify")] == [0]
        assert ended.objective is not None
        assert ended.objective.trial_id == ended.trials[0].id


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    store = open_store(tmp_path_factory.mktemp("long") / "tuner.db")
    add(store, slots=SLOTS)
    ended = run(store, engine="random", budget=8)
    store.close()
    return ended


class TestShortLooks:
    """A trace so long that its first eighth tells whether the rest is worth it."""

    def test_what_is_given_up_is_never_proved(self, long_run: Ended) -> None:
        pruned = [trial for trial in long_run.trials if trial.state == "pruned"]
        assert 0 < len(pruned) < 8
        assert {trial.detail["purpose"] for trial in pruned} == {"search"}
        assert not any(trial.feasible for trial in pruned)
        assert not {trial.number for trial in pruned} & {proof.detail["of"] for proof in of(long_run, "verify")}

    def test_slots_replayed_and_saved_are_counted(self, long_run: Ended) -> None:
        look = SEARCHED // 8
        for trial in of(long_run, "search"):
            seeds = len(trial.detail["seeds"])
            assert trial.slots == (look if trial.state == "pruned" else look + seeds * SEARCHED)
            assert trial.slots is not None
            assert trial.slots + trial.detail["slots_saved"] == 3 * SEARCHED
        assert long_run.trials[0].slots == SEARCHED * len(long_run.trials[0].detail["seeds"])
        assert all(proof.slots == SLOTS * len(proof.detail["seeds"]) for proof in of(long_run, "verify"))

    def test_the_other_seeds_are_replayed_where_the_first_is_near_the_best(self, long_run: Ended) -> None:
        best = math.inf
        for trial in of(long_run, "search"):
            if trial.state == "complete":
                assert len(trial.detail["seeds"]) in (1, 2, 3)
                if len(trial.detail["seeds"]) == 1:  # too dear, or out of bounds
                    assert (trial.cost or 0.0) > best or (trial.slack or 0.0) < 0.0
            if trial.feasible:
                best = min(best, trial.cost or math.inf)

    def test_what_was_given_up_broke_a_constraint_many_times_over(self, long_run: Ended) -> None:
        """In the second half of the look, when a policy that learns has had some time to."""
        for trial in long_run.trials:
            if trial.state == "pruned":
                setting = setting_of(long_run, from_document(OPERATORS, trial.parameters), 0.06)
                blocks = simulate(replace(setting, trace=window(setting.trace, 0, SEARCHED // 8)), 0).blocks
                late = np.cumsum(blocks["slots"]) > SEARCHED // 16
                broken = np.average(blocks["violations"][late], weights=blocks["slots"][late])
                moved = np.average(blocks["reconfigurations"][late], weights=blocks["slots"][late])
                assert broken > HOPELESS * 0.05 * 0.9 or moved > HOPELESS * 0.1 * 0.9  # but for one block


class TestSurrogate:
    """A stream of two operators that was monitored for 100 windows, each of whose answers takes 50 ms more."""

    R_MAX = 0.35
    DOCUMENT: Mapping[str, Any] = {
        "application": {
            "name": "shop",
            "operator": [
                {"name": "count", "service_time": 0.001, "scv": 1.0, "k_max": 6},
                {"name": "store", "service_time": 0.001, "scv": 1.0, "k_max": 6},
            ],
            "edge": [{"from": "count", "to": "store", "selectivity": 0.9}],
        },
        "infrastructure": {
            "node": [
                {"name": "plain", "speedup": 1.0, "price": 1.0},
                {"name": "big", "speedup": 2.0, "price": 1.8},
            ]
        },
        "qos": {"r_max": R_MAX, "eta_v": 0.3, "eta_r": 0.9},
    }

    @staticmethod
    def monitored() -> list[Sample]:
        samples = queue_stream("gamma", 100)
        stored = queue_stream("gamma", 100, seed=2, mean=0.01, selectivity=0.0)
        rest = [
            replace(late, operator="store", arrived=0.7 * (early.tuples_out or 0.0))
            for late, early in zip(stored, samples, strict=True)
        ]
        return [*samples, *rest]

    def keep(self, store: Store, health: str | None = None) -> tuple[Surrogate, int]:
        put(store, "shop", self.DOCUMENT)
        fitted = fit(self.monitored(), "shop")
        record = to_record(fitted, 1.0)
        with store.begin() as session:
            save_samples(session, self.monitored())
            kept = save_surrogate(session, record if health is None else replace(record, health=health))
        return fitted, kept.id or 0

    def test_what_was_measured_is_searched(self, file: Store) -> None:
        fitted, number = self.keep(file)
        held = start_tuning(file, "shop", {}, Wanted(engine="random", budget=4))
        with file.read() as session:
            brief = read_brief(session, "shop", held)
        count, store = brief.exam.setting.application.operators
        constants = [o.replayed.parameters["constant"] for o in fitted.operators if o.replayed]
        assert (count.moments.mean, store.moments.mean) == pytest.approx((0.02, 0.01), rel=0.03)
        assert constants == pytest.approx([0.05, 0.05], rel=0.1)
        assert brief.exam.qos.r_max == pytest.approx(self.R_MAX - sum(constants))
        assert brief.exam.setting.application.edges[0].selectivity == pytest.approx(0.7)
        arrived = [(s.arrived or 0.0) / WINDOW for s in self.monitored() if s.operator == "count"]
        assert brief.proof.trace.rates == pytest.approx(np.array(arrived))
        assert brief.exam.setting.trace.rates == pytest.approx(np.array(arrived[:80]))
        ended = tune(file, "shop", held)
        assert {trial.surrogate_id for trial in ended.trials} == {number}
        assert all(proof.slots == 100 * len(proof.detail["seeds"]) for proof in of(ended, "verify"))
        assert ended.objective is not None
        assert ended.objective.surrogate_id == number
        assert sum(ended.objective.bounds.values()) <= 1.05 * (self.R_MAX - sum(constants))

    def test_more_samples_and_another_surrogate_do_not_change_a_run_that_was_begun(
        self, file: Store, tmp_path: Path
    ) -> None:
        self.keep(file)
        whole = run(file, "shop", engine="random", budget=4)
        other = open_store(tmp_path / "other.db")
        self.keep(other)
        held = start_tuning(other, "shop", {}, Wanted(engine="random", budget=4))
        with pytest.raises(Stop):
            tune(other, "shop", held, stop_after(3))
        later = [replace(s, start=s.start + 100 * WINDOW, end=s.end + 100 * WINDOW) for s in self.monitored()]
        with other.begin() as session:
            save_samples(session, later)
            save_surrogate(session, replace(to_record(fit(later, "shop"), 2.0), health="fail"))
        ended = tune(other, "shop", resume_tuning(other, "shop"))
        other.close()
        assert all_figures(ended.trials) == all_figures(whole.trials)

    def test_one_whose_health_failed_is_refused_but_the_description_is_not(self, file: Store) -> None:
        self.keep(file, "fail")
        with pytest.raises(BadInput, match=r"surrogate 1 of 'shop' failed a check.*--as-described"):
            run(file, "shop", engine="random", budget=2)
        assert read_runs(file) == []
        brief = read_brief_of(file, "shop", engine="random", as_described=True)
        assert [o.moments.mean for o in brief.exam.setting.application.operators] == [0.001, 0.001]
        assert (brief.surrogate_id, brief.exam.qos.r_max) == (None, self.R_MAX)

    def test_constants_beyond_r_max_are_refused(self, file: Store) -> None:
        self.keep(file)
        with pytest.raises(BadInput, match="for triggers and scheduling alone"):
            run(file, "shop", {"qos": {"r_max": 0.08}}, engine="random", budget=2)
        assert read_runs(file) == []


def test_slack_of_a_trial_is_that_of_its_figures(file: Store) -> None:
    add(file)
    ended = run(file, engine="random", budget=4)
    brief = read_brief_of(file)
    for trial in ended.trials:
        parameters = from_document(OPERATORS, trial.parameters)
        assert trial.violations is not None
        assert trial.reconfigurations is not None
        assert trial.cost is not None
        outcome = evaluate(replace(brief.exam, seeds=(0,)), parameters).outcome
        known = replace(outcome, violations=trial.violations, reconfigurations=trial.reconfigurations)
        assert trial.slack == measure_slack(known, brief.exam.qos)
        assert trial.feasible == (trial.slack >= 0.0)


def test_a_run_whose_trace_has_changed_is_not_gone_on_with(file: Store, tmp_path: Path) -> None:
    """Its trials would have been made on two different traces."""
    trace = tmp_path / "rates.csv"
    rates = [100.0 + slot % 300 for slot in range(3000)]
    trace.write_text("rate\n" + "\n".join(map(str, rates)))
    add(file)
    begun = start_tuning(file, APP, {"trace": {"file": str(trace)}}, Wanted(budget=2))
    trace.write_text("rate\n" + "\n".join(map(str, [*rates[:-1], 5000.0])))
    with pytest.raises(BadInput, match="no longer those that run"):
        tune(file, APP, begun)
