"""Cross-validate a Gaussian process of a run's trials, and rank parameters by what they change of its prediction.

The process is of the kind that the default engine fits, but made of finished trials alone and without torch, for pages
and reports. Every trial is predicted by all the others, in closed form (Rasmussen and Williams, "Gaussian Processes for
Machine Learning", 5.10 to 5.12): with C the covariance of the figures, a = C^-1 y, the prediction of y_i without it is
y_i - a_i / C^-1_ii, and its variance 1 / C^-1_ii.

The importance of a parameter is its total effect (Jansen 1999): half the mean square change of the predicted figure
when that parameter alone is drawn anew from the trials, over the variance of the prediction. Where parameters interact,
importances add up to more than 1.

Notation: n trials, d parameters; x [n, d] scaled to [0, 1], y [n] standardised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from scaler.model.kernel import Floats

MIN_TRIALS, MAX_TRIALS = 12, 120  # that a model is made of; of more, so many evenly
STEPS, RATE, MEMORY, SMALL = 80, 0.1, (0.9, 0.99), 1e-8  # of the ascent (Adam)
USUAL = (math.log(0.7), 0.0, math.log(0.1))  # logarithms of length scale, signal and noise, and how widely they vary
SPREAD = (1.0, 1.0, 1.5)
NUGGET = 1e-6
DRAWS = 8  # of every parameter
WITHIN = 1.96  # standard deviations that hold 95 %


@dataclass(frozen=True, slots=True, eq=False)
class ModelCheck:
    """How well left-out trials are predicted, and what the figure depends on; figures in their own unit."""

    observed: Floats  # [n]
    predicted: Floats  # [n] without the trial itself
    explained: float  # share of the variance of left-out trials (R2); below 0: worse than their mean
    covered: float  # share of left-out trials within their 95 % interval
    importances: Mapping[str, float]  # by parameter, the greatest first


@dataclass(frozen=True, slots=True, eq=False)
class FittedProcess:
    x: Floats  # [n, d]
    scales: Floats  # [d]
    signal: float
    inverse: Floats  # [n, n] of the covariance of the figures
    solved: Floats  # [n] inverse times figures

    def predict(self, x: Floats) -> Floats:
        return np.asarray(self.signal * correlate(x, self.x, self.scales) @ self.solved)


def check_model(names: Sequence[str], x: Floats, figures: Floats, seed: int = 0) -> ModelCheck | None:
    """Check a model of figures [n] over parameters [n, d]; None where trials are few or nothing varies."""
    if len(figures) > MAX_TRIALS:
        kept = np.arange(MAX_TRIALS) * len(figures) // MAX_TRIALS
        x, figures = x[kept], figures[kept]
    varied = np.ptp(x, axis=0) > 1e-9 if len(x) else np.zeros(len(names), dtype=bool)
    if len(figures) < MIN_TRIALS or not varied.any() or np.ptp(figures) <= 1e-12 * np.abs(figures).max():
        return None
    chosen = x[:, varied]
    unit = (chosen - chosen.min(axis=0)) / np.ptp(chosen, axis=0)
    middle, spread = float(figures.mean()), float(figures.std())
    y = (figures - middle) / spread
    with threadpool_limits(1):  # matrices are too small for more to pay
        process = fit_process(unit, y)
        effects = find_effects(process, np.random.default_rng(seed))
    certain = process.inverse.diagonal()
    left_out = y - process.solved / certain
    found = dict(zip([name for name, varies in zip(names, varied, strict=True) if varies], effects, strict=True))
    return ModelCheck(
        observed=figures,
        predicted=middle + spread * left_out,
        explained=float(1.0 - np.square(y - left_out).sum() / np.square(y - y.mean()).sum()),
        covered=float((np.abs(y - left_out) <= WITHIN / np.sqrt(certain)).mean()),
        importances=dict(sorted(found.items(), key=lambda item: -item[1])),
    )


def correlate(a: Floats, b: Floats, scales: Floats) -> Floats:
    """Squared exponential correlations [m, n] of points a [m, d] and b [n, d]."""
    a, b = a / scales, b / scales
    squares = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1)[None, :] - 2.0 * a @ b.T
    return np.asarray(np.exp(-0.5 * np.maximum(squares, 0.0)))


def fit_process(x: Floats, y: Floats) -> FittedProcess:
    """The process whose length scales, signal and noise raise the likelihood, times weak priors, the most."""
    n, d = x.shape
    usual = np.array([USUAL[0]] * d + [USUAL[1], USUAL[2]])
    spread = np.array([SPREAD[0]] * d + [SPREAD[1], SPREAD[2]])
    squares = np.square(x[:, None, :] - x[None, :, :]).transpose(2, 0, 1)  # [d, n, n]
    place, first, second = usual.copy(), np.zeros(d + 2), np.zeros(d + 2)
    for step in range(1, STEPS + 1):
        slope = find_slope(place, squares, y) - (place - usual) / np.square(spread)
        first = MEMORY[0] * first + (1.0 - MEMORY[0]) * slope
        second = MEMORY[1] * second + (1.0 - MEMORY[1]) * np.square(slope)
        ahead = first / (1.0 - MEMORY[0] ** step)
        place = place + RATE * ahead / (np.sqrt(second / (1.0 - MEMORY[1] ** step)) + SMALL)
    scales, signal, noise = np.exp(place[:d]), math.exp(place[d]), math.exp(place[d + 1])
    covariance: Floats = signal * correlate(x, x, scales) + (noise + NUGGET) * np.eye(n)
    inverse = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
    return FittedProcess(x, scales, signal, inverse, inverse @ y)


def find_slope(place: Floats, squares: Floats, y: Floats) -> Floats:
    """Gradient of the logarithm of the marginal likelihood by the logarithms of the hyperparameters."""
    d = len(squares)
    inverse_squares = np.exp(-2.0 * place[:d])
    smooth = math.exp(place[d]) * np.exp(-0.5 * np.tensordot(inverse_squares, squares, axes=1))
    noise = math.exp(place[d + 1])
    inverse = np.linalg.inv(smooth + (noise + NUGGET) * np.eye(len(y)))
    solved = inverse @ y
    weight = np.outer(solved, solved) - inverse
    by_scale = 0.5 * np.tensordot(squares, weight * smooth, axes=2) * inverse_squares
    return np.append(by_scale, [0.5 * (weight * smooth).sum(), 0.5 * noise * weight.trace()])


def find_effects(process: FittedProcess, rng: np.random.Generator) -> list[float]:
    """Total effect of every parameter on the prediction."""
    base = process.predict(process.x)
    variance = float(base.var())
    if variance <= 0.0:
        return [0.0] * process.x.shape[1]
    effects = []
    for j in range(process.x.shape[1]):
        changes = []
        for _ in range(DRAWS):
            moved = process.x.copy()
            moved[:, j] = rng.permutation(moved[:, j])
            changes.append(np.square(process.predict(moved) - base).mean())
        effects.append(float(np.mean(changes)) / (2.0 * variance))
    return effects
