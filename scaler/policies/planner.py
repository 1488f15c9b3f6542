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
from scaler.capacity import Capacity, believe_capacity, hoped, trusted, witness
from scaler.jit import jit
from scaler.policy import Kernel
from scaler.problem import Floats, Integers, Problem, Seen, Task, lay_out
from scaler.workload import SMOOTHING, Workload, make_workload, observe

PRIOR = 10.0  # visits that the pool stands for at a threshold
PASSES = 0.0
POOL_PASSES = 1.0
AGE_PRIOR = 1.0
POOL_PRIOR = 2.0  # visits that Laplace's rule stands for in the pool
SWEEPS = 4
LOOK = 12
UNHURRIED = 4096
SELDOM = 12
PATIENCE = 3.0  # times the price of moving that another type must have been cheaper by
HORIZON = 20000.0
EARLY = 300.0
SHARE = 1.0
PEAK_DECAY = 0.995
MARGIN = 1.1


class State(NamedTuple):
    workload: Workload
    capacity: Capacity
    worth: Floats  # [B, F] d, by threshold and situation
    worth_by_age: Floats  # [B, Y] d, were the height not known
    held: Integers  # [B, 2] whether each of these two would hold the replica now
    spent: Floats  # [B, 2] what each would have paid, fading
    shadow: Integers  # [N] replicas that each type's shadow holds
    paid: Floats  # [N] what each shadow paid, fading
    kind: Integers  # [1] node type in use
    left: Integers  # [1] the one before
    peak: Floats  # [1] highest rate of late
    memory: Floats  # [1] what is left after a slot of what was paid before
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
        worth_by_age=np.zeros((thresholds, len(workload.age_edges))),
        held=np.zeros((thresholds, 2), np.int64),
        spent=np.zeros((thresholds, 2)),
        shadow=np.ones(types, np.int64),
        paid=np.zeros(types),
        kind=np.zeros(1, np.int64),
        left=np.zeros(1, np.int64),
        peak=np.zeros(1),
        memory=np.zeros(1),
        clock=np.zeros(3, np.int64),
    )


@jit
def valued(s: State, b: int) -> float:
    """Worth of the replica beyond threshold b now, by the model that has done better there."""
    if s.spent[b, 1] < s.spent[b, 0]:
        return s.worth_by_age[b, s.workload.age_class[b]]
    return s.worth[b, s.workload.situation[b]]


@jit
def compare(p: Problem, s: State, b: int, price: float, above: bool) -> None:
    """One slot of either model at threshold b."""
    for e in range(2):
        d = s.worth[b, s.workload.situation[b]] if e == 0 else s.worth_by_age[b, s.workload.age_class[b]]
        cost = 0.0
        if s.held[b, e] == 1:
            cost += p.w_res * price
            if d < -p.w_rcf:
                s.held[b, e] = 0
                cost += p.w_rcf
        else:
            if above:
                cost += p.w_perf
            if d > p.w_rcf:
                s.held[b, e] = 1
                cost += p.w_rcf
        s.spent[b, e] = s.memory[0] * s.spent[b, e] + cost


@jit
def appraise_ages(p: Problem, s: State, b: int, price: float) -> None:
    """The sweep where age alone is known."""
    w = s.workload
    rent = p.w_res * price
    last = w.age_edges.shape[0] - 1
    for y in range(last, -1, -1):
        guess = 1.0 - (w.age_edges[y] + 2.0) / (w.age_edges[y] + w.width[y] + 2.0)
        pooled = w.age_pool[y, 0] + w.age_pool[y, 2] + 1.0
        back = AGE_PRIOR * (w.age_pool[y, 0] + guess) / pooled
        on = AGE_PRIOR - back
        above = w.ages[b, y, 0] + back
        further = w.ages[b, y, 2] + on
        slots = w.ages[b, y, 0] + w.ages[b, y, 1] + w.ages[b, y, 2] + AGE_PRIOR * (1.0 + w.age_pool[y, 1] + w.width[y]) / pooled
        total = p.w_perf * above - rent * slots
        leaves = 0.0
        if y > 0:
            total += above * clip(s.worth_by_age[b, 0], p.w_rcf)
            leaves += above
        if y < last:
            total += further * clip(s.worth_by_age[b, y + 1], p.w_rcf)
            leaves += further
        s.worth_by_age[b, y] = total / leaves


@jit
def wish(p: Problem, s: State, i: int, count: int) -> int:
    """Replicas more (+1) or less (-1) that this many of type i call for."""
    room = max(1, p.k_max - 1)
    if count < p.k_max:
        b = i * room + count - 1
        if valued(s, b) > p.w_rcf:
            return 1
    if count > 1:
        b = i * room + count - 2
        if valued(s, b) < -p.w_rcf:
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
    ready = k[kind] >= s.shadow[kind] and s.capacity.sights[kind] > 0
    if seen.count > 1 and (enough or ready or seen.count >= p.k_max):
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
    s.memory[0] = 1.0 - 1.0 / min(HORIZON, EARLY + s.clock[0] / SHARE)
    s.peak[0] = max(seen.rate, PEAK_DECAY * s.peak[0])
    for i in range(types):
        for j in range(p.k_max - 1):
            threshold = (j + 1) * hoped(s.capacity, i)
            observe(w, i * room + j, threshold, seen.rate)
            compare(p, s, i * room + j, p.price[i], seen.rate > threshold)
    for i in range(types):
        follow(p, s, i, seen.rate)
    if first >= 0:
        reconsider(s, k, seen, first)
    choose_type(p, s)
    plan(p, s)
    s.clock[0] += 1


@jit
def plan(p: Problem, s: State) -> None:
    """A bounded piece of planning: the next thresholds of the type in use, and of all, where the load comes near."""
    if s.clock[0] % min(1 + s.clock[0] // UNHURRIED, SELDOM) != 0:
        return
    room = max(1, p.k_max - 1)
    for n in range(SWEEPS):
        b = -1
        for _ in range(LOOK):
            if b < 0:
                if n % 2 == 0:
                    b = s.clock[1]
                    s.clock[1] = (b + 1) % s.worth.shape[0]
                else:
                    b = s.kind[0] * room + s.clock[2]
                    s.clock[2] = (s.clock[2] + 1) % room
                if quiet(s, b):
                    b = -1
        if b >= 0:
            appraise(p, s, b, p.price[b // room])
            appraise_ages(p, s, b, p.price[b // room])


@jit
def quiet(s: State, b: int) -> bool:
    """Whether a threshold is so far from the load that nothing is to be decided there."""
    w = s.workload
    far = w.situation[b] == (w.age_edges.shape[0] - 1) * (w.height_edges.shape[0] + 1)
    return far


@jit
def follow(p: Problem, s: State, i: int, rate: float) -> None:
    """One slot of a type's shadow: pay for it, then change as the rules say."""
    count = s.shadow[i]
    cost = p.w_res * p.price[i] * count
    if rate > count * hoped(s.capacity, i):
        cost += p.w_perf
    step = wish(p, s, i, count)
    if step != 0:
        cost += p.w_rcf
    s.shadow[i] = count + step
    s.paid[i] = s.memory[0] * s.paid[i] + cost


@jit
def reconsider(s: State, k: Integers, seen: Seen, first: int) -> None:
    """A type was seen at work for the first time: what its shadow paid was guesswork, so it starts level.

    If that was the first of them to come, the move is called off until the evidence is in.
    """
    s.paid[first] = s.paid[s.left[0]] if first == s.kind[0] else s.paid[s.kind[0]]
    if first == s.kind[0] and k[first] < seen.count:
        s.kind[0] = s.left[0]


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
    if best != kind:
        s.left[0] = kind
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
