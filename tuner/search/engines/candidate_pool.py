"""Candidate points of the search space, and their coordinates for the Gaussian processes.

Coordinates: half of how busy a replica may be within the operator's bound, which is what a bound means to a scaler,
plus the share itself, which goes on telling bounds apart where that saturates; and the logarithms of the weights of
performance and of reconfiguration over that of resources, drawn together at the ends, for weights count in ratios. On
1,200 random points of three applications such coordinates predicted cost from 40 points with R2 .3 to .7, where shares
with sticks broken off the simplex had less than .3.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import qmc

from scaler.model.kernel import Floats
from tuner.search.space.parameters import Parameters
from tuner.search.space.space import SearchSpace, gather, project_to_limits

BENT = 3.0  # logarithm at which a weight's coordinate rises half as far as it did at 0
WIDEST = 5.0  # of a weight's logarithm in the pool
FIRST_RATIOS = np.array([[-2.5, -3.5], [3.5, 4.5]])  # between which the first weights' logarithms lie
STEPS = (0.02, 0.06, 0.2, 0.6)  # of perturbations, in logarithms


def to_coordinates(space: SearchSpace, shares: Floats, ratios: Floats) -> Floats:
    """Shares [m, n] and logarithms of weights' ratios [m, 2] as coordinates [m, n + 2].

    Busy: the utilisation at which the M/G/1 response time is the bound, on the fastest type.
    """
    slack = 2.0 * (shares - space.idle)
    busy = slack / (space.scatter * space.idle + slack)
    return np.concatenate([0.5 * busy + shares, 0.5 * ratios / (1.0 + np.abs(ratios) / BENT)], axis=1)


def take_apart(parameters: Parameters) -> tuple[Floats, Floats]:
    """Shares [n] and logarithms of the weights' ratios [2]."""
    w = parameters.weights
    floor = 1e-9
    ratios = np.log(np.maximum([w.performance, w.reconfiguration], floor) / max(w.resources, floor))
    return np.array(parameters.shares), ratios


def put_together(shares: Floats, ratios: Floats) -> list[Parameters]:
    """Rows of shares [m, n] and of ratios [m, 2] as parameters."""
    odds = np.exp(np.concatenate([ratios, np.zeros((len(ratios), 1))], axis=1))
    return gather(shares, odds / odds.sum(axis=1, keepdims=True))


def spread(space: SearchSpace, count: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Points all over the space: half with any shares, half with shares near the proportions of the service times."""
    n = len(space.operators)
    anywhere = rng.gamma(rng.choice([0.5, 1.0, 4.0], (count, 1)), size=(count, n)) + 1e-6
    near = space.idle * np.exp(rng.normal(0.0, 0.5, (count, n)))
    scores = np.where(np.arange(count)[:, None] % 2 == 0, anywhere, near)
    return project_to_limits(space, scores), rng.uniform(-WIDEST, WIDEST, (count, 2))


def perturb(
    space: SearchSpace, shares: Floats, ratios: Floats, count: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Each point [k, ...] `count` times, moved by various steps in some of its coordinates."""
    n = shares.shape[1]
    x, r = np.repeat(shares, count, axis=0), np.repeat(ratios, count, axis=0)
    step = rng.choice(STEPS, (len(x), 1))
    moved = rng.random((len(x), n + 2)) < np.maximum(0.35, 2.0 / (n + 2))
    shift = rng.normal(size=(len(x), n + 2)) * step * moved
    tilted = x * np.exp(shift[:, :n])
    return project_to_limits(space, tilted), np.clip(r + 2.0 * shift[:, n:], -WIDEST, WIDEST)


def design(space: SearchSpace, count: int, seed: int) -> list[Parameters]:
    """What to try before anything is known: shares near the proportions of the service times, weights by Sobol."""
    points = qmc.Sobol(2 + len(space.operators), scramble=True, seed=seed).random(1 << max(1, (count - 1).bit_length()))
    noise = 0.8 * (points[:count, 2:] - 0.5)
    noise[0] = 0.0
    shares = project_to_limits(space, space.idle * np.exp(noise))
    return put_together(shares, FIRST_RATIOS[0] + points[:count, :2] * (FIRST_RATIOS[1] - FIRST_RATIOS[0]))
