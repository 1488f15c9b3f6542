"""Ladder of the deployments that may be wanted: of each capacity the cheapest, whatever its node type.

A step up may lead to another type. Deployments that cost no less and answer no more than another are left out, and so
are those that answer more than the load ever comes to. The one that is held stays in, whatever has become of it.

Notation: N node types, K the most replicas, O = N K deployments of one type; `rungs` are places in this order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, Problem
from scaler.policies.planner.capacity import Capacity

CHANGE_TOLERANCE = 0.002  # of capacities, within which the ladder stays


class Ladder(NamedTuple):
    rungs: Integers  # [O] the first so many: deployments by capacity, rising
    size: Integers  # [1]
    capacity: Floats  # [O] of every deployment; below 0: not to be had
    price: Floats  # [O]
    stood: Floats  # [N, 3] capacity of a replica, price and supply when it was made
    held: Integers  # [1] the deployment that was held then; -1: a mixed one


def make_ladder(types: int, k_max: int) -> Ladder:
    return Ladder(
        rungs=np.zeros(types * k_max, np.int64),
        size=np.zeros(1, np.int64),
        capacity=np.full(types * k_max, -1.0),
        price=np.zeros(types * k_max),
        stood=np.zeros((types, 3)),
        held=np.full(1, -1, np.int64),
    )


@jit
def effective_replicas(p: Problem, count: int) -> float:
    """Replicas' worth of work that so many do: a batch's tasks come in whole waves."""
    if p.partitions > 0:
        return p.partitions / math.ceil(p.partitions / count)
    return float(count)


@jit
def refresh_ladder(p: Problem, ladder: Ladder, c: Capacity, held: int, top: float) -> bool:
    """Make the ladder anew if capacities, prices, supply or the deployment held have changed; whether they had."""
    same = ladder.size[0] > 0 and ladder.held[0] == held
    for i in range(p.price.shape[0]):
        each = c.each[i]
        same = same and abs(each - ladder.stood[i, 0]) <= CHANGE_TOLERANCE * each
        same = same and ladder.stood[i, 1] == p.price[i] and ladder.stood[i, 2] == p.most[i]
    if same:
        return False
    for i in range(p.price.shape[0]):
        each = c.each[i]
        ladder.stood[i, 0], ladder.stood[i, 1], ladder.stood[i, 2] = each, p.price[i], p.most[i]
        for n in range(1, p.k_max + 1):
            o = i * p.k_max + n - 1
            ladder.price[o] = n * p.price[i]
            ladder.capacity[o] = effective_replicas(p, n) * each
            if o != held and (n < p.k_min or n > p.most[i]):
                ladder.capacity[o] = -1.0
    ladder.held[0] = held
    sort_rungs(ladder, top)
    return True


@jit
def sort_rungs(ladder: Ladder, top: float) -> None:
    """Sort those that are not dominated, by insertion."""
    size = 0
    for o in range(ladder.rungs.shape[0]):
        if ladder.capacity[o] < 0.0 or (o != ladder.held[0] and is_dominated(ladder, o, top)):
            continue
        place = size
        while place > 0 and ladder.capacity[ladder.rungs[place - 1]] > ladder.capacity[o]:
            ladder.rungs[place] = ladder.rungs[place - 1]
            place -= 1
        ladder.rungs[place] = o
        size += 1
    ladder.size[0] = size


@jit
def is_dominated(ladder: Ladder, o: int, top: float) -> bool:
    """Whether another deployment costs no more and answers as much of the load."""
    own = min(top, ladder.capacity[o])
    for other in range(ladder.rungs.shape[0]):
        if other == o or ladder.capacity[other] < 0.0 or ladder.price[other] > ladder.price[o]:
            continue
        answers = min(top, ladder.capacity[other])
        if answers > own or (answers == own and (ladder.price[other] < ladder.price[o] or other < o)):
            return True
    return False
