"""Replica by replica: each is held while what it is expected to avert is worth more than what it costs.

With replicas of one node type, the (j + 1)-th is needed in the slots whose rate is above what j can answer. Whether to
have it is a choice between on and off, and its worth in situation f (see scaler/workload.py) is

    d(f) = w_perf P(above | f) - w_res price + E[ clip(d(f'), -w_rcf, w_rcf) ],

the cost of being off minus that of being on: no more than a change apart, because one can always change. Off turns on
at d > w_rcf, on turns off at d < -w_rcf. This needs no discount, exploration or tuning. It is solved by
sweeps over the situations, a few thresholds a slot, on the frequencies seen so far.

Which node type: for each, a shadow runs the same rules on the rates really seen, and keeps what it would have paid. The
type in use is left for one whose shadow has been cheaper by several times the price of moving.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from scaler.belief import believe
from scaler.capacity import Capacity, believe_capacity, trusted, witness
from scaler.jit import jit
from scaler.policy import Kernel
from scaler.problem import Floats, Integers, Problem, Seen, Task, lay_out
from scaler.workload import SMOOTHING, Workload, make_workload, observe

PRIOR = 10.0  # visits that the pool stands for at a threshold
PASSES = 1.0
POOL_PASSES = 2.0
POOL_PRIOR = 2.0  # visits that Laplace's rule stands for in the pool
SWEEPS = 2
PATIENCE = 3.0  # times the price of moving that another type must have been cheaper by
MEMORY = 1.0 - 1.0 / 20000.0
PEAK_DECAY = 0.995
MARGIN = 1.1


class State(NamedTuple):
    workload: Workload
    capacity: Capacity
    worth: Floats  # [B, F] d, by threshold and situation
    shadow: Integers  # [N] replicas that each type's shadow holds
    paid: Floats  # [N] what each shadow paid, fading
    kind: Integers  # [1] node type in use
    peak: Floats  # [1] highest rate of late
    clock: Integers  # [3] slots seen, next threshold to sweep of all, and of the type in use


def prepare(task: Task, seed: int, options: Mapping[str, Any]) -> State:
    p = lay_out(task)
    types = len(task.types)
    thresholds = types * max(1, task.k_max - 1)
    workload = make_workload(thresholds)
    return State(
        workload=workload,
        capacity=believe_capacity(p, believe(task, seed)),
        worth=np.zeros((thresholds, len(workload.hazard))),
        shadow=np.ones(types, np.int64),
        paid=np.zeros(types),
        kind=np.zeros(1, np.int64),
        peak=np.zeros(1),
        clock=np.zeros(3, np.int64),
    )


@jit
def wish(p: Problem, s: State, i: int, count: int) -> int:
    """Replicas more (+1) or less (-1) that this many of type i call for."""
    room = max(1, p.k_max - 1)
    if count < p.k_max:
        b = i * room + count - 1
        if s.worth[b, s.workload.situation[b]] > p.w_rcf:
            return 1
    if count > 1:
        b = i * room + count - 2
        if s.worth[b, s.workload.situation[b]] < -p.w_rcf:
            return -1
    return 0


@jit
def decide(p: Problem, s: State, k: Integers, seen: Seen) -> int:
    types = k.shape[0]
    kind = s.kind[0]
    if s.clock[0] == 0:
        return 0
    if k[kind] == seen.count:
        step = wish(p, s, kind, seen.count)
        if step == 0:
            return 0
        return 1 + kind + types if step > 0 else 1 + kind
    return migrate(p, s, k, seen)


@jit
def migrate(p: Problem, s: State, k: Integers, seen: Seen) -> int:
    """One step from a mixed deployment towards the type in use: add it until another can go without harm."""
    types = k.shape[0]
    kind = s.kind[0]
    leaving = -1
    for r in range(types):
        i = p.order[r]
        if leaving < 0 and i != kind and k[i] > 0:
            leaving = i
    slowest = types
    for r in range(types):
        i = p.order[r]
        if slowest == types and k[i] - (1 if i == leaving else 0) > 0:
            slowest = r
    enough = (
        slowest < types and (seen.count - 1) * trusted(s.capacity, p.order[slowest]) >= MARGIN * s.peak[0]
    )
    if seen.count > 1 and (enough or k[kind] >= s.shadow[kind] or seen.count >= p.k_max):
        return 1 + leaving
    return 1 + kind + types


@jit
def learn(p: Problem, s: State, k: Integers, before: Seen, action: int, seen: Seen) -> None:
    types = k.shape[0]
    room = max(1, p.k_max - 1)
    w = s.workload
    if s.clock[0] == 0:
        w.level[0] = before.rate
        witness(p, s.capacity, before)
    first = witness(p, s.capacity, seen)
    w.level[0] += SMOOTHING * (seen.rate - w.level[0])
    s.peak[0] = max(seen.rate, PEAK_DECAY * s.peak[0])
    for i in range(types):
        for j in range(p.k_max - 1):
            observe(w, i * room + j, (j + 1) * s.capacity.each[i], seen.rate)
    for i in range(types):
        follow(p, s, i, seen.rate)
    if first >= 0:
        s.paid[first] = s.paid[s.kind[0]]
    choose_type(p, s)
    for n in range(SWEEPS):
        if n % 2 == 0:
            b = s.clock[1]
            s.clock[1] = (b + 1) % s.worth.shape[0]
        else:
            b = s.kind[0] * room + s.clock[2]
            s.clock[2] = (s.clock[2] + 1) % room
        appraise(p, s, b, p.price[b // room])
    s.clock[0] += 1


@jit
def follow(p: Problem, s: State, i: int, rate: float) -> None:
    """One slot of a type's shadow: pay for it, then change as the rules say."""
    count = s.shadow[i]
    cost = p.w_res * p.price[i] * count
    if rate > count * s.capacity.each[i]:
        cost += p.w_perf
    step = wish(p, s, i, count)
    if step != 0:
        cost += p.w_rcf
    s.shadow[i] = count + step
    s.paid[i] = MEMORY * s.paid[i] + cost


@jit
def choose_type(p: Problem, s: State) -> None:
    """Move to the type whose shadow paid least, once that is worth the way."""
    kind = s.kind[0]
    best = kind
    gain = 0.0
    for i in range(s.paid.shape[0]):
        ahead = s.paid[kind] - s.paid[i] - PATIENCE * p.w_rcf * (s.shadow[i] + s.shadow[kind])
        if ahead > gain:
            gain = ahead
            best = i
    s.kind[0] = best


@jit
def appraise(p: Problem, s: State, b: int, price: float) -> None:
    """One sweep over the worth of the replica beyond threshold b, old ages first; self-loops are solved for."""
    w = s.workload
    heights = w.height_edges.shape[0] + 1
    ages = w.age_edges.shape[0]
    rent = p.w_res * price
    for y in range(ages - 1, -1, -1):
        for x in range(heights):
            f = y * heights + x
            own = float(w.visits[b, f])
            pooled = float(w.pool_visits[f])
            prior = max(PRIOR, PASSES * w.width[y])
            pool_prior = max(POOL_PRIOR, POOL_PASSES * w.width[y])
            scale = prior / (pooled + pool_prior)
            hazard = scale * pool_prior * w.hazard[f]
            stay = scale * pool_prior - hazard
            above = hazard
            loop = stay
            rest = hazard * clip(s.worth[b, x], p.w_rcf)
            for outcome in range(3):
                if outcome == 0:
                    base = 0
                elif outcome == 1:
                    base = y * heights
                else:
                    base = min(y + 1, ages - 1) * heights
                for x2 in range(heights):
                    weight = w.counts[b, f, outcome * heights + x2] + scale * w.pool[f, outcome * heights + x2]
                    if outcome == 0:
                        above += weight
                    if base + x2 == f:
                        loop += weight
                    else:
                        rest += weight * clip(s.worth[b, base + x2], p.w_rcf)
            total = own + prior
            s.worth[b, f] = (p.w_perf * above - rent * total + rest) / (total - loop)


@jit
def clip(x: float, most: float) -> float:
    return min(max(x, -most), most)


def measure(state: State) -> int:
    return int(sum(a.nbytes for part in (state.workload, state.capacity) for a in part) + state.worth.nbytes)


PLANNER = Kernel(title="planner", prepare=prepare, decide=decide, learn=learn, measure=measure)
