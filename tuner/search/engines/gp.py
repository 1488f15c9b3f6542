"""The default engine: constrained expected improvement over Gaussian processes of price and constraints.

Modelled are log cost and, of each constraint, log((share + small) / (allowed + small)), squashed: it is met where this
is negative, and how badly it is broken ceases to matter. Each is a trend (quadratic in the weights, linear in the
rest) and a process of what that leaves: without the trend, weights that are hopeless with some shares would be tried
again with ever other ones. What is suggested has the greatest expected improvement of cost over the best point believed
feasible, times the probability of feasibility (in logarithms, both), over a pool of points, the best of which are
perturbed again. Several at a time: each is imagined to come out as predicted before the next is chosen.

Coordinates of a point: half of the utilisation that a replica may have within the operator's bound, plus the share
itself, which still tells bounds apart where that saturates; and the logarithms of the weights of performance and of
reconfiguration over that of resources, drawn together at the ends. On 1,200 random points of three applications such
coordinates predicted the price from 40 points with R2 .3 to .7, shares with sticks broken off the simplex below .3.

Notation: n operators; a point [n + 2] is its shares [n] and the logarithms of two weights' ratios to that of resources.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from scaler.model.kernel import Floats
from tuner.scenario.layout import QoS
from tuner.search.engines import SearchProblem, Suggestion
from tuner.search.engines.gaussian import Fitted, alone, fit, imagine, predict, recall, save, scatter
from tuner.search.space.space import (
    EvaluationOutcome,
    History,
    Parameters,
    SearchSpace,
    fix,
    gather,
    meets,
    project_to_limits,
)

BENT = 3.0  # logarithm at which a weight's coordinate rises half as far as it did at 0
WIDEST = 5.0  # of a weight's logarithm in the pool
FIRST_RATIOS = np.array([[-2.5, -3.5], [3.5, 4.5]])  # between which the first weights' logarithms lie
STEPS = (0.02, 0.06, 0.2, 0.6)  # of perturbations, in logarithms


def to_coordinates(space: SearchSpace, points: Floats) -> Floats:
    """Coordinates [m, n + 2] of points."""
    shares, ratios = points[:, :-2], points[:, -2:]
    slack = 2.0 * (shares - space.idle)
    # the utilisation at which the M/G/1 response time is the bound, on the fastest type
    busy = slack / (space.scatter * space.idle + slack)
    return np.concatenate([0.5 * busy + shares, 0.5 * ratios / (1.0 + np.abs(ratios) / BENT)], axis=1)


def to_points(known: Sequence[EvaluationOutcome]) -> Floats:
    """The points that were tried."""
    tried = [outcome.parameters for outcome in known]
    weights = [(p.weights.performance, p.weights.reconfiguration, p.weights.resources) for p in tried]
    odds = np.maximum(weights, 1e-9)
    return np.hstack([[p.shares for p in tried], np.log(odds[:, :2] / odds[:, 2:])])


def fix_points(space: SearchSpace, points: Floats) -> Floats:
    """Points whose coordinates are the fixed ones where these are not searched."""
    if space.fixed_shares is not None:
        points[:, :-2] = space.fixed_shares
    if space.fixed_weights is not None:
        w = space.fixed_weights
        points[:, -2:] = np.log(np.maximum([w.performance, w.reconfiguration], 1e-9) / max(w.resources, 1e-9))
    return points


def to_parameters(space: SearchSpace, points: Floats) -> list[Parameters]:
    odds = np.exp(np.hstack([points[:, -2:], np.zeros((len(points), 1))]))
    return [fix(space, one) for one in gather(points[:, :-2], odds / odds.sum(axis=1, keepdims=True))]


def spread(space: SearchSpace, count: int, rng: np.random.Generator) -> Floats:
    """Points all over the space: half with any shares, half with shares near the proportions of the service times."""
    n = len(space.operators)
    anywhere = rng.gamma(rng.choice([0.5, 1.0, 4.0], (count, 1)), size=(count, n)) + 1e-6
    near = space.idle * np.exp(rng.normal(0.0, 0.5, (count, n)))
    scores = np.where(np.arange(count)[:, None] % 2 == 0, anywhere, near)
    return fix_points(space, np.hstack([project_to_limits(space, scores), rng.uniform(-WIDEST, WIDEST, (count, 2))]))


def perturb(space: SearchSpace, points: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Each point `count` times, moved by various steps in some of its coordinates."""
    many = np.repeat(points, count, axis=0)
    step = rng.choice(STEPS, (len(many), 1))
    moved = rng.random(many.shape) < np.maximum(0.35, 2.0 / many.shape[1])
    shift = rng.normal(size=many.shape) * step * moved
    shares = project_to_limits(space, many[:, :-2] * np.exp(shift[:, :-2]))
    return fix_points(space, np.hstack([shares, np.clip(many[:, -2:] + 2.0 * shift[:, -2:], -WIDEST, WIDEST)]))


def design(space: SearchSpace, count: int, seed: int) -> list[Parameters]:
    """What to try before anything is known: shares near the proportions of the service times, weights by Sobol."""
    points = scatter(2 + len(space.operators), count, seed)
    noise = 0.8 * (points[:, 2:] - 0.5)
    noise[0] = 0.0
    shares = project_to_limits(space, space.idle * np.exp(noise))
    ratios = FIRST_RATIOS[0] + points[:, :2] * np.ptp(FIRST_RATIOS, axis=0)
    return to_parameters(space, np.hstack([shares, ratios]))


LEAST_START, MOST_START = 6, 12
AGAIN_FIRST = 3  # parameters of earlier runs that are tried first
SMALL = 0.1  # of what is allowed
SQUASH = 2.0
GIVEN_UP = 0.3  # standard error of the log cost of an evaluation that was given up early
USUAL = 0.01  # standard error of the log cost of a single seed, where no several say better
AGEING = 0.3  # standard error that an outcome of an earlier run gets for each unit of its age
RIDGE, UNEXPLAINED = 0.3, 0.25  # of the trend: its penalty; variance that it leaves, beside which noise is weighed
GAINS = (0.002, 0.01, 0.03)  # in log cost, in turns: less is no improvement, so that a basin is left that gives no more
POOL, AROUND, BEST, AGAIN = 768, 96, 8, 32
NARROW = 192  # perturbations of each standing point where the pool is of these alone
ANYWHERE = 4  # every so many suggestions the pool is of the whole space


def suggest(problem: SearchProblem, history: History, seed: int, count: int = 1) -> list[Suggestion]:
    """The start design first, then what the processes expect the most of."""
    own = sum(1 for outcome in history if outcome.age == 0.0)
    known = [outcome for outcome in history if not math.isnan(outcome.price)]
    first = begin(problem, history, seed) if own < AGAIN_FIRST + MOST_START else []
    if not known:  # whatever was tried has failed
        first += design(problem.space, own + count, seed + 1)
    begun = [Suggestion(parameters) for parameters in first[own : own + count]]
    left = count - len(begun)
    if left == 0:
        return begun
    rng = np.random.default_rng([seed, own])
    with alone():
        return begun + choose(problem, known, left, GAINS[own % len(GAINS)], own % ANYWHERE == 0, rng)


def begin(problem: SearchProblem, history: History, seed: int) -> list[Parameters]:
    """What is tried before the processes are asked: the best of earlier runs, then a design for what is left."""
    wanted = min(MOST_START, LEAST_START + len(problem.space.operators) // 2, max(2, problem.budget // 4))
    earlier = [outcome for outcome in history if outcome.age > 0.0 and not math.isnan(outcome.price)]
    promising = sorted((o for o in earlier if meets(o, problem.target)), key=lambda o: (o.age > 0.5, o.price))
    again = list(dict.fromkeys(outcome.parameters for outcome in promising))[:AGAIN_FIRST]
    left = max(0, wanted - len(earlier)) if again else wanted
    return again + (design(problem.space, left, seed) if left > 0 else [])


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Processes of the standardised figures' distances from a trend, and the scaling of log cost."""

    fitted: Fitted
    trend: Floats  # [3, k] of the features
    limits: Floats  # [2] that the standardised constraints are to stay under
    middle: float
    scale: float

    def predict(self, coordinates: Floats) -> tuple[Floats, Floats]:
        """Means and standard deviations [3, m] of the standardised figures at new coordinates."""
        mean, deviation = predict(self.fitted, coordinates)
        return mean + self.trend @ list_features(coordinates).T, deviation

    def recall(self) -> tuple[Floats, Floats]:
        """The same at the points that were tried."""
        mean, deviation = recall(self.fitted)
        return mean + self.trend @ list_features(self.fitted.x.numpy()).T, deviation


def choose(
    problem: SearchProblem,
    known: list[EvaluationOutcome],
    count: int,
    gain: float,
    anywhere: bool,
    rng: np.random.Generator,
) -> list[Suggestion]:
    space, points = problem.space, to_points(known)
    model = fit_model(space, problem.target, known)
    note = {"processes": save(model.fitted.model)}
    suggestions: list[Suggestion] = []
    for _ in range(count):
        point = search_pool(space, model, gain / model.scale, points, anywhere, rng)[None]
        suggestions.append(Suggestion(to_parameters(space, point)[0], note))
        if len(suggestions) < count:
            model = replace(model, fitted=imagine(model.fitted, to_coordinates(space, point)))
    return suggestions


def fit_model(space: SearchSpace, qos: QoS, known: Sequence[EvaluationOutcome]) -> Model:
    """Fit the trend, then the processes of what it leaves."""
    figures, noise = list_targets(known, qos)
    middle, scale = figures.mean(axis=1, keepdims=True), figures.std(axis=1, keepdims=True).clip(1e-3)
    before = next((o.note["processes"] for o in reversed(known) if "processes" in o.note), None)
    points = to_coordinates(space, to_points(known))
    standard, spread = (figures - middle) / scale, (noise / scale) ** 2
    trend = fit_trend(list_features(points), standard, spread)
    fitted = fit(points, standard - trend @ list_features(points).T, spread, before)
    return Model(fitted, trend, ((0.0 - middle) / scale)[1:, 0], float(middle[0, 0]), float(scale[0, 0]))


def list_features(coordinates: Floats) -> Floats:
    """Of points: one, the weights' coordinates, their squares and product, and the other coordinates [m, k]."""
    a, b = coordinates[:, -2], coordinates[:, -1]
    return np.column_stack([np.ones(len(a)), a, b, a * a, a * b, b * b, coordinates[:, :-2]])


def fit_trend(features: Floats, figures: Floats, variance: Floats) -> Floats:
    """Ridge regression of each figure [3, n] on the features [n, k]; what is noisy counts less."""
    ridge = RIDGE * np.diag([0.0] + [1.0] * (features.shape[1] - 1))
    weighted = [features.T / (1.0 + one / UNEXPLAINED) for one in variance]
    return np.array(
        [np.linalg.solve(w @ features + ridge, w @ figure) for w, figure in zip(weighted, figures, strict=True)]
    )


def estimate_candidates(space: SearchSpace, qos: QoS, known: Sequence[EvaluationOutcome]) -> list[tuple[float, float]]:
    """Posterior of points that were tried: their cost, and the probability that they are feasible."""
    with alone():
        model = fit_model(space, qos, known)
        mean, deviation = model.recall()
    costs = np.exp(model.middle + model.scale * mean[0])
    likely = np.exp(feasibility(mean, deviation, model.limits))
    return [(float(cost), float(p)) for cost, p in zip(costs, likely, strict=True)]


def search_pool(
    space: SearchSpace, model: Model, gain: float, points: Floats, anywhere: bool, rng: np.random.Generator
) -> Floats:
    """The point [n + 2] of greatest acquisition: of a pool, then of the neighbourhoods of its best.

    Once something is believed feasible, the pool is of neighbours of the best points but for every few suggestions:
    the processes are too sure of themselves far from what was tried.
    """
    mean, deviation = model.recall()
    likely = feasibility(mean, deviation, model.limits)
    believed = mean[0][likely > math.log(0.5)]  # costs of the points that are more likely feasible than not
    goal = float(believed.min(initial=math.inf)) - gain
    standing = np.argsort(mean[0, : len(points)] - 2.0 * likely[: len(points)])[:4]

    def judge(pool: Floats) -> Floats:
        return acquire(*model.predict(to_coordinates(space, pool)), model.limits, goal)

    if anywhere or believed.size == 0:
        pool = np.concatenate([spread(space, POOL, rng), perturb(space, points[standing], AROUND, rng)])
    else:
        pool = perturb(space, points[standing], NARROW, rng)
    for _ in range(2):
        best = pool[np.argsort(-judge(pool))[:BEST]]
        pool = np.concatenate([best, perturb(space, best, AGAIN, rng)])
    return pool[int(np.argmax(judge(pool)))]


def acquire(mean: Floats, deviation: Floats, limits: Floats, goal: float) -> Floats:
    likely = feasibility(mean, deviation, limits)
    if math.isinf(goal):
        return likely - 0.1 * mean[0]
    return log_improvement((goal - mean[0]) / deviation[0]) + np.log(deviation[0]) + likely


def feasibility(mean: Floats, deviation: Floats, limits: Floats) -> Floats:
    """Log probability that both constraints are met [m]."""
    return np.asarray(log_ndtr((limits[:, None] - mean[1:]) / deviation[1:]).sum(axis=0))


def log_improvement(z: Floats) -> Floats:
    """log(phi(z) + z Phi(z)); far below zero by its expansion, in which the difference does not cancel."""
    safe = np.maximum(z, -6.0)
    density = np.exp(-0.5 * safe**2) / math.sqrt(2.0 * math.pi)
    near = np.log(density + safe * np.exp(log_ndtr(safe)))
    low = np.minimum(z, -6.0)
    far = -0.5 * low**2 - 0.5 * math.log(2.0 * math.pi) - 2.0 * np.log(-low) + np.log1p(-3.0 / low**2)
    return np.where(z > -6.0, near, far)


def list_targets(known: Sequence[EvaluationOutcome], qos: QoS) -> tuple[Floats, Floats]:
    """Log cost and both squashed constraints [3, n], and their standard errors."""
    cost = np.array([outcome.price for outcome in known])
    rows, errors = [np.log(np.maximum(cost, 1e-12))], [log_errors(known, cost)]
    for name, allowed in (("violations", qos.eta_v), ("reconfigurations", qos.eta_r)):
        share = np.array([getattr(outcome, name) for outcome in known])
        error = np.array([getattr(outcome, f"{name}_error") for outcome in known])
        raw = np.log((share + SMALL * allowed) / (allowed + SMALL * allowed))
        relative = np.where(np.isnan(error), 0.1 * share, error) / (share + SMALL * allowed)
        rows.append(SQUASH * np.tanh(raw / SQUASH))
        errors.append(relative * (1.0 - np.tanh(raw / SQUASH) ** 2))
    age = np.array([outcome.age for outcome in known])
    return np.array(rows), np.hypot(np.array(errors), AGEING * age)


def log_errors(known: Sequence[EvaluationOutcome], cost: Floats) -> Floats:
    """Of the log cost: stated where several seeds say it, else as usual here, or large where it was given up early."""
    error = np.array([outcome.price_error for outcome in known]) / np.maximum(cost, 1e-12)
    several = error[~np.isnan(error) & (error > 0.0)]
    usual = math.sqrt(3.0) * float(np.median(several)) if several.size >= 3 else USUAL
    whole = np.array([outcome.whole for outcome in known])
    return np.where(whole, np.where(np.isnan(error), usual, error), GIVEN_UP)
