"""Planner: keep each replica while the violations it is expected to avert cost more than it does.

For every node type and every number of its replicas, replica_worth.py says from the rates seen so far whether one more
is worth having; nothing is explored for that, because actions do not change arrivals. Planning is spread: a few
thresholds a slot, those of the type in use first, and less often as evidence gathers.

Which node type says node_type.py: of each a shadow keeps account of what it would have paid.

Changes are of any size, unless the world takes one replica at a time: the first replica of a change must be worth it,
the others their rent alone. While answers are late or tuples wait nothing is given away, and as many are added as make
catching up cheapest; a move between types is one change.

Where the hold of a change was measured, what it makes late is part of its price: the slack is the bound less what an
answer takes in slots that keep it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.model.jit import jit
from scaler.model.kernel import Integers, KernelView, Problem, delta_of, lay_out
from scaler.model.policy import Kernel, Start, flatten, unflatten
from scaler.model.task import Task
from scaler.policies.homogeneous import scale_to
from scaler.policies.planner.capacity import (
    expect_capacity,
    inherit_capacity,
    observe_capacity,
    optimistic_capacity,
)
from scaler.policies.planner.catch_up import catch_up_count, cost_to_catch_up, is_behind
from scaler.policies.planner.node_type import choose_type, exchange, follow_shadow, migrate, reconsider
from scaler.policies.planner.replica_worth import (
    appraise,
    appraise_ages,
    keep_account,
    make_worth,
    price_changes,
)
from scaler.policies.planner.state import State, choose_count, price_in, price_out, steps, worth_of_replica
from scaler.policies.planner.workload import (
    SMOOTHED,
    V,
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
PEAK_DECAY = 0.995
USUAL_GAIN = 0.05  # weight of a slot's response time in what is usual


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
        usual=np.zeros(1),
        clock=np.zeros(3, np.int64),
    )


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    kind = s.kind[0]
    if s.clock[0] == 0:
        return 0
    if k[kind] != seen.count:
        return migrate(p, s, k, seen) if p.one_at_a_time else exchange(p, s, k, seen)
    wanted = choose_count(p, s, kind, seen.count)
    if not p.one_at_a_time and is_behind(seen):
        wanted = max(wanted, catch_up_count(p, s, kind, seen.count, seen))
    return scale_to(p, k, seen.count, kind, wanted)


@jit
def worth(p: Problem, s: State, k: Integers, seen: KernelView, action: int) -> float:
    """What a change costs beyond what it brings. Moves between types are not valued: the one decided on is least."""
    kind = s.kind[0]
    if action == 0:
        return 0.0
    if s.clock[0] == 0 or k[kind] != seen.count:
        return -p.w_rcf if action == decide(p, s, k, seen) else p.w_rcf
    for i in range(k.shape[0]):
        if i != kind and delta_of(p, k, action, i) != 0:
            return p.w_rcf
    delta = delta_of(p, k, action, kind)
    cost = p.w_rcf
    for n in range(seen.count + 1, seen.count + delta + 1):
        cost += price_out(p, s, kind, n) - p.w_rcf - worth_of_replica(p, s, kind, n)
    for n in range(seen.count + delta + 1, seen.count + 1):
        cost += price_in(p, s, kind, n) - p.w_rcf + worth_of_replica(p, s, kind, n)
    if delta > 0 and seen.violated and not p.one_at_a_time:
        ahead = cost_to_catch_up(p, s, kind, seen.count, seen.count + delta, seen)
        cost = min(cost, ahead - cost_to_catch_up(p, s, kind, seen.count, seen.count, seen))
    return cost


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    w = s.workload
    if s.clock[0] == 0:
        begin(w, before.rate)
        observe_capacity(p, s.capacity, before)
    first = observe_capacity(p, s.capacity, seen)
    advance(w, seen.rate)
    if not seen.violated and math.isfinite(seen.response):
        s.usual[0] += (USUAL_GAIN if s.usual[0] > 0.0 else 1.0) * (seen.response - s.usual[0])
    s.peak[0] = max(seen.rate, PEAK_DECAY * s.peak[0])
    memory = 1.0 - 1.0 / min(ACCOUNT_HORIZON, INITIAL_HORIZON + s.clock[0])
    for i in range(k.shape[0]):
        for j in range(p.k_max - 1):
            b = i * steps(p) + j
            threshold = (j + 1) * optimistic_capacity(s.capacity, i)
            observe(w, b, threshold, seen.rate)
            price_changes(p, s.worth, w, b, j + 1, s.capacity.service[i], s.usual[0])
            keep_account(p, s.worth, w, b, p.price[i], seen.rate > threshold, memory)
    for i in range(k.shape[0]):
        follow_shadow(p, s, i, seen.rate, memory)
    if first >= 0:
        reconsider(s, k, seen, first)
    choose_type(p, s)
    plan(p, s)
    s.clock[0] += 1


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


RELEARNT = ("usual", "worth.late_out", "worth.late_in")  # within slots; checkpoints of older versions lack them


def load(state: State, arrays: Mapping[str, NDArray[Any]]) -> State:
    own = flatten(state)
    loaded: State = unflatten(state, {**{name: own[name] for name in RELEARNT}, **arrays})
    return loaded


PLANNER = Kernel(
    title="planner",
    prepare=prepare,
    decide=decide,
    learn=learn,
    worth=worth,
    measure=lambda state: sum(array.nbytes for array in flatten(state).values()),
    inherit=inherit,
    load=load,
    experience=("workload", "capacity", "peak", "clock"),
    any_size=True,
)
