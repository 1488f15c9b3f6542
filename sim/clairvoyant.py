"""The floor under every policy: a task and all its arrival rates, future ones included, in; the least cost per slot out.

Backward dynamic programming over deployments on the memoryless plant, one change a slot, with the replay's own slot
order. Up to `EXACT_TYPES` node types every deployment is a state and the optimum is exact. Beyond, two smaller graphs
enclose it:

- from below, a state is (c, i, m): c replicas, the slowest of rank i, m of these. What the c - m faster ones are is
  forgotten; each is charged at the least price of any faster type, and once the last slowest is removed they turn out
  to be whatever suits best. Every real course maps to one in this graph at no more than its cost: a violation depends
  on (c, i) alone, and no price is overstated. So its optimum is a lower bound.
- from above, deployments of at most two types at a time: a part of the real graph, so that its optimum can be reached.

Notation: S states, E edges; limit[s] is the highest rate that state s answers within the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from scaler.jit import jit
from scaler.problem import Floats, Integers, Problem, Task, lay_out
from scaler.queueing import mg1_response

EXACT_TYPES = 3

Replicas = tuple[int, ...]
Relaxed = tuple[int, int, int]  # replicas, rank of the slowest type, replicas of that type


@dataclass(frozen=True, slots=True)
class Bound:
    """What the clairvoyant pays per slot: no less than `lower`; `upper` is a plan's cost, nan if none was sought."""

    lower: float
    exact: bool
    upper: float = math.nan

    def multiple(self, cost: float) -> float:
        """A policy's cost as a multiple of the floor."""
        return cost / self.lower if self.lower > 0.0 else math.inf


class Graph(NamedTuple):
    """States, what each costs, and which others one change leads to; state 0 is where an operator starts."""

    limit: Floats  # [S]
    price: Floats  # [S]
    first: Integers  # [S + 1] edges of state s are next[first[s] : first[s + 1]]
    next: Integers  # [E]


def floor(task: Task, rates: Floats, with_plan: bool = False) -> Bound:
    """The least average slot cost over these rates; `with_plan` also encloses it from above where it is a bound."""
    p = lay_out(task)
    if len(p.price) <= EXACT_TYPES:
        least = solve(p, deployments(p, len(p.price)), rates)
        return Bound(least, True, least)
    upper = solve(p, deployments(p, 2), rates) if with_plan else math.nan
    return Bound(solve(p, relaxation(p), rates), False, upper)


def solve(p: Problem, graph: Graph, rates: Floats) -> float:
    """Average slot cost of the best course through the graph."""
    if len(rates) == 0:
        return 0.0
    states = len(graph.price)
    return float(sweep(p, graph, rates, np.zeros(states), np.zeros(states))) / len(rates)


@jit
def sweep(p: Problem, g: Graph, rates: Floats, value: Floats, later: Floats) -> float:
    """Cost of the best course from state 0 on, by one backward pass."""
    states = g.price.shape[0]
    for back in range(rates.shape[0]):
        rate = rates[rates.shape[0] - 1 - back]
        for s in range(states):
            later[s] = value[s]
        for s in range(states):
            moved = later[s] - p.w_rcf
            for e in range(g.first[s], g.first[s + 1]):
                moved = min(moved, later[g.next[e]])
            value[s] = moved + p.w_rcf + p.w_res * g.price[s] + (p.w_perf if rate > g.limit[s] else 0.0)
    return value[0]


def rate_limit(p: Problem, count: int, speedup: float) -> float:
    """The highest rate at which the plant's own arithmetic finds the bound kept; below zero if it never is."""

    def keeps(rate: float) -> bool:
        return mg1_response(rate / count, p.mean, p.variance, speedup) <= p.bound

    if not keeps(0.0):
        return -1.0
    low, high = 0.0, 2.0 * count * speedup / p.mean
    while low < (middle := (low + high) / 2.0) < high:
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def limits(p: Problem) -> Floats:
    """Rate limits by parallelism and rank of the slowest type [K + 1, N]."""
    table = np.full((p.k_max + 1, len(p.order)), -1.0)
    for count in range(1, p.k_max + 1):
        for r, i in enumerate(p.order):
            table[count, r] = rate_limit(p, count, float(p.speedup[i]))
    return table


def deployments(p: Problem, mixed: int) -> Graph:
    """Every deployment of at most `mixed` node types at a time."""
    types = len(p.price)
    start = (1, *([0] * (types - 1)))
    states = [start, *(k for k in spread(types, p.k_max, mixed) if k != start)]
    number = {k: s for s, k in enumerate(states)}
    table = limits(p)
    edges = [[number[n] for n in neighbours(k) if n in number] for k in states]
    limit = [table[sum(k), min(int(p.rank[i]) for i in range(types) if k[i])] for k in states]
    return connect(limit, [float(np.dot(k, p.price)) for k in states], edges)


def spread(types: int, k_max: int, mixed: int) -> Iterator[Replicas]:
    """Replica counts of one to `k_max` in total, at most `mixed` of them above zero."""
    for present in range(1, min(mixed, types) + 1):
        for chosen in combinations(range(types), present):
            for counts in compositions(present, k_max):
                k = [0] * types
                for i, n in zip(chosen, counts, strict=True):
                    k[i] = n
                yield tuple(k)


def compositions(parts: int, most: int) -> Iterator[Replicas]:
    """Positive numbers, so many of them, that sum to at most `most`."""
    if parts == 0:
        yield ()
        return
    for head in range(1, most - parts + 2):
        for tail in compositions(parts - 1, most - head):
            yield (head, *tail)


def neighbours(k: Replicas) -> Iterator[Replicas]:
    for i in range(len(k)):
        for delta in (-1, 1):
            yield (*k[:i], k[i] + delta, *k[i + 1 :])


def relaxation(p: Problem) -> Graph:
    """The graph of (c, i, m) that costs no course more than it really does."""
    top = len(p.price) - 1
    start: Relaxed = (1, int(p.rank[0]), 1)
    every = [(c, i, m) for c in range(1, p.k_max + 1) for i in range(top + 1) for m in range(1, c + 1)]
    states = [start, *(s for s in every if s != start and (s[1] < top or s[0] == s[2]))]
    number = {s: at for at, s in enumerate(states)}
    table = limits(p)
    sorted_price = p.price[p.order]
    price = [m * sorted_price[i] + (c - m) * min(sorted_price[i + 1 :], default=0.0) for c, i, m in states]
    edges = [[number[n] for n in relaxed_neighbours(s, top) if n in number] for s in states]
    return connect([table[c, i] for c, i, _ in states], price, edges)


def relaxed_neighbours(state: Relaxed, top: int) -> Iterator[Relaxed]:
    """Where one replica more or less leads; those that do not exist are for the caller to leave out."""
    c, i, m = state
    yield c + 1, i, m  # a faster one more
    yield c + 1, i, m + 1
    for slower in range(i):
        yield c + 1, slower, 1
    if c > m:
        yield c - 1, i, m  # a faster one less
    if m > 1:
        yield c - 1, i, m - 1
    else:
        for faster in range(i + 1, top + 1):
            for among in range(1, c):
                yield c - 1, faster, among


def connect(limit: list[float], price: list[float], edges: list[list[int]]) -> Graph:
    first = np.cumsum([0, *(len(e) for e in edges)])
    return Graph(np.array(limit), np.array(price), first, np.array([n for e in edges for n in e], np.int64))
