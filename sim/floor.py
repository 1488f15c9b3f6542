"""Clairvoyant floor: the least cost per slot of any policy, from all arrival rates known beforehand.

Backward dynamic programming over deployments on the memoryless plant, one change a slot, with the replay's own slot
order. Where there are few deployments each is a state and the optimum is exact. Where there are many, a smaller graph
bounds it from below: a state names the `depth` slowest node types present, how many there are of each, and how many
replicas are faster than these. Of the faster ones each is charged at the least price of any faster type, and once one
of the named types has gone they turn out to be whatever suits best. Every real course maps to one in this graph at no
more than its cost: a violation depends on the number of replicas and the slowest type alone, and no price is too high.

Notation: S states, E edges; limit[s] is the highest rate that state s answers within the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, Problem, lay_out, replica_response
from scaler.model.task import Task
from sim.compiler import compile_kernel

MAX_STATES = 50_000  # some minutes for half a million slots
EDGES_PER_SECOND = 4e8  # of the compiled pass, roughly

Named = tuple[tuple[int, int], ...]  # rank and replicas of the slowest types present, slowest first
Relaxed = tuple[Named, int]  # and how many replicas are faster than all of these


@dataclass(frozen=True, slots=True)
class Bound:
    """What the clairvoyant pays per slot: no less than `lower`, and that where it is exact."""

    lower: float
    exact: bool

    def multiple(self, cost: float) -> float:
        """A policy's cost as a multiple of the floor."""
        return cost / self.lower if self.lower > 0.0 else math.inf


class Graph(NamedTuple):
    """States, what each costs, and which others one change leads to; state 0 is where an operator starts."""

    limit: Floats  # [S]
    price: Floats  # [S]
    first: Integers  # [S + 1] edges of state s are next[first[s] : first[s + 1]]
    next: Integers  # [E]


def clairvoyant_floor(task: Task, rates: Floats, depth: int | None = None) -> Bound:
    """The least average slot cost over these rates."""
    return shifted_floors([Stretch(task, rates)], depth)[0]


def affordable_depth(types: int, k_max: int) -> int:
    """All types, if the graph then keeps within `MOST_STATES`; else two, or one.

    A third type named would raise the published bounds by less than a thousandth, and take ten times as long.
    """
    for depth in (types, 2):
        if count_states(types, k_max, depth) <= MAX_STATES:
            return depth
    return 1


def count_states(types: int, k_max: int, depth: int) -> int:
    """Those without faster replicas, and those with: of `depth` types and then at least one more."""
    plain = sum(comb(types, n) * comb(k_max, n) for n in range(1, depth + 1))
    return plain + comb(types - 1, depth) * comb(k_max, depth + 1)


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
        return replica_response(p, rate / count, speedup) <= p.bound

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


def compositions(parts: int, most: int) -> Iterator[tuple[int, ...]]:
    """Positive numbers, so many of them, that sum to at most `most`."""
    if parts == 0:
        yield ()
        return
    for head in range(1, most - parts + 2):
        for tail in compositions(parts - 1, most - head):
            yield (head, *tail)


def relaxation(p: Problem, depth: int) -> Graph:
    """The graph whose states name the `depth` slowest types; exact if that is all there are."""
    top = len(p.price) - 1
    start: Relaxed = (((int(p.rank[0]), 1),), 0)
    states = [start, *(s for s in every_relaxed(top, p.k_max, depth) if s != start)]
    number = {s: at for at, s in enumerate(states)}
    table = limits(p)
    ranked = p.price[p.order]
    least = [float(ranked[r + 1 :].min()) if r < top else 0.0 for r in range(top + 1)]
    limit = [table[sum(m for _, m in named) + faster, named[0][0]] for named, faster in states]
    price = [sum(m * ranked[r] for r, m in named) + faster * least[named[-1][0]] for named, faster in states]
    edges = [[number[n] for n in relaxed_neighbours(s, top, depth) if n in number] for s in states]
    return connect(limit, price, edges)


def every_relaxed(top: int, k_max: int, depth: int) -> Iterator[Relaxed]:
    for present in range(1, depth + 1):
        for ranks in combinations(range(top + 1), present):
            for counts in compositions(present, k_max):
                named = tuple(zip(ranks, counts, strict=True))
                yield named, 0
                if present == depth and ranks[-1] < top:
                    for faster in range(1, k_max - sum(counts) + 1):
                        yield named, faster


def relaxed_neighbours(state: Relaxed, top: int, depth: int) -> Iterator[Relaxed]:
    """Where one replica more or less leads; those beyond `k_max`, or none at all, are for the caller to leave out."""
    named, faster = state
    counts = dict(named)
    last = named[-1][0]
    for r in range(top + 1):
        if r > last and len(named) == depth:
            yield named, faster + 1
            break
        more = tuple(sorted({**counts, r: counts.get(r, 0) + 1}.items()))
        yield (more, faster) if len(more) <= depth else (more[:-1], faster + more[-1][1])
    if faster > 0:
        yield named, faster - 1
    for r, m in named:
        if m > 1:
            yield tuple(sorted({**counts, r: m - 1}.items())), faster
            continue
        fewer = tuple(pair for pair in named if pair[0] != r)
        if faster == 0:
            yield fewer, 0
        for shown in range(last + 1, top + 1):
            for among in range(1, faster + 1):
                yield (*fewer, (shown, among)), faster - among


def connect(limit: list[float], price: list[float], edges: list[list[int]]) -> Graph:
    first = np.cumsum([0, *(len(e) for e in edges)])
    return Graph(np.array(limit), np.array(price), first, np.array([n for e in edges for n in e], np.int64))


class Stretch(NamedTuple):
    """Slots in a row under one task."""

    task: Task
    rates: Floats


def shifted_floors(stretches: Sequence[Stretch], depth: int | None = None) -> list[Bound]:
    """The least average slot cost from the start of each stretch to the end of the last.

    `depth` is how many types a state names; None: as many as some minutes allow.

    One backward pass, carried from the last stretch to the first: a state names types by their rank in speed, so that
    it stands for the same deployments under every task with these speeds. The first stretch begins as an operator does;
    from a later one the clairvoyant goes on from whichever deployment is best.
    """
    first = stretches[0].task
    if any(unlike(first, stretch.task) for stretch in stretches):
        raise BadInput("the floor of a world that changes needs the same node speeds and K_max throughout")
    depth = depth if depth is not None else affordable_depth(len(first.types), first.k_max)
    exact = depth >= len(first.types)
    value, later, slots = np.empty(0), np.empty(0), 0
    bounds: list[Bound] = []
    for i in reversed(range(len(stretches))):
        task, rates = stretches[i]
        p = lay_out(task)
        graph = relaxation(p, depth)
        if value.size == 0:
            value, later = np.zeros_like(graph.price), np.zeros_like(graph.price)
        compile_kernel(sweep)(p, graph, rates, value, later)
        slots += len(rates)
        lower = float(value[0] if i == 0 else value.min()) / max(1, slots)
        bounds.insert(0, Bound(lower, exact))
    return bounds


def unlike(one: Task, other: Task) -> bool:
    """Whether the states of two tasks mean different deployments."""
    return [t.speedup for t in one.types] != [t.speedup for t in other.types] or one.k_max != other.k_max


def guess_seconds(task: Task, slots: int) -> float:
    """How long a floor over so many slots will take, roughly."""
    types = len(task.types)
    states = count_states(types, task.k_max, affordable_depth(types, task.k_max))
    return slots * states * 2.0 * types / EDGES_PER_SECOND
