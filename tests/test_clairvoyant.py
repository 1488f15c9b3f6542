"""The floor: brute force on tiny instances, enclosed where it is a bound, and below every policy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise, product

import numpy as np
import pytest

from scaler.model.kernel import Floats, Problem, lay_out
from scaler.model.nodes import NodeType
from scaler.model.policy import Kernel
from scaler.model.queueing import mg1_response
from scaler.model.task import Moments, Task, Weights
from scaler.policies.rules.threshold import THRESHOLD_C, THRESHOLD_S
from sim.compiler import compile_kernel
from sim.floor import (
    Graph,
    clairvoyant_floor,
    compositions,
    connect,
    count_states,
    every_relaxed,
    limits,
    relaxation,
    sweep,
)
from tests.examples import replay

SPEEDUPS = (1.0, 0.7, 1.3, 0.4, 2.0)


def make_task(types: int, k_max: int, price_power: float = 1.0, weights: Weights | None = None) -> Task:
    nodes = tuple(NodeType(f"n{i}", s, s**price_power) for i, s in enumerate(SPEEDUPS[:types]))
    return Task(nodes, k_max, Moments(1 / 180, 0.5 / 180**2), 0.05, weights or Weights(0.6, 0.2, 0.2), 650.0)


def some_rates(n: int, seed: int, top: float = 500.0) -> Floats:
    rng = np.random.default_rng(seed)
    return np.round(top * np.abs(np.sin(np.arange(n) / 3.0)) * rng.uniform(0.5, 1.0, n))


def search(p: Problem, rates: Floats) -> float:
    """Every course of changes, tried out with the plant's own formula."""
    types, n = len(p.price), len(rates)
    actions = [(0, 0), *((i, d) for i in range(types) for d in (-1, 1))]
    best = np.inf
    for course in product(actions, repeat=n - 1):
        k = [1] + [0] * (types - 1)
        cost = 0.0
        for t, rate in enumerate(rates):
            slowest = min(p.speedup[i] for i in range(types) if k[i])
            cost += p.w_perf * (mg1_response(rate / sum(k), p.mean, p.variance, slowest) > p.bound)
            cost += p.w_res * float(np.dot(k, p.price))
            if t < n - 1 and course[t][1] != 0:
                i, d = course[t]
                k[i] += d
                cost += p.w_rcf
                if k[i] < 0 or not 1 <= sum(k) <= p.k_max:
                    break
        else:
            best = min(best, cost)
    return best / n


def list_deployments(p: Problem, mixed: int) -> Graph:
    """Every deployment of at most `mixed` node types at a time."""
    types = len(p.price)
    start = (1, *([0] * (types - 1)))
    states = [start, *(k for k in spread(types, p.k_max, mixed) if k != start)]
    number = {k: s for s, k in enumerate(states)}
    table = limits(p)
    edges = [[number[n] for n in neighbours(k) if n in number] for k in states]
    limit = [table[sum(k), min(int(p.rank[i]) for i in range(types) if k[i])] for k in states]
    return connect(limit, [float(np.dot(k, p.price)) for k in states], edges)


def spread(types: int, k_max: int, mixed: int) -> Iterator[tuple[int, ...]]:
    """Replica counts of one to `k_max` in total, at most `mixed` of them above zero."""
    for present in range(1, min(mixed, types) + 1):
        for chosen in combinations(range(types), present):
            for counts in compositions(present, k_max):
                k = [0] * types
                for i, n in zip(chosen, counts, strict=True):
                    k[i] = n
                yield tuple(k)


def neighbours(k: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for i in range(len(k)):
        for delta in (-1, 1):
            yield (*k[:i], k[i] + delta, *k[i + 1 :])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("types", "k_max", "power", "n"), [(1, 3, 1.0, 7), (2, 3, 1.3, 6), (3, 3, 0.8, 5)])
def test_exact_equals_brute_force(types: int, k_max: int, power: float, n: int, seed: int) -> None:
    weights = Weights(0.5, 0.05, 0.45)
    task = make_task(types, k_max, power, weights)
    rates = some_rates(n, seed)
    bound = clairvoyant_floor(task, rates)
    assert bound.exact
    assert bound.lower == pytest.approx(search(lay_out(task), rates), rel=1e-12)


def solve(p: Problem, graph: Graph, rates: Floats) -> float:
    """Average slot cost of the best course through a graph."""
    value, later = np.zeros_like(graph.price), np.zeros_like(graph.price)
    return float(compile_kernel(sweep)(p, graph, rates, value, later)) / len(rates)


@pytest.mark.parametrize("power", [0.8, 1.0, 1.2])
@pytest.mark.parametrize("types", [3, 4, 5])
def test_relaxations_tighten_towards_the_exact_floor(types: int, power: float) -> None:
    task = make_task(types, 4, power, Weights(0.6, 0.05, 0.35))
    rates = some_rates(300, 7)
    exact = clairvoyant_floor(task, rates, depth=types).lower
    chain = [clairvoyant_floor(task, rates, depth=d) for d in range(1, types)]
    reachable = solve(lay_out(task), list_deployments(lay_out(task), 2), rates)
    assert exact <= reachable + 1e-12
    for loose, tight in pairwise(chain):
        assert loose.lower <= tight.lower + 1e-12
    for bound in chain:
        assert not bound.exact
        assert bound.lower <= exact + 1e-12


def test_naming_every_type_is_the_graph_of_deployments() -> None:
    p = lay_out(make_task(3, 5, 1.1))
    rates = some_rates(500, 3)
    assert solve(p, relaxation(p, 3), rates) == pytest.approx(solve(p, list_deployments(p, 3), rates), rel=1e-12)


@pytest.mark.parametrize(("types", "k_max", "depth"), [(3, 5, 3), (4, 4, 1), (5, 6, 2), (4, 3, 3)])
def test_states_are_as_many_as_counted(types: int, k_max: int, depth: int) -> None:
    states = list(every_relaxed(types - 1, k_max, depth))
    assert len(states) == len(set(states)) == count_states(types, k_max, depth)


def test_limits_part_kept_from_broken_bounds() -> None:
    p = lay_out(make_task(5, 6))
    table = limits(p)
    for count in range(1, 7):
        for r, i in enumerate(p.order):
            rate = table[count, r]
            assert mg1_response(rate / count, p.mean, p.variance, p.speedup[i]) <= p.bound
            assert mg1_response(np.nextafter(rate, 1e9) / count, p.mean, p.variance, p.speedup[i]) > p.bound
            assert rate == pytest.approx(count * p.capacity[i], rel=1e-9)


@pytest.mark.parametrize("kernel", [THRESHOLD_C, THRESHOLD_S])
@pytest.mark.parametrize("types", [2, 5])
def test_no_policy_costs_less(kernel: Kernel, types: int) -> None:
    task = make_task(types, 5)
    rates = some_rates(2000, 11, 600.0)
    assert clairvoyant_floor(task, rates).lower <= replay(task, rates, kernel).cost


def test_no_slots_cost_nothing() -> None:
    assert clairvoyant_floor(make_task(2, 3), np.empty(0)).lower == 0.0
