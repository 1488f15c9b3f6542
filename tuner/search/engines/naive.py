"""Algorithm 5 of the paper, its baseline: equal weights, and every path's bound in equal parts."""

from __future__ import annotations

import numpy as np

from scaler.model.kernel import Floats
from tuner.search.engines import SearchProblem, Suggestion
from tuner.search.space.space import History, SearchSpace, gather

EQUAL_WEIGHTS = (1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0)


def suggest(problem: SearchProblem, history: History, seed: int, count: int = 1) -> list[Suggestion]:
    """The one suggestion, as long as this run has tried nothing."""
    if count < 1 or any(outcome.age == 0.0 for outcome in history):
        return []
    return [Suggestion(gather(equal_shares(problem.space)[None], np.array([EQUAL_WEIGHTS]))[0])]


def equal_shares(space: SearchSpace) -> Floats:
    """Of the bounds of an operator's paths, the least part by operator [n]: 1 over the longest path's length.

    As in the paper, whether the shares along shorter paths add up to all that these may take is not asked.
    """
    part = bounds_of_paths(space) / space.incidence.sum(axis=1)
    return np.where(space.incidence > 0.0, part[:, None], np.inf).min(axis=0)


def bounds_of_paths(space: SearchSpace) -> Floats:
    """What the shares along each path [P] are to add up to: 1, where it has no bound of its own."""
    whole = space.low > 0.0  # one path at least is no part of another
    eps = ((space.high - space.low) / (space.high + space.low))[whole][0]
    return np.asarray(space.high / (1.0 + eps))
