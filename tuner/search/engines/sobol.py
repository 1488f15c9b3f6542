"""A scrambled Sobol sequence, spread evenly over the search space."""

from __future__ import annotations

from scipy.stats import qmc

from tuner.search.engines import SearchProblem, Suggestion
from tuner.search.space.space import History, from_cube


def suggest(problem: SearchProblem, history: History, seed: int, count: int = 1) -> list[Suggestion]:
    """The points of the sequence that follow on this run's own, whatever came of these."""
    first = sum(outcome.age == 0.0 for outcome in history)
    sequence = qmc.Sobol(problem.space.size, scramble=True, rng=seed)
    points = sequence.random_base2((first + count - 1).bit_length())[first : first + count]
    return [Suggestion(parameters) for parameters in from_cube(problem.space, points)]
