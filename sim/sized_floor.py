"""Floor of the world with changes of any size: the least cost per slot of any policy, all rates known beforehand.

A change leads from any deployment to any other at the price of one reconfiguration, so that of two deployments with
equal capacity only the cheaper one is ever wanted: with R types and up to K replicas, at most R K are. Backward dynamic
programming over these, and over the tuples that wait where the plant keeps them.

In `memoryless` the floor is exact, unless prices change over time or supply ends: then each deployment is charged at
the cheapest make-up of the slot, and what is found is a lower bound. It is one in the plants with memory, too: changes
take no time, replicas serve at once, work is done at the full rate of the replicas (what waits is rounded down to a
grid). A slot is then late only where it must be:

    backlog  the fluid's wait, or the queue's answer at a rate that the replicas keep up with, exceeds the bound
    batches  the shortest cycle does (`batch_limit`), or the batch of all that waits over the whole slot

What an exchange of types replaces serves on until its replacements do, and is paid: at no time is more served with than
what is paid for. Where replicas start one after another, both serve side by side for a while, in up to twice the most
replicas and as one reconfiguration: each is then taken for two, of half the price.

Notation: S deployments, Q levels of the queue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, Problem, lay_out, replica_response
from scaler.model.micro_batches import MicroBatches, phase_of, tuple_seconds
from scaler.model.task import Task
from sim.compiler import compile_kernel
from sim.floor import Bound, rate_limit

LEVELS = 48  # of the queue


@dataclass(frozen=True, slots=True, eq=False)
class SizedWorld:
    """What the floor depends on beside the task."""

    first: Integers  # [N] deployment
    plant: str
    slot_s: float
    prices: Floats  # [T, N], or [0, N]: they stay
    staggered: bool = False  # whether the replicas of an exchange may start one after another


class Options(NamedTuple):
    """The deployments that may be wanted; the last is the first slot's."""

    count: Integers  # type: ignore[assignment]  # [S]; shadows tuple.count
    rank: Integers  # [S] of the slowest type that it may have
    limit: Floats  # [S] highest rate that it answers in time, work that is left aside
    keeps_up: Floats  # [S] rate from which on that limit says nothing
    work_rate: Floats  # [S] tuples per second that get through
    wait: Floats  # [S] seconds that the fluid's mean wait may take
    patience: Floats  # [S] tuples that may wait all through a slot


class Grid(NamedTuple):
    """The levels of the queue, in tuples."""

    step: float
    slot_s: float


def has_floor(task: Task) -> bool:
    """Whether a lower bound is known: not where batches are cut apart, limited in size or noisy."""
    b = task.batches
    return b is None or (b.merge and b.most == 0.0 and b.noise_s == 0.0)


def sized_floor(
    task: Task, rates: Floats, world: SizedWorld, bound: float | None = None, shares: tuple[float, float] = (1.0, 1.0)
) -> Bound:
    """The least average slot cost over these rates.

    As one of several operators, with another bound and a share of the weights: of what happens, of resources.
    """
    p = lay_out(task if bound is None else replace(task, bound=bound))
    p = p._replace(w_perf=p.w_perf * shares[0], w_rcf=p.w_rcf * shares[0], w_res=p.w_res * shares[1])
    if world.staggered:
        p = p._replace(w_rcf=0.5 * p.w_rcf)
    options = list_options(task, p, rates, world)
    remembers = world.plant != "memoryless"
    levels = LEVELS if remembers else 1
    longest = float(options.patience[np.isfinite(options.patience)].max(initial=0.0))
    grid = Grid(1.25 * longest / LEVELS if longest > 0.0 else 1.0, world.slot_s)
    varied = world.prices.shape[0] > 0
    prices = price_options(p, options, world.prices if varied else p.price[None, :], world.first)
    value = np.zeros((len(options.count), levels))
    compile_kernel(sweep_back)(p, options, grid, rates, prices, value, value.copy(), np.zeros(levels))
    exact = not remembers and not varied and bool((p.most >= p.k_max).all())
    return Bound(float(value[-1, 0]) / max(1, len(rates)), exact)


def list_options(task: Task, p: Problem, rates: Floats, world: SizedWorld) -> Options:
    """Every number of replicas with every slowest type that there is supply for."""
    most = 2 * p.k_max if world.staggered else p.k_max
    pairs = [(n, r) for n in range(p.k_min, most + 1) for r in range(len(p.order))]
    pairs = [(n, r) for n, r in pairs if int(p.most[p.order[r:]].sum()) >= n]
    pairs.append((int(world.first.sum()), min(int(p.rank[i]) for i in np.flatnonzero(world.first))))
    highest = float(rates.max()) if len(rates) else 0.0
    figures = [measure(task, p, n, float(p.speedup[p.order[r]]), highest, world) for n, r in pairs]
    columns = [np.array(column, np.float64) for column in zip(*figures, strict=True)]
    return Options(np.array([n for n, _ in pairs]), np.array([r for _, r in pairs]), *columns)


def measure(
    task: Task, p: Problem, count: int, speed: float, highest: float, world: SizedWorld
) -> tuple[float, float, float, float, float]:
    """Limit, the rate up to which it holds, tuples per second, wait and patience."""
    if world.plant == "memoryless":
        return rate_limit(p, count, speed), math.inf, math.inf, math.inf, math.inf
    if task.batches is not None:
        b = task.batches
        each = tuple_seconds(p.mean, b.work, b.partitions, speed, count)
        spare = (p.bound - b.delay_s) / b.part - b.overhead_s if b.part > 0.0 else math.inf
        limit = batch_limit(b, p.bound, p.quantile, each, world.slot_s)
        return limit, math.inf, 1.0 / each, math.inf, max(0.0, spare / each)
    work_rate = count * speed / p.mean
    wait = math.inf if p.quantile > 0.0 else p.bound - replica_response(p, 0.0, speed)
    return rate_limit(p, count, speed), work_rate, work_rate, wait, p.bound * highest  # as many come in that time


def batch_limit(b: MicroBatches, bound: float, quantile: float, each: float, slot_s: float) -> float:
    """The highest rate of two slots in a row that batches may answer within the bound; below zero if none.

    Each trigger starts one batch at most, so that the m batches of a slot gather what came in m - 2 triggers or more.
    Over gaps g, a share u of each waited for, the response is u g + delay + part (overhead + each rate g); its mean and
    its quantiles are the lower, the more equal the gaps are (Jensen).
    """
    spare = bound - b.delay_s - b.part * b.overhead_s
    batches = slot_s / b.trigger_s if b.trigger_s > 0.0 else 0.0
    gap = b.trigger_s * max(0.0, 1.0 - 2.0 / batches) if batches > 0.0 else b.overhead_s / 2.0
    phase = phase_of(quantile)
    if spare < phase * gap:
        return -1.0
    share = b.part * (quantile if quantile > 0.0 else 1.0) * gap * each
    return math.inf if share <= 0.0 else (spare - phase * gap) / share


def price_options(p: Problem, options: Options, prices: Floats, first: Integers) -> Floats:
    """The least that each option costs in every slot [T or 1, S]; the first deployment costs what it is."""
    columns = []
    for count, rank in zip(options.count[:-1].tolist(), options.rank[:-1].tolist(), strict=True):
        types = p.order[rank:]
        ranked = np.argsort(prices[:, types], axis=1, kind="stable")
        cheap, most = np.take_along_axis(prices[:, types], ranked, axis=1), p.most[types][ranked]
        taken = np.minimum(np.maximum(count - (np.cumsum(most, axis=1) - most), 0), most)
        columns.append((taken * cheap).sum(axis=1))
    columns.append(prices @ first)
    return np.ascontiguousarray(np.array(columns).T)


@jit
def is_late(o: Options, s: int, slot_s: float, rate: float, least_rate: float, waiting: float) -> bool:
    """Whether a slot must be late that begins with so many tuples waiting."""
    if least_rate > o.limit[s] and rate < o.keeps_up[s]:
        return True
    left = waiting + (rate - o.work_rate[s]) * slot_s
    if min(waiting, left) > o.patience[s]:
        return True
    if o.wait[s] == math.inf:
        return False
    if left > 0.0:
        return (waiting + left) / 2.0 / o.work_rate[s] > o.wait[s]
    served = waiting + rate * slot_s
    return waiting > 0.0 and waiting * waiting / 2.0 / (o.work_rate[s] - rate) / served > o.wait[s]


@jit
def sweep_back(
    p: Problem,
    options: Options,
    grid: Grid,
    rates: Floats,
    prices: Floats,
    value: Floats,
    later: Floats,
    best: Floats,
) -> None:
    """One backward pass; `value` [S, Q] becomes the cost from the first slot on, `best` [Q] that of what is best."""
    states, levels, slots = value.shape[0], value.shape[1], rates.shape[0]
    for back in range(slots):
        t = slots - 1 - back
        row = t if prices.shape[0] > 1 else 0
        least_rate = min(rates[t], rates[max(0, t - 1)]) if levels > 1 else rates[t]
        for q in range(levels):
            best[q] = math.inf
            for s in range(states):
                later[s, q] = value[s, q]
                best[q] = min(best[q], value[s, q])
        for s in range(states):
            for q in range(levels):
                waiting = q * grid.step
                place = 0
                if levels > 1:
                    left = max(0.0, waiting + (rates[t] - options.work_rate[s]) * grid.slot_s)
                    place = int(min(levels - 1.0, left / grid.step))
                late = is_late(options, s, grid.slot_s, rates[t], least_rate, waiting)
                moved = min(later[s, place], p.w_rcf + best[place])
                value[s, q] = moved + p.w_res * prices[row, s] + (p.w_perf if late else 0.0)
