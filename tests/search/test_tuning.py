"""What a whole tuning does: trials in stages, a recommendation with its evidence, and refusals."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scaler.model.task import Weights
from sim.trace import window
from tests.search.runs import (
    OPERATORS,
    add,
    of,
    read_brief_of,
    read_objectives,
    read_run,
    replay,
    run,
    setting_of,
)
from tuner.cli.tune_command import say_relief
from tuner.search.evaluation import evaluate
from tuner.search.recommendation import CONFIDENCE, MOST_PROVED, PROVED, find_least_infeasible
from tuner.search.space.space import Parameters, from_document, measure_slack
from tuner.search.tuning_run import TuningResult
from tuner.store.connection import Store


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

    def test_proposal_is_cheapest_verified_trial(self, file: Store) -> None:
        add(file)
        ended = run(file, flags={"qos": {"eta_v": 0.01}}, engine="random", budget=12, seed=1)
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
            and proof.detail["held_out"]["violations"] <= 0.01
            and proof.detail["held_out"]["reconfigurations"] <= 0.1
        ]
        assert 1 < len(passing) < len(proofs)  # else nothing was chosen
        best = min(passing, key=lambda proof: proof.price or math.inf)
        objective, chosen = ended.objective, ended.trials[best.detail["of"]]
        assert objective is not None
        assert (objective.state, objective.trial_id) == ("proposed", chosen.id)
        assert objective.provenance == f"trial {chosen.id} of run {ended.run.id}"
        assert objective.bounds == {name: 0.06 * share for name, share in chosen.parameters["shares"].items()}
        weights = objective.weights
        stated = {"perf": weights.performance, "rcf": weights.reconfiguration, "res": weights.resources}
        assert stated == chosen.parameters["weights"]
        evidence, baseline = objective.evidence, ended.trials[0]
        for name in ("cost", "violations", "reconfigurations"):
            figure = "price" if name == "cost" else name
            assert evidence[name] == getattr(best, figure)
            assert evidence["baseline"][name] == getattr(baseline, figure)
        assert evidence["held_out"] == best.detail["held_out"]
        assert evidence["held_out"]["slots"] == 600
        model = evidence["model"]
        assert set(model["operators"]) == set(OPERATORS)
        assert model["policy"] == chosen.detail["policy"]
        assert evidence["confidence"] == best.detail["confidence"]

    def test_the_figures_are_those_that_a_replay_gives(self, file: Store) -> None:
        add(file)
        ended = run(file, engine="random", budget=12)
        for trial in (ended.trials[0], *of(ended, "search"), *of(ended, "verify")):
            setting = setting_of(ended, from_document(OPERATORS, trial.parameters), 0.06)
            if trial.detail["purpose"] != "verify":
                setting = replace(setting, trace=window(setting.trace, 0, 2400))
            cost, violations, moves = replay(setting, trial.detail["seeds"])
            assert (trial.price, trial.violations, trial.reconfigurations) == pytest.approx((cost, violations, moves))
        assert ended.objective is not None
        number = next(trial.number for trial in ended.trials if trial.id == ended.objective.trial_id)
        proof = next(trial for trial in of(ended, "verify") if trial.detail["of"] == number)
        assert ended.objective.evidence["verified_on"] == {"seeds": proof.detail["seeds"], "slots": 3000, "days": 2.083}
        seen = {seed for trial in ended.trials[:13] for seed in trial.detail["seeds"]}
        assert not seen & {seed for trial in of(ended, "verify") for seed in trial.detail["seeds"]}

    def test_without_a_held_out_end_all_slots_are_searched(self, file: Store) -> None:
        add(file, slots=1000)
        ended = run(file, engine="random", budget=3, held_out=0.0)
        assert ended.trials[0].slots == 1000
        assert all(
            proof.detail["held_out"]["cost"] == proof.price and proof.detail["held_out"]["slots"] == 0
            for proof in of(ended, "verify")
        )


class TestNothingFeasible:
    """Thirty milliseconds are too few for a threshold that knows nothing of them."""

    @pytest.fixture
    def ended(self, file: Store) -> TuningResult:
        add(file, qos={"r_max": 0.03})
        return run(file, flags={"policy": {"name": "threshold-c"}}, engine="random", budget=4)

    def test_nothing_is_proposed_and_the_nearest_is_shown(self, ended: TuningResult, file: Store) -> None:
        assert (ended.objective, read_objectives(file)) == (None, [])
        assert ended.run.state == "done"
        assert ended.nearest is not None
        assert [proof.detail["of"] for proof in of(ended, "verify")] == [0]
        assert all(trial.slack is not None and trial.slack < 0.0 for trial in ended.trials)

    def test_nothing_is_searched_that_the_threshold_does_not_look_at(self, ended: TuningResult) -> None:
        assert [trial.about.purpose for trial in ended.trials] == ["baseline", "verify"]
        assert ended.trials[0].about.note == {"engine": "naive", "fixed": ["shares", "weights"]}

    def test_a_relief_is_the_first_step_that_meets_the_constraints(self, ended: TuningResult) -> None:
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
        assert (found.price, found.violations, found.reconfigurations) == pytest.approx((cost, violations, moves))
        assert try_longer(1.25)[1] > 0.05
        assert (replicas.outcome, faster.outcome) == (None, None)
        assert say_relief(longer).endswith(f"reconfigurations {moves:.2%}, {cost:.4g} per hour")
        assert replicas.what.startswith("more replicas would not do")
        assert faster.what.startswith("a faster node type would not do")

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
        plan = read_brief_of(file)
        outcomes = [evaluate(plan.spec, Parameters((0.3, 0.4, 0.3), Weights(0.4, 0.4, 0.2))).outcome] * 3
        dear, cheap = replace(outcomes[0], price=9.0, violations=0.0), replace(outcomes[0], price=7.0, violations=0.0)
        broken = replace(outcomes[0], price=1.0, violations=0.5)
        assert find_least_infeasible([broken, dear, cheap], plan.spec.qos) == 2


def test_slack_of_a_trial_is_that_of_its_figures(file: Store) -> None:
    add(file)
    ended = run(file, engine="random", budget=4)
    plan = read_brief_of(file)
    for trial in ended.trials:
        parameters = from_document(OPERATORS, trial.parameters)
        assert trial.violations is not None
        assert trial.reconfigurations is not None
        assert trial.price is not None
        outcome = evaluate(replace(plan.spec, seeds=(0,)), parameters).outcome
        known = replace(outcome, violations=trial.violations, reconfigurations=trial.reconfigurations)
        assert trial.slack == measure_slack(known, plan.spec.qos)
        assert trial.feasible == (trial.slack >= 0.0)
