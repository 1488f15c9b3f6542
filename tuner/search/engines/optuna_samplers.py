"""Optuna's samplers: replay the history into a study in memory and ask it for the next trials."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from tuner.scenario.layout import QoS
from tuner.search.engines import SearchProblem, Suggestion
from tuner.search.space.space import EvaluationOutcome, History, SearchSpace, from_cube, to_cube

PENALTY = 100.0  # of a broken constraint, as in the paper, for the one sampler that knows none
LEAST_SOURCE = 20  # earlier trials, the best tenth of which is where the evolution strategy starts


def suggest_cmaes(problem: SearchProblem, history: History, seed: int, count: int = 1) -> list[Suggestion]:
    """An evolution strategy; its state is found again by telling it this run's own trials in their order."""
    with quiet():
        earlier = [freeze(problem, outcome, penalise) for outcome in history if outcome.age > 0.0]
        source = [trial for trial in earlier if trial.state == TrialState.COMPLETE]
        own = [outcome for outcome in history if outcome.age == 0.0]
        sampler = CmaEsSampler(
            seed=seed % 2**32,
            independent_sampler=RandomSampler(seed=mix(seed, len(own))),  # until a first trial has succeeded
            source_trials=source if len(source) >= LEAST_SOURCE else None,
        )
        study = optuna.create_study(sampler=sampler)
        for outcome in own:
            tell_again(study, problem, outcome)
        return ask_study(study, problem.space, count)


def tell_again(study: Study, problem: SearchProblem, outcome: EvaluationOutcome) -> None:
    """Let the sampler go through a trial once more: it draws as it did, and the point that was tried is taken."""
    study.enqueue_trial(to_point(problem.space, outcome))
    trial = study.ask()
    _ = trial.relative_params  # what it draws is worked out when it is looked at
    for name in distributions(problem.space):
        trial.suggest_float(name, 0.0, 1.0)
    if math.isnan(outcome.price):
        study.tell(trial, state=TrialState.FAIL)
    else:
        study.tell(trial, penalise(outcome, problem.target))


def consult(
    make: Callable[..., BaseSampler], problem: SearchProblem, history: History, seed: int, count: int = 1
) -> list[Suggestion]:
    """Ask a sampler that remembers nothing but trials, seeded anew for each of this run's."""
    own = sum(outcome.age == 0.0 for outcome in history)
    with quiet():
        study = optuna.create_study(sampler=make(seed=mix(seed, own)))
        study.add_trials([freeze(problem, outcome, lambda o, _: o.price) for outcome in history])
        return ask_study(study, problem.space, count)


suggest_tpe = partial(consult, TPESampler)  # tree-structured Parzen estimators
suggest_gp = partial(consult, GPSampler)  # Gaussian processes of the cost and of both constraints


def mix(seed: int, own: int) -> int:
    return int(np.random.SeedSequence([seed, own]).generate_state(1)[0])


def ask_study(study: Study, space: SearchSpace, count: int) -> list[Suggestion]:
    names = distributions(space)
    trials = [study.ask(names) for _ in range(count)]
    points = np.array([[trial.params[name] for name in names] for trial in trials]).reshape(count, space.size)
    return [
        Suggestion(parameters, {"point": point.tolist()})
        for parameters, point in zip(from_cube(space, points), points, strict=True)
    ]


def freeze(
    problem: SearchProblem, outcome: EvaluationOutcome, value: Callable[[EvaluationOutcome, QoS], float]
) -> FrozenTrial:
    """An outcome as a finished trial, with what is left of each constraint below zero."""
    failed = math.isnan(outcome.price)
    qos = problem.target
    broken_by = {
        "violations": outcome.violations - qos.eta_v,
        "reconfigurations": outcome.reconfigurations - qos.eta_r,
    }
    return optuna.trial.create_trial(
        state=TrialState.FAIL if failed else TrialState.COMPLETE,
        value=None if failed else value(outcome, qos),
        params=to_point(problem.space, outcome),
        distributions=distributions(problem.space),
        constraints=None if failed else broken_by,
    )


def penalise(outcome: EvaluationOutcome, qos: QoS) -> float:
    """The cost, and for each broken constraint a penalty that grows with how far it is broken."""
    excess = (outcome.violations / qos.eta_v - 1.0, outcome.reconfigurations / qos.eta_r - 1.0)
    return outcome.price + sum(PENALTY * (1.0 + more) for more in excess if more > 0.0)


def distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    return {f"x{i}": FloatDistribution(0.0, 1.0) for i in range(space.size)}


def to_point(space: SearchSpace, outcome: EvaluationOutcome) -> dict[str, float]:
    """The point of the cube that was asked for, or one of the same parameters where it was not asked for here."""
    point = outcome.note.get("point")
    if point is None:
        point = to_cube(space, outcome.parameters).tolist()
    return {f"x{i}": value for i, value in enumerate(point)}


@contextmanager
def quiet() -> Iterator[None]:
    """No word from Optuna on new studies, experimental arguments and the like."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(before)
