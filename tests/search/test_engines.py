"""What every engine promises, over the registry; and what single ones promise besides."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from scaler.model.errors import BadInput
from sim.application import equal_shares
from sim.graphs import APPLICATIONS, connect, find_application
from tests.search.problems import Problem, ask_for, evaluate, quadratic, search, to_coordinates
from tuner.scenario.layout import QoS
from tuner.search.engines import ENGINES, Engine, SearchProblem, Suggestion, find_engine, sobol
from tuner.search.space.space import EvaluationOutcome, Parameters, fits, from_document, to_document

LENGTH = 14  # beyond what engines draw at random before they begin


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def problem() -> Problem:
    return quadratic()


@pytest.fixture(scope="module")
def undisturbed(problem: Problem) -> dict[str, list[EvaluationOutcome]]:
    """A search by every engine, made once; `naive` ends after one trial."""
    return {name: search(problem, find_engine(name), 7, LENGTH) for name in ENGINES}


def as_parameters(suggestions: Sequence[Suggestion]) -> list[Parameters]:
    return [suggestion.parameters for suggestion in suggestions]


def pass_on(problem: SearchProblem, outcome: EvaluationOutcome) -> EvaluationOutcome:
    """The outcome as it comes back from the database."""
    operators = problem.space.operators
    parameters = json.loads(json.dumps(to_document(operators, outcome.parameters)))
    return replace(
        outcome,
        parameters=from_document(operators, parameters),
        note=json.loads(json.dumps(outcome.note, allow_nan=False)),
    )


def check_fit(problem: SearchProblem, suggestions: Sequence[Suggestion]) -> None:
    for parameters in as_parameters(suggestions):
        assert fits(problem.space, np.array([parameters.shares]))[0]
        w = parameters.weights
        assert math.isclose(w.performance + w.reconfiguration + w.resources, 1.0, abs_tol=1e-9)
        assert min(w.performance, w.reconfiguration, w.resources) > 0.0


@pytest.mark.parametrize("seen", [0, 3, LENGTH])
def test_an_engine_is_a_pure_function_that_leaves_nothing_behind(
    engine: str, seen: int, problem: Problem, undisturbed: dict[str, list[EvaluationOutcome]]
) -> None:
    history = undisturbed[engine][:seen]
    kept = list(history)
    ask = find_engine(engine)
    before = random.getstate(), repr(np.random.get_state()), torch.get_rng_state(), torch.get_num_threads()
    first = ask(problem.problem, history, 7, 2)
    after = random.getstate(), repr(np.random.get_state()), torch.get_rng_state(), torch.get_num_threads()
    assert first == ask(problem.problem, history, 7, 2)
    assert history == kept
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])
    assert before[3] == after[3]


def test_a_history_cut_short_brings_the_suggestion_that_was_made_there(
    engine: str, problem: Problem, undisturbed: dict[str, list[EvaluationOutcome]]
) -> None:
    made = undisturbed[engine]
    for seen in {0, len(made) // 2, len(made) - 1}:
        (again,) = find_engine(engine)(problem.problem, made[:seen], 7)
        assert (again.parameters, again.note) == (made[seen].parameters, made[seen].note)


def test_a_search_resumes_from_the_database_as_if_undisturbed(
    engine: str, problem: Problem, undisturbed: dict[str, list[EvaluationOutcome]]
) -> None:
    ask, made = find_engine(engine), undisturbed[engine]
    history = [pass_on(problem.problem, outcome) for outcome in made[:5]]
    while len(history) < min(12, len(made)):
        (suggestion,) = ask(problem.problem, history, 7)
        history.append(pass_on(problem.problem, evaluate(problem, suggestion)))
    assert history == made[:12]  # notes too: JSON changes none


def test_other_seeds_bring_other_searches(engine: str, problem: Problem) -> None:
    ask = find_engine(engine)
    first, second = (as_parameters(ask(problem.problem, [], seed, 4)) for seed in (1, 2))
    assert (first == second) == (engine == "naive")


@pytest.mark.parametrize("graph", ["single", "pipeline", "diamond", "multi-sink"])
def test_suggestions_lie_in_the_space(engine: str, graph: str) -> None:
    problem = ask_for(find_application(graph, **({"service_rate": 180.0} if graph == "single" else {})))
    ask = find_engine(engine)
    history: list[EvaluationOutcome] = []
    for _ in range(7):
        suggestions = ask(problem, history, 3, 2)
        check_fit(problem, suggestions)
        history += [make_outcome(s, cost=10.0 + sum(s.parameters.shares[:1])) for s in suggestions]


def make_outcome(
    suggestion: Suggestion, cost: float = 10.0, violations: float = 0.03, age: float = 0.0
) -> EvaluationOutcome:
    return EvaluationOutcome(
        suggestion.parameters, cost, violations, 0.04, note={} if age else suggestion.note, age=age
    )


@pytest.mark.parametrize("seen", [0, 2, LENGTH])
def test_a_batch_is_of_distinct_points(
    engine: str, seen: int, problem: Problem, undisturbed: dict[str, list[EvaluationOutcome]]
) -> None:
    history = undisturbed[engine][:seen]
    suggestions = find_engine(engine)(problem.problem, history, 7, 5)
    check_fit(problem.problem, suggestions)
    points = np.array([[*p.shares, p.weights.performance] for p in as_parameters(suggestions)])
    assert len(suggestions) == (5 if engine != "naive" else seen == 0)
    assert len(np.unique(points.round(9), axis=0)) == len(points)


def test_failed_evaluations_do_not_stop_a_search(engine: str, problem: Problem) -> None:
    """All fail at first, then every third."""
    ask = find_engine(engine)
    history: list[EvaluationOutcome] = []
    for i in range(LENGTH):
        suggestions = ask(problem.problem, history, 5)
        check_fit(problem.problem, suggestions)
        for suggestion in suggestions:
            outcome = evaluate(problem, suggestion)
            assert outcome.parameters not in [earlier.parameters for earlier in history]
            if i < 6 or i % 3 == 0:
                outcome = replace(outcome, price=math.nan, violations=math.nan, reconfigurations=math.nan)
            history.append(outcome)
    assert len(history) == (LENGTH if engine != "naive" else 1)


def test_earlier_runs_are_taken_as_knowledge(engine: str, problem: Problem) -> None:
    """They have no note, may have failed, and do not count as this run's."""
    seeds = sobol.suggest(problem.problem, [], 11, 24)
    aged = [replace(evaluate(problem, suggestion), note={}, age=1.0) for suggestion in seeds]
    aged[3] = replace(aged[3], price=math.nan, violations=math.nan, reconfigurations=math.nan)
    ask = find_engine(engine)
    history = list(aged)
    for _ in range(3):
        suggestions = ask(problem.problem, history, 5, 2)
        check_fit(problem.problem, suggestions)
        known = {outcome.parameters for outcome in history if outcome.age == 0.0}  # older ones may be tried again
        assert not {s.parameters for s in suggestions} & known
        history += [evaluate(problem, suggestion) for suggestion in suggestions]
    assert len(history) == len(aged) + (6 if engine != "naive" else 1)
    if engine in ("random", "naive", "skopt"):
        assert history[len(aged) :] == search(problem, ask, 5, 6, 2)


def test_early_ends_do_not_stop_a_search(
    engine: str, problem: Problem, undisturbed: dict[str, list[EvaluationOutcome]]
) -> None:
    history = [replace(outcome, whole=i % 2 == 0) for i, outcome in enumerate(undisturbed[engine])]
    check_fit(problem.problem, find_engine(engine)(problem.problem, history, 7, 2))


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(BadInput, match=r"there is no engine 'gpyopt'; choose one of gp, skopt"):
        find_engine("gpyopt")


def test_a_sobol_sequence_is_the_same_however_it_is_split(problem: Problem) -> None:
    at_once = search(problem, sobol.suggest, 3, 16, 16)
    assert at_once == search(problem, sobol.suggest, 3, 16) == search(problem, sobol.suggest, 3, 16, 5)


@pytest.mark.parametrize("graph", [name for name in APPLICATIONS if name != "single"])
def test_the_naive_suggestion_is_the_papers(graph: str) -> None:
    application = find_application(graph)
    problem = ask_for(application)
    (suggestion,) = find_engine("naive")(problem, [], 1, 3)
    bounds = [share * problem.qos.r_max for share in suggestion.parameters.shares]
    shares = equal_shares(application, problem.qos.r_max)
    spare = {"op5": problem.qos.r_max * 2 / 3} if graph == "multi-sink" else {}  # op1 -> op5 is the shorter path
    assert bounds == pytest.approx(list((shares | spare).values()))
    weights = suggestion.parameters.weights
    assert (weights.performance, weights.reconfiguration, weights.resources) == pytest.approx([1 / 3] * 3)
    assert find_engine("naive")(problem, [make_outcome(suggestion)], 1) == []


def test_the_naive_shares_keep_to_the_bounds_of_paths() -> None:
    application = find_application("multi-sink")
    problem = ask_for(application, qos=QoS(0.05, paths={"op1 -> op5": 0.04}))
    (suggestion,) = find_engine("naive")(problem, [], 1)
    assert suggestion.parameters.shares == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1 / 3, 0.8 - 1 / 3])


def test_spare_latency_is_shared_alike_until_no_path_has_any_left() -> None:
    application = connect("fork", [(700, 0.5)] * 7, 10, (1, 2), (2, 3), (3, 4), (1, 5), (5, 6), (1, 7))
    (suggestion,) = find_engine("naive")(ask_for(application), [], 1)
    assert suggestion.parameters.shares == pytest.approx([0.25, 0.25, 0.25, 0.25, 0.375, 0.375, 0.75])


def test_the_evolution_strategy_goes_on_where_optunas_own_study_would(problem: Problem) -> None:
    """A search that lives in one study all along, against one that is replayed for every suggestion."""
    import optuna

    from tuner.search.engines.optuna_samplers import distributions, mix, penalise, quiet, suggest_cmaes
    from tuner.search.space.space import from_cube

    space = problem.problem.space
    names = distributions(space)
    with quiet():
        sampler = optuna.samplers.CmaEsSampler(seed=4, independent_sampler=optuna.samplers.RandomSampler(mix(4, 0)))
        study = optuna.create_study(sampler=sampler)
        points = []
        for _ in range(30):
            trial = study.ask(names)
            points.append([trial.params[name] for name in names])
            outcome = evaluate(problem, Suggestion(from_cube(space, np.array(points[-1:]))[0]))
            study.tell(trial, penalise(outcome, problem.problem.qos))
    ours = search(problem, suggest_cmaes, 4, 30)
    assert [outcome.note["point"] for outcome in ours] == points


def test_optuna_is_told_what_breaks_a_constraint(problem: Problem) -> None:
    """Cheap points that break one are not what its samplers go for."""
    ask: Engine = find_engine("optuna")
    aware = search(problem, ask, 2, 60)[30:]
    blind = replace(problem, judge=lambda z: (problem.judge(z)[0], 1.0, 1.0))
    unaware = search(blind, ask, 2, 60)[30:]
    share = [
        np.mean([min(problem.judge(to_coordinates(o.parameters))[1:]) >= 0 for o in late]) for late in (aware, unaware)
    ]
    assert share[0] > share[1] + 0.2


def test_cheap_and_surely_infeasible_is_worth_less_than_a_small_improvement() -> None:
    from tuner.search.engines.gp import acquire

    mean = np.array([[-3.0, 0.0], [2.0, -1.0], [-1.0, -1.0]])  # cost and both constraints of two points
    deviation = np.array([[0.1, 0.05], [0.2, 0.2], [0.2, 0.2]])
    infeasible, small = acquire(mean, deviation, np.zeros(2), goal=-0.15)
    assert infeasible < small
