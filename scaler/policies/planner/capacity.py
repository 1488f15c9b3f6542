"""Estimate the capacity of a replica of each node type from observed utilisation and response times.

It starts from the model that the policy was given. A deployment shows its slowest type: its utilisation gives that
type's service time, its response time the variability of service, which all types share. Where the bound is about a
quantile of response times, so is what is observed, and both are solved by the M/G/1 tables of that quantile.

Of micro-batches M/G/1 says too much: nearly any load fits a bound of seconds, of which the trigger takes most. So where
their constants are known, the load that these leave is the most that a replica is good for.

Notation: h service time of a type; scv squared coefficient of variation of service.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem
from scaler.model.queue_quantiles import grid_rate_within, grid_scv
from scaler.model.queueing import mg1_rate_within
from scaler.model.task import Task

SERVICE_GAIN = 0.05  # weight of a new sight once there are many
SHIFT_TOLERANCE, SHIFT_GAIN = 0.1, 0.3  # a sight this far off is followed this fast: the service may have changed
SIGHTS_AFTER_SHIFT = 3  # that an estimate is worth then, so that those that follow soon outweigh it
STEADY = 0.25  # by which rates of batches may differ from slot to slot, for utilisation to be of the later one
LULL, LEFT_OVER = 0.01, 4.0  # share of the highest rate, multiple of the service time
UNSEEN_TYPE_TRUST = 0.8  # of its expected capacity, relied on for a type that was never observed
UNSEEN_TYPE_OPTIMISM = 1.15  # of its expected capacity, assumed when a type that was never observed is tried


class Capacity(NamedTuple):
    service: Floats  # [N] h
    scv: Floats  # [1]
    sights: Integers  # [N + 1] how often each type's service time was seen; last: the scv
    each: Floats  # [N] highest rate per replica within the bound


def expect_capacity(p: Problem, model: Task) -> Capacity:
    """Capacities by the model that the policy starts from."""
    mean = model.moments.mean
    capacity = Capacity(
        service=np.array([mean / t.speedup for t in model.types]),
        scv=np.array([model.moments.variance / mean**2]),
        sights=np.zeros(len(model.types) + 1, np.int64),
        each=np.zeros(len(model.types)),
    )
    for i in range(len(model.types)):
        refresh_capacity(p, capacity, i)
    return capacity


@jit
def refresh_capacity(p: Problem, c: Capacity, i: int) -> None:
    h = c.service[i]
    if p.quantile > 0.0:
        c.each[i] = grid_rate_within(p.quantile_grid, p.bound, h, c.scv[0])
    else:
        c.each[i] = mg1_rate_within(p.bound, h, c.scv[0] * h * h, 1.0)
    if p.batched and p.capacity[i] > 0.0:  # 0: no replicas bring it within the bound, and M/G/1 says what keeps up
        c.each[i] = min(c.each[i], p.capacity[i])


@jit
def observe_capacity(p: Problem, c: Capacity, seen: KernelView) -> int:
    """Learn from one slot; the type whose service time was seen for the first time, else -1."""
    if not (seen.rate > 0.0 and 0.0 < seen.utilisation < math.inf and seen.count > 0) or seen.utilisation == 1.0:
        return -1  # at exactly 1 a server is merely never idle, say in catching up
    i = p.order[seen.slowest]
    share = seen.rate / seen.count
    h = seen.utilisation / share
    if seen.rate < LULL * p.levels * p.quantum and h > LEFT_OVER * c.service[i]:
        return -1  # next to nothing came, and what was served had come before
    c.sights[i] += 1
    usual = abs(h - c.service[i]) <= SHIFT_TOLERANCE * c.service[i]
    weight = max(1.0 / c.sights[i], SERVICE_GAIN if usual else SHIFT_GAIN)
    if not usual:
        c.sights[i] = min(c.sights[i], SIGHTS_AFTER_SHIFT)
    if seen.utilisation > 1.0 and h > c.service[i]:
        weight = 1.0  # what is there does not keep up, whatever the model says
    c.service[i] += weight * (h - c.service[i])
    last = c.sights.shape[0] - 1
    if 0.1 < seen.utilisation < 0.95 and math.isfinite(seen.response):
        if p.quantile > 0.0:
            scv = grid_scv(p.quantile_grid, share, h, seen.response)
        else:
            scv = 2.0 * (1.0 - seen.utilisation) * max(0.0, seen.response - h) / (share * h * h) - 1.0
        c.sights[last] += 1
        c.scv[0] += max(1.0 / c.sights[last], SERVICE_GAIN) * (min(max(scv, 0.0), 100.0) - c.scv[0])
        for j in range(last):
            refresh_capacity(p, c, j)
    else:
        refresh_capacity(p, c, i)
    return i if c.sights[i] == 1 else -1


@jit
def shows_service(before: KernelView, seen: KernelView) -> bool:
    """Whether utilisation is of the slot's own arrivals and of replicas that all serve.

    Replicas that were just added may be starting; what had waited, batches that outlast the trigger, and in the first
    batch of a slot those tuples that came before it, keep replicas busy whatever comes. Only where more comes than they
    serve does that show what they are good for.
    """
    if seen.key != before.key:
        return False
    if seen.utilisation > 1.0:
        return True
    steady = seen.batch_ratio == 0.0 or abs(seen.rate - before.rate) <= STEADY * min(seen.rate, before.rate)
    return steady and not (before.backlog > 0.0 or max(before.batch_ratio, seen.batch_ratio) > 1.0)


@jit
def optimistic_capacity(c: Capacity, i: int) -> float:
    """What a replica of this type may be good for."""
    return c.each[i] if c.sights[i] > 0 else UNSEEN_TYPE_OPTIMISM * c.each[i]


@jit
def cautious_capacity(c: Capacity, i: int) -> float:
    """What a replica of this type can be relied on for."""
    return c.each[i] if c.sights[i] > 0 else UNSEEN_TYPE_TRUST * c.each[i]


def inherit_capacity(p: Problem, own: Capacity, before: Capacity, places: Sequence[int]) -> Capacity:
    """Service times as they were seen; those of types that were never seen stay as the task's model has them."""
    capacity = copy.deepcopy(own)
    if before.sights[-1] > 0:
        capacity.scv[0] = before.scv[0]
        capacity.sights[-1] = before.sights[-1]
    for i, place in enumerate(places):
        if place >= 0 and before.sights[place] > 0:
            capacity.service[i] = before.service[place]
            capacity.sights[i] = before.sights[place]
        refresh_capacity(p, capacity, i)
    return capacity
