"""The paper's Algorithm 4, the engine `skopt`: the rules of its phases and rounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from scaler.model.task import Weights
from sim.graphs import find_application
from sim.infrastructure import find_infrastructure
from tuner.scenario.layout import QoS
from tuner.search.engines import SearchProblem, Suggestion, find_engine
from tuner.search.engines import skopt as paper
from tuner.search.space.space import EvaluationOutcome, Parameters, make_space


def answer(suggestion: Suggestion, cost: float) -> EvaluationOutcome:
    return EvaluationOutcome(suggestion.parameters, cost, 0.03, 0.04, note=suggestion.note)


@pytest.fixture(scope="module")
def problem() -> SearchProblem:
    qos = QoS(0.05)
    return SearchProblem(make_space(find_application("diamond"), find_infrastructure("A", n_res=3), qos), qos, 100)


def make_phase(number: int, name: str, cost: float, count: int | None = None) -> list[EvaluationOutcome]:
    """Outcomes as the engine's own suggestions would have left them, all alike but for the first, the best."""
    shares = (0.1, 0.3, 0.5, 0.2, 0.3)
    point = list(shares) if name == "shares" else [0.5, 0.3, 0.2]
    suggestion = Suggestion(
        Parameters(shares, Weights(0.5, 0.3, 0.2)), {"round": number, "phase": name, "point": point}
    )
    size = paper.count_evaluations(number) if count is None else count
    return [answer(suggestion, cost + (i > 0)) for i in range(size)]


def test_the_naive_parameters_come_first_then_shares_with_their_weights(problem: SearchProblem) -> None:
    (first,) = find_engine("skopt")(problem, [], 1)
    (naive,) = find_engine("naive")(problem, [], 1)
    assert first.parameters.shares == pytest.approx(naive.parameters.shares)
    history = [answer(first, 10.0)]
    for _ in range(7):
        (suggestion,) = find_engine("skopt")(problem, history, 1)
        assert suggestion.parameters.weights == Weights(1 / 3, 1 / 3, 1 / 3)
        assert suggestion.parameters.shares != first.parameters.shares
        history.append(answer(suggestion, 10.0 + suggestion.parameters.shares[0]))


def test_the_weights_come_next_with_the_best_shares(problem: SearchProblem) -> None:
    history = make_phase(0, "shares", 10.0)
    best = Parameters((0.2, 0.3, 0.4, 0.1, 0.4), Weights(1 / 3, 1 / 3, 1 / 3))
    history[4] = replace(history[4], parameters=best, price=9.0)
    history[7] = replace(history[7], price=1.0, violations=0.06)  # cheap, and breaks a constraint
    for _ in range(5):
        (suggestion,) = find_engine("skopt")(problem, history, 1)
        assert suggestion.parameters.shares == best.shares
        assert 0.98 <= sum(suggestion.note["point"]) <= 1.02 + 1e-9
        history.append(answer(suggestion, 12.0))
    assert history[-1].note["phase"] == "weights"


def test_a_model_is_fitted_on_one_blas_thread(problem: SearchProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    """On matrices this small more threads wait for each other, and took eight times the CPU time."""
    threads: list[int] = []
    fit = paper.fit

    def note(*known: Any) -> Any:
        threads.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
        return fit(*known)

    monkeypatch.setattr(paper, "fit", note)
    domain = paper.find_domain(problem.space, "weights")
    points = paper.sample(domain, np.random.default_rng(0), 4)
    with threadpool_limits(2, user_api="blas"):
        paper.improve(domain, points, points[:, 0], np.random.default_rng(0))
    assert set(threads) == {1}


def test_the_domain_is_the_whole_space(problem: SearchProblem) -> None:
    """Sums along paths reach both ends of 1 +- eps, and weights lie below a twentieth, as every engine's may."""
    rng = np.random.default_rng(0)
    points = paper.sample(paper.find_domain(problem.space, "shares"), rng, 300)
    sums = points @ problem.space.incidence.T
    assert sums.min() < 0.97
    assert sums.max() > 1.03
    assert paper.sample(paper.find_domain(problem.space, "weights"), rng, 300).min() < 0.01


@pytest.mark.parametrize(("name", "place"), [("shares", 3), ("weights", 30)])
def test_a_phase_starts_from_the_current_solution(problem: SearchProblem, name: str, place: int) -> None:
    history = make_phase(0, "shares", 10.0) + make_phase(0, "weights", 10.0)
    best = Parameters((0.2, 0.3, 0.4, 0.1, 0.4), Weights(0.6, 0.3, 0.1))
    history[place] = replace(history[place], parameters=best, price=5.0)
    earlier = history if name == "shares" else [*history, *make_phase(1, "shares", 11.0)]
    phase = paper.find_phase(earlier)
    points, values = paper.list_known(earlier, phase, problem.target)
    assert (phase.round, phase.name) == (1, name)
    assert points == [[0.2, 0.3, 0.4, 0.1, 0.4] if name == "shares" else [0.6, 0.3, 0.1]]
    assert values == [5.0]


def test_phases_get_shorter_with_every_round(problem: SearchProblem) -> None:
    sizes = [paper.count_evaluations(number) for number in range(8)]
    assert sizes[0] == paper.N_BO
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[1] < sizes[0]
    assert sizes[-1] == paper.LEAST_N_BO
    history = make_phase(0, "shares", 10.0) + make_phase(0, "weights", 9.0) + make_phase(1, "shares", 8.0)
    assert paper.find_phase(history).name == "weights"


def test_a_batch_does_not_reach_into_the_next_phase(problem: SearchProblem) -> None:
    history = make_phase(0, "shares", 10.0, count=23)
    assert len(find_engine("skopt")(problem, history, 1, 8)) == 2


@pytest.mark.parametrize(
    ("costs", "over"),
    [
        ([10.0], False),
        ([10.0, 10.0], False),  # one round without gain
        ([10.0, 10.0, 10.0], True),  # two in a row
        ([10.0, 10.0, 9.0], False),
        ([10.0, 10.0, 9.0, 9.5], False),
        ([10.0, 9.0, 9.5, 9.0], True),
        ([math.nan, math.nan], True),  # nothing ever succeeds
    ],
)
def test_two_rounds_without_gain_end_it(problem: SearchProblem, costs: list[float], over: bool) -> None:
    history: list[EvaluationOutcome] = []
    for number, cost in enumerate(costs):
        history += make_phase(number, "shares", cost) + make_phase(number, "weights", cost)
    suggestions: list[Suggestion] = find_engine("skopt")(problem, history, 1)
    assert (suggestions == []) == over
    if not over:
        assert (suggestions[0].note["round"], suggestions[0].note["phase"]) == (len(costs), "shares")


def test_a_broken_constraint_costs_a_hundred(problem: SearchProblem) -> None:
    (outcome,) = make_phase(0, "shares", 10.0, count=1)
    broken = replace(outcome, violations=np.float64(0.06), reconfigurations=np.float64(0.11))
    assert paper.penalise(outcome, problem.target) == 10.0
    assert paper.penalise(broken, problem.target) == 210.0
