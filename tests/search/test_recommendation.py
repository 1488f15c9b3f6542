"""What is recommended is neither lucky nor infeasible, and figures of a run's end are those of its last slots."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from scaler.model.errors import BadInput
from scaler.model.task import Weights
from sim.arrivals import generate
from sim.graphs import find_application
from sim.infrastructure import find_infrastructure
from sim.setting import Setting
from sim.simulate import simulate
from tuner.scenario.layout import QoS
from tuner.search.evaluation import EvaluationSpec, agree, apply_parameters, average, average_last
from tuner.search.feasibility import check_feasible
from tuner.search.other_days import DayErrors, bootstrap_days
from tuner.search.recommendation import (
    MOST_PROVED,
    PROVED,
    Verification,
    choose,
    find_least_infeasible,
    list_candidates,
    make_model,
    measure_confidence,
    needs_more,
    pick_next,
    verify,
)
from tuner.search.space.space import EvaluationOutcome, Parameters, from_cube, make_space, measure_slack, meets

QUALITY = QoS(0.05, 0.05, 0.10)
POINT = Parameters((0.3, 0.35, 0.35), Weights(0.5, 0.3, 0.2))


def make_setting(slots: int = 6_400, policy: str = "ql-pds-plus", r_max: float = 0.05) -> Setting:
    trace = generate("diurnal", low=50.0, high=500.0, slots=slots, seed=4)
    return Setting(find_application("pipeline"), find_infrastructure("A", 2), trace, policy, r_max)


def make_outcome(
    cost: float, violations: float = 0.01, error: float = 0.0, parameters: Parameters = POINT
) -> EvaluationOutcome:
    return EvaluationOutcome(parameters, cost, violations, 0.02, price_error=error)


def make_proof(cost: float, violations: float = 0.01, held_out: float = 0.01, confidence: float = 0.99) -> Verification:
    return Verification(make_outcome(cost, violations), make_outcome(cost, held_out), confidence)


def test_the_tail_of_a_run_is_the_mean_over_its_last_slots() -> None:
    run = simulate(make_setting(), 1, record=True)
    assert run.timeline is not None
    moved = (run.timeline.actions != 0).any(axis=0)
    assert average_last(run, 1_600)[2] == pytest.approx(moved[-1_600:].mean())
    late = run.timeline.responses.sum(axis=0) > 0.05
    assert average_last(run, 1_600)[1] == pytest.approx(late[-1_600:].mean())
    assert average_last(run, 0) == pytest.approx([run.resources, run.violations, run.reconfigurations])


def test_a_path_may_have_a_bound_of_its_own() -> None:
    setting = replace(make_setting(), bounds={"op1": 0.01, "op2": 0.02, "op3": 0.02})
    strict = simulate(replace(setting, r_max=0.03), 1)
    by_path = simulate(replace(setting, path_bounds={"op1 -> op2 -> op3": 0.03}), 1)
    assert (by_path.violations, by_path.resources) == (strict.violations, strict.resources)
    assert by_path.violations > simulate(setting, 1).violations
    with pytest.raises(BadInput, match="op1 -> op2 -> op3"):
        replace(setting, path_bounds={"op1 -> op3": 0.03})


def test_seeds_agree_where_nothing_is_left_to_chance() -> None:
    still = [simulate(make_setting(policy="threshold-c"), seed) for seed in range(2)]
    learning = [simulate(make_setting(policy="ql"), seed) for seed in range(2)]
    assert agree(still, QUALITY)
    assert not agree(learning, QUALITY)


def test_the_luckiest_is_not_the_first_candidate() -> None:
    """One of many points around the same cost looks 40 % cheaper, and says itself that it may be chance."""
    setting = make_setting()
    space = make_space(setting.application, setting.infrastructure, QUALITY)
    rng = np.random.default_rng(0)
    points = from_cube(space, rng.uniform(size=(24, space.size)))
    history = [make_outcome(10.0 + rng.normal(0.0, 0.05), 0.01, 0.05, point) for point in points]
    history[7] = make_outcome(6.0, 0.01, 4.0, points[7])
    history[3] = make_outcome(9.0, 0.01, 0.01, points[3])
    assert list_candidates(space, QUALITY, history)[0] == 3
    certain = [*history[:7], replace(history[7], price_error=0.01), *history[8:]]
    assert list_candidates(space, QUALITY, certain)[0] == 7


def test_what_is_likely_infeasible_comes_last_however_cheap() -> None:
    setting = make_setting()
    space = make_space(setting.application, setting.infrastructure, QUALITY)
    points = from_cube(space, np.random.default_rng(1).uniform(size=(12, space.size)))
    history = [make_outcome(10.0 + i, 0.01, 0.01, point) for i, point in enumerate(points)]
    history[5] = make_outcome(2.0, 0.5, 0.01, points[5])
    history[6] = replace(history[6], whole=False)
    ranked = list_candidates(space, QUALITY, history)
    assert ranked[-1] == 5
    assert 6 not in ranked  # it was given up, so that nobody knows
    assert ranked[0] == 0


def test_only_what_passes_on_fresh_seeds_and_on_the_held_out_end_is_chosen() -> None:
    proofs = [make_proof(5.0, violations=0.06), make_proof(6.0, held_out=0.06), make_proof(7.0, confidence=0.9)]
    assert choose(proofs, QUALITY) is None
    assert choose([*proofs, make_proof(9.0), make_proof(8.0)], QUALITY) == 4
    assert needs_more([make_proof(5.0)] * (PROVED - 1), QUALITY)
    assert not needs_more([make_proof(5.0)] * PROVED, QUALITY)
    assert needs_more(proofs * 3, QUALITY)
    assert not needs_more(proofs * (MOST_PROVED // 3), QUALITY)


def test_confidence_is_students_for_one_more_run() -> None:
    """The limit is two standard deviations of such a run above the mean of six: t(5) = 2 has .949 below it."""
    single = 0.02 / 2.0 / math.sqrt(1.0 + 1.0 / 6.0)
    outcome = EvaluationOutcome(POINT, 5.0, 0.03, 0.0, 0.0, single / math.sqrt(6.0), 0.0)
    assert measure_confidence(outcome, QUALITY, 6) == pytest.approx(0.94903, abs=1e-4)
    assert measure_confidence(replace(outcome, violations=0.05), QUALITY, 6) == pytest.approx(0.5)
    assert measure_confidence(replace(outcome, violations_error=0.0), QUALITY, 6) == pytest.approx(1.0)


@pytest.mark.parametrize(("days", "known"), [(6, False), (28, True)])
def test_other_days_count_where_enough_were_replayed(days: int, known: bool) -> None:
    """Days that differ by a standard deviation of .01: the mean of 28 by .01 / sqrt(28)."""
    slots = np.full(4 * days, 360.0)
    by_day = np.repeat(0.03 + 0.01 * np.random.default_rng(3).standard_normal(days), 4)
    blocks = {"violations": by_day, "reconfigurations": np.zeros(slots.size), "slots": slots}
    found = bootstrap_days([replace(simulate(make_setting(100), 1), blocks=blocks)] * 3, 60.0)
    assert (found is not None) is known
    if found is not None:
        assert found.violations == pytest.approx(0.01 / math.sqrt(days), rel=0.25)
        assert found.reconfigurations == 0.0


def test_confidence_is_less_where_days_differ() -> None:
    outcome = EvaluationOutcome(POINT, 5.0, 0.04, 0.0, 0.0, 0.0, 0.0)
    luck = 0.01 / math.sqrt(2.0) / 2.0  # the limit is two standard deviations of the difference of two such months
    assert measure_confidence(outcome, QUALITY, 6, DayErrors(luck, 0.0)) == pytest.approx(0.94903, abs=1e-4)
    assert measure_confidence(outcome, QUALITY, 6) == pytest.approx(1.0)


def test_runs_that_the_confidence_lets_pass_are_followed_by_one_that_passes_as_often_as_it_says() -> None:
    """Six runs and a seventh of the same normal law: of those with a confidence of 95 % or more, 95 % or more hold."""
    rng = np.random.default_rng(5)
    held = []
    for runs in rng.normal(rng.uniform(0.03, 0.05, (20_000, 1)), 0.004, (20_000, 7)):
        error = runs[:6].std(ddof=1) / math.sqrt(6.0)
        if measure_confidence(EvaluationOutcome(POINT, 5.0, runs[:6].mean(), 0.0, 0.0, error, 0.0), QUALITY, 6) >= 0.95:
            held.append(runs[6] <= QUALITY.eta_v)
    assert len(held) > 2_000
    assert np.mean(held) > 0.95


def test_a_proof_is_a_replay_with_its_own_seeds() -> None:
    setting = make_setting()
    proof, runs = verify(EvaluationSpec(setting, QUALITY, (50, 51, 52, 53)), POINT, 1_600)
    stated = apply_parameters(EvaluationSpec(setting, QUALITY), POINT)
    again = [simulate(stated, seed) for seed in (50, 51, 52, 53)]
    assert [run.seed for run in runs] == [50, 51, 52, 53]
    assert proof.whole.price == pytest.approx(np.mean([run.resources for run in again]))
    assert proof.held_out == average(POINT, again, True, 1_600)


def test_the_least_infeasible_has_most_slack() -> None:
    history = [make_outcome(5.0, 0.2), make_outcome(9.0, 0.06), replace(make_outcome(1.0, 0.051), whole=False)]
    assert find_least_infeasible(history, QUALITY) == 1
    assert find_least_infeasible([replace(one, whole=False) for one in history], QUALITY) is None


def test_slack_is_that_of_the_constraint_that_has_less() -> None:
    outcome = EvaluationOutcome(POINT, 5.0, 0.04, 0.01)
    assert measure_slack(outcome, QUALITY) == pytest.approx(0.2)
    assert measure_slack(replace(outcome, reconfigurations=0.2), QUALITY) == pytest.approx(-1.0)
    assert not meets(replace(outcome, reconfigurations=0.2), QUALITY)
    assert math.isnan(measure_slack(replace(outcome, price=math.nan), QUALITY))


def test_what_no_deployment_can_keep_names_the_operator_and_the_rate() -> None:
    setting = make_setting(r_max=0.005)
    with pytest.raises(BadInput, match=r"op1 -> op2 -> op3.*'op[23]' alone takes .* at \d+(\.\d+)? tuples/s"):
        check_feasible(setting, QoS(0.005))
    check_feasible(make_setting(), QUALITY)


def test_a_peak_that_is_rarer_than_what_is_allowed_does_not_refuse() -> None:
    setting = make_setting()
    rates = setting.trace.rates.copy()
    rates[:100] = 1e6
    peaked = replace(setting, trace=replace(setting.trace, rates=rates))
    check_feasible(peaked, QUALITY)
    with pytest.raises(BadInput, match="more than it can serve"):
        check_feasible(peaked, replace(QUALITY, eta_v=0.01))


def test_recommended_model_carries_the_least_replicas() -> None:
    setting = make_setting()
    operators = tuple(replace(one, k_min=i + 1) for i, one in enumerate(setting.application.operators))
    limited = replace(setting, application=replace(setting.application, operators=operators))
    models = make_model(limited, {}).operators
    assert [models[one.name].k_min for one in operators] == [one.k_min for one in operators] != [1] * len(operators)


def test_after_a_failure_the_next_candidate_is_clearly_safer() -> None:
    parameters = Parameters((1.0,), Weights(0.3, 0.3, 0.4))

    def see(violations: float) -> EvaluationOutcome:
        return EvaluationOutcome(parameters, 10.0, violations, 0.0)

    history = [see(0.04), see(0.039), see(0.02), see(0.01)]
    qos = QoS(0.05, 0.05, 0.1)
    failed = {0: Verification(see(0.06), see(0.0), 0.3)}
    assert pick_next([0, 1, 2, 3], history, {}, qos) == 0
    assert pick_next([0, 1, 2, 3], history, failed, qos) == 2
    assert pick_next([0, 1, 2, 3], history, {0: Verification(see(0.01), see(0.0), 0.99)}, qos) == 1
    assert pick_next([0, 1], history, failed, qos) == 1  # where no other is left
    assert pick_next([0], history, failed, qos) is None
