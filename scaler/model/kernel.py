"""Task as numpy arrays for compiled kernels, and the arithmetic of deployment keys and prices.

Notation: N node types, K the most replicas, L rate levels; a deployment's key is its replica counts read as digits to
the base K + 1; `order` lists the node types from slow to fast and `rank` is its inverse. An action is a number: 0 for
none, 1 to N for one replica less of each type, N + 1 to 2 N for one more; any other change is -1 - the key of the
deployment that it leads to.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.model.batch_quantiles import batch_load_within, batch_response
from scaler.model.errors import BadInput
from scaler.model.jit import jit
from scaler.model.micro_batches import tuple_seconds
from scaler.model.queue_quantiles import (
    mg1_quantile,
    mg1_quantile_grid,
    mg1_quantile_table,
    replica_rate_within,
    replica_response_time,
)
from scaler.model.queueing import mg1_response
from scaler.model.task import Task

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Problem(NamedTuple):
    """A `Task` as arrays and scalars, the form in which every kernel receives it."""

    speedup: Floats  # [N]
    price: Floats  # [N]
    radix: Integers  # [N]
    order: Integers  # [N]
    rank: Integers  # [N]
    capacity: Floats  # [N] highest total rate per replica within the bound, were it of this type
    most: Integers  # [N] replicas that may be had at present; a replay with shared supply writes it every slot
    k_min: int
    k_max: int
    levels: int
    quantum: float
    mean: float
    variance: float
    bound: float
    w_perf: float
    w_rcf: float
    pause: float  # the whole price of a reconfiguration, of which w_rcf is the share where operators change together
    w_res: float  # per unit of price: the resource weight over C_max
    gamma: float
    one_at_a_time: bool
    quantile: float  # of response times that the bound is about; 0: their mean
    slot_s: float
    batched: bool  # whether the operator takes its tuples in micro-batches of known constants
    hold_out_s: float  # of adding one replica; NaN: not known
    hold_in_s: float  # of removing one
    hold_out_each_s: float  # that every other replica of the same change adds; 0 where not known
    hold_in_each_s: float
    quantiles: Floats  # their normalised M/G/1 quantiles by load (queue_quantiles.py); of length 0 for the mean
    quantile_grid: Floats  # the same by squared coefficient of variation of service (SCV_GRID); none for the mean
    partitions: int  # equal tasks of a batch; 0: work divides evenly among replicas


class KernelView(NamedTuple):
    """Input of a policy's kernel in one slot: the new arrival rate, and the deployment that met it.

    `rate` is demand, arrivals with the rate that works the backlog off; the three apart come last (not known: NaN).
    """

    rate: float
    level: int
    utilisation: float
    response: float
    violated: bool
    key: int
    count: int  # type: ignore[assignment]  # shadows tuple.count, which nobody calls
    price: float
    slowest: int  # rank of the slowest type present
    second: int  # rank of the next slowest present, N if there is none
    arrivals: float
    backlog: float  # tuples that wait at the slot's end
    batch_ratio: float  # mean duration of the slot's batches over the trigger; 0 where there are none


def lay_out(task: Task) -> Problem:
    """Convert a task to arrays."""
    speedup = np.array([t.speedup for t in task.types], dtype=np.float64)
    price = np.array([t.price for t in task.types], dtype=np.float64)
    base = task.k_max + 1
    if base ** len(task.types) >= 2**62:
        raise BadInput(f"{len(task.types)} node types with up to {task.k_max} replicas are more than can be numbered")
    order = np.argsort(speedup, kind="stable").astype(np.int64)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    m, v = task.moments.mean, task.moments.variance
    return Problem(
        speedup=speedup,
        price=price,
        radix=np.array([base**i for i in range(len(task.types))], dtype=np.int64),
        order=order,
        rank=rank,
        capacity=np.array([rate_within(task, s) for s in speedup], dtype=np.float64),
        most=np.array([task.k_max if t.supply.capacity is None else t.supply.capacity for t in task.types], np.int64),
        k_min=task.k_min,
        k_max=task.k_max,
        levels=task.levels,
        quantum=task.highest_rate / task.levels,
        mean=m,
        variance=v,
        bound=task.bound,
        w_perf=task.weights.performance,
        w_rcf=task.weights.reconfiguration,
        pause=task.weights.reconfiguration / task.pause_share,
        w_res=task.weights.resources / task.dearest,
        gamma=task.gamma,
        one_at_a_time=task.one_at_a_time,
        quantile=task.quantile or 0.0,
        slot_s=task.slot_s,
        batched=task.batches is not None,
        hold_out_s=math.nan if task.hold is None or task.hold.out is None else task.hold.out.seconds(1),
        hold_in_s=math.nan if task.hold is None or task.hold.into is None else task.hold.into.seconds(1),
        hold_out_each_s=0.0 if task.hold is None or task.hold.out is None else task.hold.out.each_s,
        hold_in_each_s=0.0 if task.hold is None or task.hold.into is None else task.hold.into.each_s,
        quantiles=mg1_quantile_table(v / (m * m), task.quantile or 0.0),
        quantile_grid=mg1_quantile_grid(task.quantile or 0.0),
        partitions=0 if task.batches is None else task.batches.partitions,
    )


def rate_within(task: Task, speed: float) -> float:
    """The highest rate of a replica of this speed whose response time, mean or quantile, stays within the bound."""
    m, b = task.moments.mean, task.batches
    if b is None:
        return replica_rate_within(task.bound, m, task.moments.variance, speed, task.quantile)
    return batch_load_within(b, task.bound, task.quantile) * speed / (b.work * m)


def predict_response(task: Task, rate: float, replicas: int, speed: float) -> float:
    """Response time at a steady rate on replicas whose slowest has this speed: quantile, or mean without noise."""
    m, b = task.moments, task.batches
    if b is None:
        return replica_response_time(rate / replicas, m.mean, m.variance, speed, task.quantile)
    load = rate * tuple_seconds(m.mean, b.work, b.partitions, speed, replicas)
    return batch_response(b, load, task.quantile)


@jit
def replica_response(p: Problem, x: float, speed: float) -> float:
    """Response time, mean or quantile, of a replica as an M/G/1 queue."""
    if p.quantile > 0.0:
        return mg1_quantile(p.quantiles, x, p.mean / speed)
    return mg1_response(x, p.mean, p.variance, speed)


@jit
def rate_level(p: Problem, rate: float) -> int:
    """The level that a rate falls into; what exceeds the highest rate shares the last."""
    return min(int(rate / p.quantum), p.levels - 1)


@jit
def allowed(p: Problem, k: Integers, count: int, action: int) -> bool:
    """Whether an action keeps the replicas within their limits and what may be had, and none below zero."""
    types = p.radix.shape[0]
    if action < 0:
        wanted = 0
        for i in range(types):
            delta = delta_of(p, k, action, i)
            if delta > 0 and k[i] + delta > p.most[i]:
                return False
            wanted += k[i] + delta
        return p.k_min <= wanted <= p.k_max
    if action == 0:
        return True
    if action <= types:
        return count > p.k_min and k[action - 1] > 0
    return count < p.k_max and k[action - 1 - types] < p.most[action - 1 - types]


@jit
def within_supply(p: Problem, k: Integers, action: int) -> int:
    """What of an action can be had: so many replicas fewer are removed as cannot be added."""
    types = p.radix.shape[0]
    if action == 0 or 0 < action <= types:
        return action
    refused = 0
    for i in range(types):
        refused += max(0, delta_of(p, k, action, i) - max(0, p.most[i] - k[i]))
    if refused == 0:
        return action
    key = key_of(p, k)
    changed = 0
    single = 0
    for i in range(types):
        delta = delta_of(p, k, action, i)
        if delta > 0:
            delta = min(delta, max(0, p.most[i] - k[i]))
        else:
            spared = min(refused, -delta)
            delta += spared
            refused -= spared
        if delta != 0:
            changed += abs(delta)
            single = action_of(p, k, i, delta)
            key += delta * p.radix[i]
    return single if changed < 2 else -1 - key


@jit
def split_action(types: int, action: int) -> tuple[int, int]:
    """The change (-1, 0 or 1) that an action of one replica makes, and the node type of it."""
    if action == 0:
        return 0, 0
    return (-1, action - 1) if action <= types else (1, action - 1 - types)


@jit
def delta_of(p: Problem, k: Integers, action: int, node_type: int) -> int:
    """Replicas of a type that an action adds, or removes (below 0)."""
    if action < 0:
        return ((-1 - action) // p.radix[node_type]) % (p.k_max + 1) - k[node_type]
    delta, i = split_action(p.radix.shape[0], action)
    return delta if i == node_type else 0


@jit
def action_of(p: Problem, k: Integers, node_type: int, delta: int) -> int:
    """The action that changes the replicas of one type by so many."""
    types = p.radix.shape[0]
    if delta == 0:
        return 0
    if delta == 1 or delta == -1:
        return 1 + node_type + (types if delta > 0 else 0)
    return -1 - (key_of(p, k) + delta * p.radix[node_type])


@jit
def action_towards(p: Problem, k: Integers, target: Integers) -> int:
    """The action that leads to a deployment in one step."""
    changed = 0
    action = 0
    for i in range(k.shape[0]):
        delta = target[i] - k[i]
        if delta != 0:
            changed += abs(delta)
            action = action_of(p, k, i, delta)
    return action if changed < 2 else -1 - key_of(p, target)


@jit
def first_step(p: Problem, k: Integers, count: int, action: int) -> int:
    """The first of the single replicas that a change consists of: one that is added, where there is room, if any is."""
    if action >= 0:
        return action
    removal = 0
    for i in range(k.shape[0]):
        delta = delta_of(p, k, action, i)
        if delta > 0 and count < p.k_max:
            return action_of(p, k, i, 1)
        if delta < 0 and removal == 0:
            removal = action_of(p, k, i, -1)
    return removal if count > 1 else 0


@jit
def slowest_after(p: Problem, k: Integers, seen: KernelView, action: int) -> int:
    """The rank of the slowest type present once an action has been taken."""
    types = p.radix.shape[0]
    if action == 0:
        return seen.slowest
    if action <= types:
        i = action - 1
        return seen.second if k[i] == 1 and p.rank[i] == seen.slowest else seen.slowest
    return min(seen.slowest, p.rank[action - 1 - types])


@jit
def two_slowest(p: Problem, k: Integers) -> tuple[int, int]:
    """Ranks of the slowest and the second slowest type present; N where there is none."""
    types = p.radix.shape[0]
    slowest = types
    for r in range(types):
        if k[p.order[r]] > 0:
            if slowest < types:
                return slowest, r
            slowest = r
    return slowest, types


@jit
def price_of(p: Problem, k: Integers) -> float:
    """The price of a deployment, summed anew so that no rounding gathers over a year of changes."""
    total = 0.0
    for i in range(k.shape[0]):
        total += k[i] * p.price[i]
    return total


@jit
def key_of(p: Problem, k: Integers) -> int:
    """The number of a deployment."""
    key = 0
    for i in range(k.shape[0]):
        key += k[i] * p.radix[i]
    return key


def view_deployment(
    p: Problem,
    k: Integers,
    rate: float,
    utilisation: float,
    response: float,
    arrivals: float | None = None,
    backlog: float = 0.0,
    batch_ratio: float = 0.0,
) -> KernelView:
    """Derive what kernels need of a deployment that met this demand; arrivals are all of it if not stated."""
    slowest, second = two_slowest(p, k)
    return KernelView(
        rate=rate,
        level=rate_level(p, rate),
        utilisation=utilisation,
        response=response,
        violated=response > p.bound,
        key=int(key_of(p, k)),
        count=int(k.sum()),
        price=float(price_of(p, k)),
        slowest=slowest,
        second=second,
        arrivals=rate if arrivals is None else arrivals,
        backlog=backlog,
        batch_ratio=batch_ratio,
    )
