"""Engines against random search on problems with known optima: better beyond chance, over paired seeds.

What is compared is how much dearer than the optimum the best feasible trial is after as many evaluations, by Wilcoxon's
signed-rank test, one-sided, on the differences of its logarithm over all problems and seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
from scipy.stats import wilcoxon

from tests.search.problems import PROBLEMS, evaluate, find_regret, search
from tuner.search.engines import Suggestion, find_engine
from tuner.search.space.space import from_cube, meets

LEVEL = 0.01


@cache
def find_log_regret(name: str, engine: str, seed: int, budget: int) -> float:
    problem = PROBLEMS[name]()
    regret = find_regret(problem, search(problem, find_engine(engine), seed, budget))
    return float(np.log10(np.clip(regret, 1e-4, 1e3)))  # none feasible counts as very dear


def find_chance(engine: str, budgets: Mapping[str, int], seeds: int) -> float:
    """How likely differences as these were, were the engine no better than random."""
    pairs = [(name, seed, budget) for name, budget in budgets.items() for seed in range(seeds)]
    gains = [find_log_regret(n, engine, s, b) - find_log_regret(n, "random", s, b) for n, s, b in pairs]
    return float(wilcoxon(gains, alternative="less").pvalue)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_optimum_is_where_it_is_said_to_be(name: str) -> None:
    """It is feasible, costs what is stated, and none of many points nearby or anywhere is feasible and cheaper."""
    problem = PROBLEMS[name]()
    above, *slacks = problem.judge(problem.best)
    assert abs(above) < 1e-3
    assert min(slacks) > -1e-3
    rng = np.random.default_rng(0)
    near = problem.best + rng.normal(0.0, 0.02, (1000, len(problem.best)))
    for z in np.concatenate([near.clip(0.0, 1.0), rng.uniform(size=(1000, len(problem.best)))]):
        above, *slacks = problem.judge(z)
        assert above > -1e-3 or min(slacks) < 0.0


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_is_feasible_is_neither_most_nor_nearly_nothing(name: str) -> None:
    """Else the constraints would decide nothing, or chance would decide everything."""
    problem = PROBLEMS[name]()
    space = problem.problem.space
    points = from_cube(space, np.random.default_rng(1).uniform(size=(500, space.size)))
    met = [meets(evaluate(problem, Suggestion(point)), problem.problem.qos) for point in points]
    assert 0.05 < np.mean(met) < 0.8


@pytest.mark.slow
def test_gp_beats_random_search() -> None:
    assert find_chance("gp", {"quadratic": 25, "gramacy": 25, "hartmann": 30, "branin": 25}, seeds=3) < LEVEL


@pytest.mark.slow
@pytest.mark.long
def test_gp_beats_random_search_on_twenty_operators() -> None:
    assert find_chance("gp", {"twenty": 50}, seeds=8) < LEVEL


@pytest.mark.slow
@pytest.mark.long
def test_the_papers_way_beats_random_search() -> None:
    """It moves the shares and the weights in turns, and has one of them to itself for 25 evaluations."""
    assert find_chance("skopt", {"branin": 25, "quadratic": 40}, seeds=5) < LEVEL


def test_tpe_beats_random_search() -> None:
    assert find_chance("optuna", {"quadratic": 50, "gramacy": 50, "hartmann": 50, "branin": 50}, seeds=5) < LEVEL


@pytest.mark.long
@pytest.mark.slow
def test_cmaes_beats_random_search() -> None:
    budgets = {"quadratic": 50, "gramacy": 50, "hartmann": 50, "branin": 50}
    assert find_chance("optuna-cmaes", budgets, seeds=4) < LEVEL


@pytest.mark.long
@pytest.mark.slow
def test_optunas_gp_beats_random_search() -> None:
    assert find_chance("optuna-gp", {"quadratic": 14}, seeds=8) < LEVEL


def test_random_search_does_not_beat_itself() -> None:
    """The test's own test: with other seeds alone there is no gain to be found."""
    pairs = [(name, seed) for name in PROBLEMS for seed in range(8)]
    gains = [find_log_regret(n, "random", s, 30) - find_log_regret(n, "random", s + 100, 30) for n, s in pairs]
    assert wilcoxon(gains, alternative="less").pvalue > LEVEL
