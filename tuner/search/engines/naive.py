"""Algorithm 5 of the paper, its baseline: equal weights, equal parts of every path's bound, spare latency shared."""

from __future__ import annotations

import numpy as np

from scaler.model.kernel import Floats
from tuner.search.engines import SearchProblem, Suggestion
from tuner.search.space.space import History, SearchSpace, fits, gather, project_to_limits

EQUAL_WEIGHTS = (1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0)
SPENT = 1e-9  # of R_max: a path with less to spare is used up


def suggest(problem: SearchProblem, history: History, seed: int, count: int = 1) -> list[Suggestion]:
    """The one suggestion, as long as this run has tried nothing."""
    if count < 1 or any(outcome.age == 0.0 for outcome in history):
        return []
    shares = share_spare_latency(problem.space, equal_shares(problem.space))
    return [Suggestion(gather(shares[None], np.array([EQUAL_WEIGHTS]))[0])]


def equal_shares(space: SearchSpace) -> Floats:
    """Of the bounds of an operator's paths, the least part by operator [n]: 1 over the longest path's length.

    Shares along shorter paths add up to less than these may take (lines 1 to 4 of the algorithm).
    """
    part = bounds_of_paths(space) / space.incidence.sum(axis=1)
    return np.where(space.incidence > 0.0, part[:, None], np.inf).min(axis=0)


def share_spare_latency(space: SearchSpace, shares: Floats) -> Floats:
    """Raise shares alike until every operator lies on a path that is used up (line 5 of the algorithm) [n].

    A path within another one is used up no further than that one lets it.
    """
    bounds, shares = bounds_of_paths(space), shares.copy()
    on_path = space.incidence > 0.0
    for _ in shares:  # each pass uses up one path at least, and with it one operator that was free
        spare = np.maximum(bounds - space.incidence @ shares, 0.0)
        free = ~on_path[spare <= SPENT].any(axis=0)
        if not free.any():
            break
        raised = (on_path & free).sum(axis=1)
        open_paths = raised > 0
        shares[free] += (spare[open_paths] / raised[open_paths]).min()
    return shares


def fitting_shares(space: SearchSpace) -> Floats:
    """The algorithm's shares [n], projected to the space where they are not within it."""
    naive = share_spare_latency(space, equal_shares(space))[None]
    return np.asarray((naive if fits(space, naive)[0] else project_to_limits(space, naive))[0])


def bounds_of_paths(space: SearchSpace) -> Floats:
    """What the shares along each path [P] are to add up to: 1, where it has no bound of its own."""
    whole = space.low > 0.0  # one path at least is no part of another
    eps = ((space.high - space.low) / (space.high + space.low))[whole][0]
    return np.asarray(space.high / (1.0 + eps))
