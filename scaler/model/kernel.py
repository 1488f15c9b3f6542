"""Task as numpy arrays for compiled kernels, and the arithmetic of deployment keys and prices.

Notation: N node types, K the most replicas, L rate levels; a deployment's key is its replica counts read as digits to
the base K + 1; `order` lists the node types from slow to fast and `rank` is its inverse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.model.errors import BadInput
from scaler.model.jit import jit
from scaler.model.queueing import mg1_rate_within
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
    k_max: int
    levels: int
    quantum: float
    mean: float
    variance: float
    bound: float
    w_perf: float
    w_rcf: float
    w_res: float  # per unit of price: the resource weight over C_max
    gamma: float


class KernelView(NamedTuple):
    """Input of a policy's kernel in one slot: the new arrival rate, and the deployment that met it."""

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
        capacity=np.array([mg1_rate_within(task.bound, m, v, s) for s in speedup], dtype=np.float64),
        k_max=task.k_max,
        levels=task.levels,
        quantum=task.highest_rate / task.levels,
        mean=m,
        variance=v,
        bound=task.bound,
        w_perf=task.weights.performance,
        w_rcf=task.weights.reconfiguration,
        w_res=task.weights.resources / task.dearest,
        gamma=task.gamma,
    )


@jit
def rate_level(p: Problem, rate: float) -> int:
    """The level that a rate falls into; what exceeds the highest rate shares the last."""
    return min(int(rate / p.quantum), p.levels - 1)


@jit
def allowed(p: Problem, k: Integers, count: int, action: int) -> bool:
    """Whether an action keeps between one and K replicas, and none below zero."""
    types = p.radix.shape[0]
    if action == 0:
        return True
    if action <= types:
        return count > 1 and k[action - 1] > 0
    return count < p.k_max


@jit
def split_action(types: int, action: int) -> tuple[int, int]:
    """The change in replicas (-1, 0 or 1) that an action makes, and the node type of it."""
    if action == 0:
        return 0, 0
    return (-1, action - 1) if action <= types else (1, action - 1 - types)


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


def view_deployment(p: Problem, k: Integers, rate: float, utilisation: float, response: float) -> KernelView:
    """Derive what kernels need of a deployment that met this arrival rate."""
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
    )
