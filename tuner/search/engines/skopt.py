"""The paper's Algorithm 4 on scikit-optimize: suggest the next points of its current phase.

A round is two phases of Bayesian optimisation: of the shares, with the best weights so far, and of the weights, with
the best shares so far. Matern 5/2, learnt noise, expected improvement; a broken constraint costs a penalty. The search
starts at the naive parameters and each phase at the current solution, which it knows besides its own evaluations; of
earlier runs nothing is known. The domain is the whole space. Deviations: the paper reduces N_BO "if needed", here by a
fifth each round, and it ends after one round without gain, here after two.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from skopt.acquisition import gaussian_ei
from skopt.learning import GaussianProcessRegressor
from skopt.learning.gaussian_process.kernels import ConstantKernel, Matern
from threadpoolctl import ThreadpoolController

from scaler.model.kernel import Floats
from tuner.scenario.layout import QoS
from tuner.search.engines import SearchProblem, Suggestion
from tuner.search.engines.naive import EQUAL_WEIGHTS, fitting_shares
from tuner.search.space.space import (
    LEAST_WEIGHT,
    EvaluationOutcome,
    History,
    Parameters,
    SearchSpace,
    fix,
    gather,
    project_to_limits,
)

N_BO = 25  # evaluations in a phase of the first round, the random ones at its start included
REDUCED, LEAST_N_BO = 0.8, 10  # of a phase in each further round, and never fewer
START = {"shares": 5, "weights": 3}  # points that a phase has before its model is asked, the current solution included
PENALTY = 100.0  # of each broken constraint
WEIGHTS_SUM = (0.98, 1.02)  # of a point, which is normalised
PATIENCE = 2  # rounds in a row without gain that end the search
POOL = 1000  # random points of the domain among which the expected improvement is compared
REFINED = 5  # the best of them that are then moved about
STEPS = (0.2, 0.05, 0.0125)  # how far, as parts of a coordinate
MOVES = 20  # tries for each of the refined at every step

Draw = np.random.Generator
THREADS = ThreadpoolController()  # finding the libraries takes 3 ms, and is done once


@dataclass(frozen=True, slots=True)
class Phase:
    """Where the search stands: the round from 0, which half of it, and what was tried in this half."""

    round: int
    name: str  # "shares" or "weights"
    tried: tuple[EvaluationOutcome, ...]

    @property
    def left(self) -> int:
        """Evaluations that the phase has yet to make."""
        return count_evaluations(self.round) - len(self.tried)


def suggest(problem: SearchProblem, history: History, seed: int, count: int = 1) -> list[Suggestion]:
    """The next points of the phase, no more of them than it has left; none after two rounds without gain."""
    own = [outcome for outcome in history if outcome.age == 0.0]
    phase = find_phase(own, list_phases(problem.space))
    if is_over(own, phase, problem.target):
        return []
    domain = find_domain(problem.space, phase.name)
    points, values = list_known(own, phase, problem.target)
    suggestions: list[Suggestion] = []
    for i in range(min(count, phase.left)):
        rng = np.random.default_rng([seed, len(own) + i])
        finite = np.isfinite(values)
        if not own and i == 0:
            point, believed = begin(problem, phase.name), math.nan
        elif len(points) < START[phase.name] or not finite.any():
            point, believed = sample(domain, rng, 1)[0], math.nan
        else:
            point, believed = improve(domain, np.array(points)[finite], np.array(values)[finite], rng)
        suggestions.append(complete_point(problem, own, phase, point))
        points.append(point.tolist())
        values.append(believed)  # within a batch, what is predicted is taken for what will be seen
    return suggestions


def begin(problem: SearchProblem, name: str) -> Floats:
    """The naive parameters as a point of the phase."""
    naive = find_best(problem, ())
    w = naive.weights
    return np.array(naive.shares if name == "shares" else (w.performance, w.reconfiguration, w.resources))


def count_evaluations(number: int) -> int:
    """N_BO of a phase in this round."""
    return max(LEAST_N_BO, round(N_BO * REDUCED**number))


def list_known(own: Sequence[EvaluationOutcome], phase: Phase, qos: QoS) -> tuple[list[list[float]], list[float]]:
    """Points of the phase and their values: the solution that it starts from, if any, then what it tried."""
    points = [list(outcome.note["point"]) for outcome in phase.tried]
    values = [penalise(outcome, qos) for outcome in phase.tried]
    before = [outcome for outcome in own[: len(own) - len(phase.tried)] if not math.isnan(outcome.price)]
    if not before:
        return points, values
    start = min(before, key=lambda outcome: penalise(outcome, qos))
    w = start.parameters.weights
    weights = [w.performance, w.reconfiguration, w.resources]
    point = list(start.parameters.shares) if phase.name == "shares" else weights
    return [point, *points], [penalise(start, qos), *values]


def list_phases(space: SearchSpace) -> tuple[str, ...]:
    """The phases of a round: both, but for what is fixed."""
    fixed = {"shares": space.fixed_shares is not None, "weights": space.fixed_weights is not None}
    return tuple(name for name in fixed if not fixed[name]) or ("shares",)


def find_phase(own: Sequence[EvaluationOutcome], names: Sequence[str] = tuple(START)) -> Phase:
    """The phase that the last suggestion was for, or the one after it where that is complete."""
    tried = [outcome for outcome in own if "phase" in outcome.note]
    if not tried:
        return Phase(0, names[0], ())
    number, name = tried[-1].note["round"], tried[-1].note["phase"]
    of_phase = tuple(o for o in tried if (o.note["round"], o.note["phase"]) == (number, name))
    if len(of_phase) < count_evaluations(number):
        return Phase(number, name, of_phase)
    return Phase(number + 1, names[0], ()) if name == names[-1] else Phase(number, names[-1], ())


def is_over(own: Sequence[EvaluationOutcome], phase: Phase, qos: QoS) -> bool:
    """Whether the last rounds that are complete have found nothing better than was known before them."""
    if phase.round < PATIENCE:
        return False
    values = [(outcome.note.get("round", 0), penalise(outcome, qos)) for outcome in own]
    late = min((v for r, v in values if phase.round - PATIENCE <= r < phase.round and v == v), default=math.inf)
    early = min((v for r, v in values if r < phase.round - PATIENCE and v == v), default=math.inf)
    return not late < early


def penalise(outcome: EvaluationOutcome, qos: QoS) -> float:
    """What the paper minimises in either phase."""
    broken = int(outcome.violations > qos.eta_v) + int(outcome.reconfigurations > qos.eta_r)
    return outcome.price + PENALTY * broken


def complete_point(problem: SearchProblem, own: Sequence[EvaluationOutcome], phase: Phase, point: Floats) -> Suggestion:
    """A point of the phase's domain, with the other half of the parameters from the best found."""
    best = find_best(problem, own)
    note = {"round": phase.round, "phase": phase.name, "point": point.tolist()}
    if phase.name == "shares":
        return Suggestion(fix(problem.space, Parameters(tuple(point.tolist()), best.weights)), note)
    return Suggestion(fix(problem.space, gather(np.array([best.shares]), point[None])[0]), note)


def find_best(problem: SearchProblem, own: Sequence[EvaluationOutcome]) -> Parameters:
    known = [outcome for outcome in own if not math.isnan(outcome.price)]
    if known:
        return min(known, key=lambda outcome: penalise(outcome, problem.target)).parameters
    return gather(fitting_shares(problem.space)[None], np.array([EQUAL_WEIGHTS]))[0]


def find_domain(space: SearchSpace, name: str) -> SearchSpace:
    """What a phase chooses among, written as a space: the weights are one path of three operators."""
    if name == "shares":
        return space
    low, high = (np.array([end]) for end in WEIGHTS_SUM)
    names = ("performance", "reconfiguration", "resources")
    return replace(
        space,
        operators=names,
        paths=(" + ".join(names),),
        incidence=np.ones((1, 3)),
        low=low,
        high=high,
        least=np.full(3, LEAST_WEIGHT),
        centre=np.full(3, 1.0 / 3.0),
    )


def sample(domain: SearchSpace, rng: Draw, count: int) -> Floats:
    """Random points [count, n] of the domain: even in their proportions, then in how much of the limits they use."""
    points = project_to_limits(domain, rng.exponential(size=(count, len(domain.operators))))
    sums = points @ domain.incidence.T
    up = (domain.high / sums).min(axis=1)
    down = np.maximum((domain.low / sums).max(axis=1), (domain.least / points).max(axis=1))
    return np.asarray(points * rng.uniform(np.minimum(down, 1.0), np.maximum(up, 1.0))[:, None])


def improve(domain: SearchSpace, points: Floats, values: Floats, rng: Draw) -> tuple[Floats, float]:
    """The point of the greatest expected improvement on the values [m] at the points [m, n], and the value there."""
    with THREADS.limit(limits=1, user_api="blas"):  # with matrices this small, more of them wait for each other
        return maximise_gain(domain, points, values, rng)


def maximise_gain(domain: SearchSpace, points: Floats, values: Floats, rng: Draw) -> tuple[Floats, float]:
    """Compare a pool of points, then move the best of them about."""
    model = fit(points, values, rng)
    best = values.min()
    pool = sample(domain, rng, POOL)
    gain = gaussian_ei(pool, model, best)
    for step in STEPS:
        chosen = np.argsort(-gain, kind="stable")[:REFINED]
        around = np.repeat(pool[chosen], MOVES, axis=0)
        moved = project_to_limits(domain, around * np.exp(step * rng.standard_normal(around.shape)))
        pool = np.concatenate([pool[chosen], moved])
        gain = np.concatenate([gain[chosen], gaussian_ei(moved, model, best)])
    point = pool[int(np.argmax(gain))]
    return point, float(model.predict(point[None])[0])


def fit(points: Floats, values: Floats, rng: Draw) -> GaussianProcessRegressor:
    """As scikit-optimize makes its own (`cook_estimator`), but for one restart less."""
    n = points.shape[1]
    kernel = ConstantKernel(1.0, (0.01, 1000.0)) * Matern(np.ones(n), [(0.01, 100.0)] * n, nu=2.5)
    model = GaussianProcessRegressor(
        kernel, normalize_y=True, noise="gaussian", n_restarts_optimizer=1, random_state=int(rng.integers(2**31))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a hyperparameter at its bound, as with values that are all alike
        return model.fit(points, values)
