"""Planner: keep each replica while the violations it is expected to avert cost more than it does.

For every node type and every number of its replicas, replica_worth.py says from the rates seen so far whether one more
is worth having; nothing is explored for that, because actions do not change arrivals. Planning is spread: a few
thresholds a slot, those of the type in use first, and less often as evidence gathers.

Which node type: for each a shadow runs the same rules on the rates really seen, and keeps account of what it would have
paid. The type in use is left for one whose shadow has been cheaper by more than moving costs. A type never seen at work
is taken for a little better than the model says, so that it is tried out if that might pay; the first replica shows
what it can do, and the move waits for evidence. On the way the old type goes only when the new one surely suffices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem, lay_out
from scaler.model.policy import Kernel, Start, flatten
from scaler.model.task import Task
from scaler.policies.homogeneous import head_for
from scaler.policies.planner.capacity import (
    Capacity,
    cautious_capacity,
    expect_capacity,
    inherit_capacity,
    observe_capacity,
    optimistic_capacity,
)
from scaler.policies.planner.replica_worth import Worth, appraise, appraise_ages, keep_account, make_worth, worth_now
from scaler.policies.planner.workload import (
    SMOOTHED,
    V,
    Workload,
    advance,
    begin,
    inherit_workload,
    make_workload,
    observe,
)

SWEEPS_PER_SLOT = 2  # sweeps in a slot that plans, each of one threshold in one view
MAX_SKIPPED_SITUATIONS = 24  # of these passed over, at most, to find one that the load comes near
SLOTS_PER_PLANNING_STEP = 4096  # after each so many slots, planning skips one slot more
MAX_PLANNING_PERIOD = 6  # slots from one piece of planning to the next
ACCOUNT_HORIZON = 50_000.0  # slots over which what was paid fades; early on, as long as there were slots
INITIAL_HORIZON = 300.0
MIGRATION_GAIN_FACTOR = 2.0  # times the price of moving by which another type must have been cheaper
MAX_LAG_FACTOR = 10.0  # times that price by which another type is behind at most, lest the past bar the way back
PEAK_DECAY = 0.995
MIGRATION_MARGIN = 1.1  # over the recent peak, before the last of the old type may go


class State(NamedTuple):
    workload: Workload
    capacity: Capacity
    worth: Worth
    shadow: Integers  # [N] replicas that each type's shadow holds
    paid: Floats  # [N] what each shadow paid, fading
    kind: Integers  # [2] node type in use, and the one before
    peak: Floats  # [1] highest rate of late
    clock: Integers  # [3] slots seen; next threshold and view to plan for of all, and of the type in use


def prepare(start: Start) -> State:
    p = lay_out(start.task)
    workload = make_workload(len(start.task.types) * steps(p))
    return State(
        workload=workload,
        capacity=expect_capacity(p, start.model),
        worth=make_worth(workload),
        shadow=np.ones(len(start.task.types), np.int64),
        paid=np.zeros(len(start.task.types)),
        kind=np.zeros(2, np.int64),
        peak=np.zeros(1),
        clock=np.zeros(3, np.int64),
    )


@jit
def steps(p: Problem) -> int:
    """Thresholds of a node type: one for each number of replicas that can be added to."""
    return max(1, p.k_max - 1)


@jit
def worth_of_replica(p: Problem, s: State, i: int, number: int) -> float:
    """Worth of the replica of this number (from 2 on) of type i."""
    return worth_now(p, s.worth, s.workload, i * steps(p) + number - 2, p.price[i])


@jit
def choose_step(p: Problem, s: State, i: int, count: int) -> int:
    """Replicas more (+1) or less (-1) that this many of type i call for."""
    if count < p.k_max and worth_of_replica(p, s, i, count + 1) > p.w_rcf:
        return 1
    if count > 1 and worth_of_replica(p, s, i, count) < -p.w_rcf:
        return -1
    return 0


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    kind = s.kind[0]
    if s.clock[0] == 0:
        return 0
    if k[kind] != seen.count:
        return migrate(p, s, k, seen)
    return head_for(p, k, seen.count, kind, seen.count + choose_step(p, s, kind, seen.count))


@jit
def migrate(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    """One step from a mixed deployment to the type in use: add it until one of another can go without harm."""
    types = k.shape[0]
    kind = s.kind[0]
    leaving = -1
    slowest = types
    for r in range(types):
        i = p.order[r]
        if leaving < 0 and i != kind and k[i] > 0:
            leaving = i
        if slowest == types and k[i] > (1 if i == leaving else 0):
            slowest = r
    enough = (
        slowest < types
        and (seen.count - 1) * cautious_capacity(s.capacity, int(p.order[slowest])) >= MIGRATION_MARGIN * s.peak[0]
    )
    ready = k[kind] >= s.shadow[kind] and s.capacity.sights[kind] > 0
    if seen.count > 1 and (enough or ready or seen.count >= p.k_max):
        return 1 + leaving
    return 1 + kind + types


@jit
def worth(p: Problem, s: State, k: Integers, seen: KernelView, action: int) -> float:
    """What a change costs beyond what it brings. The steps of a move between types are not valued one by one."""
    types = k.shape[0]
    kind = s.kind[0]
    if action == 0:
        return 0.0
    if s.clock[0] == 0 or k[kind] != seen.count:
        return -p.w_rcf if action == decide(p, s, k, seen) else p.w_rcf
    if action == 1 + kind:
        return p.w_rcf + worth_of_replica(p, s, kind, seen.count)
    if action == 1 + kind + types:
        return p.w_rcf - worth_of_replica(p, s, kind, seen.count + 1)
    return p.w_rcf


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    w = s.workload
    if s.clock[0] == 0:
        begin(w, before.rate)
        observe_capacity(p, s.capacity, before)
    first = observe_capacity(p, s.capacity, seen)
    advance(w, seen.rate)
    s.peak[0] = max(seen.rate, PEAK_DECAY * s.peak[0])
    memory = 1.0 - 1.0 / min(ACCOUNT_HORIZON, INITIAL_HORIZON + s.clock[0])
    for i in range(k.shape[0]):
        for j in range(p.k_max - 1):
            b = i * steps(p) + j
            threshold = (j + 1) * optimistic_capacity(s.capacity, i)
            observe(w, b, threshold, seen.rate)
            keep_account(p, s.worth, w, b, p.price[i], seen.rate > threshold, memory)
    for i in range(k.shape[0]):
        follow_shadow(p, s, i, seen.rate, memory)
    if first >= 0:
        reconsider(s, k, seen, first)
    choose_type(p, s)
    plan(p, s)
    s.clock[0] += 1


@jit
def follow_shadow(p: Problem, s: State, i: int, rate: float, memory: float) -> None:
    """One slot of a type's shadow: pay for it, then change as the rules say."""
    count = s.shadow[i]
    cost = p.w_res * p.price[i] * count
    if rate > count * optimistic_capacity(s.capacity, i):
        cost += p.w_perf
    step = choose_step(p, s, i, count)
    if step != 0:
        cost += p.w_rcf
    s.shadow[i] = count + step
    s.paid[i] = memory * s.paid[i] + cost


@jit
def reconsider(s: State, k: Integers, seen: KernelView, first: int) -> None:
    """A type was seen at work for the first time: what its shadow paid was guesswork, so it starts level.

    If it is the one to move to, and only its first replicas have come, the move is called off until evidence is in.
    """
    moving = first == s.kind[0]
    s.paid[first] = s.paid[s.kind[1] if moving else s.kind[0]]
    if moving and k[first] < seen.count:
        s.kind[0] = s.kind[1]


@jit
def choose_type(p: Problem, s: State) -> None:
    """Move to the type whose shadow paid least, once that is worth the way."""
    kind = s.kind[0]
    best = kind
    most = 0.0
    for i in range(s.paid.shape[0]):
        moving = p.w_rcf * (s.shadow[i] + s.shadow[kind])
        s.paid[i] = min(s.paid[i], s.paid[kind] + MAX_LAG_FACTOR * moving)
        gain = s.paid[kind] - s.paid[i] - MIGRATION_GAIN_FACTOR * moving
        if gain > most:
            most = gain
            best = i
    if best != kind:
        s.kind[1] = kind
        s.kind[0] = best


@jit
def plan(p: Problem, s: State) -> None:
    """A bounded piece of planning: every other sweep for the type in use, where the load comes near."""
    if s.clock[0] % min(1 + s.clock[0] // SLOTS_PER_PLANNING_STEP, MAX_PLANNING_PERIOD) != 0:
        return
    far = s.workload.hazard.shape[0] - s.workload.height_edges.shape[0] - 1  # the oldest age, the least height
    for n in range(SWEEPS_PER_SLOT):
        at = -1
        for _ in range(MAX_SKIPPED_SITUATIONS):
            if at < 0:
                if n % 2 == 0:
                    at = s.clock[1]
                    s.clock[1] = (at + 1) % (V * s.workload.age.shape[0])
                else:
                    at = V * s.kind[0] * steps(p) + s.clock[2]
                    s.clock[2] = (s.clock[2] + 1) % (V * steps(p))
                if s.workload.situation[SMOOTHED, at // V] == far:
                    at = -1
        if at >= 0:
            b = at // V
            appraise(p, s.worth, s.workload, at % V, b, p.price[b // steps(p)])
            if at % V == SMOOTHED:
                appraise_ages(p, s.worth, s.workload, b, p.price[b // steps(p)])


def inherit(task: Task, state: State, earlier: Task, before: State) -> State:
    """Hand over workload, capacities and the type in use; what was paid and what replicas are worth is learned anew."""
    names = [node.name for node in earlier.types]
    places = [names.index(node.name) if node.name in names else -1 for node in task.types]  # in the earlier task
    p = lay_out(task)
    capacity = inherit_capacity(p, state.capacity, before.capacity, places)
    rates, rates_before = (
        np.array([(j + 1) * optimistic_capacity(c, i) for i in range(len(t.types)) for j in range(max(1, t.k_max - 1))])
        for t, c in ((task, capacity), (earlier, before.capacity))
    )
    kinds = [places.index(kind) if kind in places else 0 for kind in before.kind.tolist()]
    held = [int(before.shadow[i]) if i >= 0 else 1 for i in places]
    return state._replace(
        workload=inherit_workload(state.workload, before.workload, rates, rates_before),
        capacity=capacity,
        shadow=np.clip(np.array(held, np.int64), 1, task.k_max),
        kind=np.array(kinds, np.int64),
        peak=before.peak.copy(),
        clock=np.array([before.clock[0], 0, 0], np.int64),
    )


PLANNER = Kernel(
    title="planner",
    prepare=prepare,
    decide=decide,
    learn=learn,
    worth=worth,
    measure=lambda state: sum(array.nbytes for array in flatten(state).values()),
    inherit=inherit,
    experience=("workload", "capacity", "peak", "clock"),
)
