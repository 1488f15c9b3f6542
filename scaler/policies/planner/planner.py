"""Planner: forecast the load from its own past, and choose the course of deployments that is expected to cost least.

Nothing is explored: actions do not change arrivals, so every slot teaches what any deployment would have cost.

Where changes are of any size, deployment_plan.py plans over a ladder of deployments (ladder.py) and the chain of the
load's levels (load_chain.py), and change.py chooses: while answers are late or tuples wait nothing is given away, and
what it takes to catch up is part of the cost.

Where the world takes one replica at a time, replica_worth.py says for every node type and every number of its replicas
whether one more is worth having; node_type.py which type: of each a shadow keeps account of what it would have paid.
Planning is spread: a few thresholds a slot, those of the type in use first, and less often as evidence gathers.

Where the hold of a change was measured, what it makes late is part of its price: the slack is the bound less what an
answer takes in slots that keep it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.model.jit import jit, jit_apart
from scaler.model.kernel import Integers, KernelView, Problem, delta_of, lay_out
from scaler.model.policy import HotFunctions, Kernel, Start, flatten, measure_arrays, unflatten
from scaler.model.task import Task
from scaler.policies.homogeneous import scale_to
from scaler.policies.planner.capacity import (
    expect_capacity,
    inherit_capacity,
    observe_capacity,
    optimistic_capacity,
    shows_service,
)
from scaler.policies.planner.change import arrivals_of, capacity_of, choose_change, place_of, worth_of
from scaler.policies.planner.deployment_plan import (
    make_course,
    note_lateness,
    overload_tolerance,
    plan_course,
    sweep_level,
)
from scaler.policies.planner.experience import SHARED
from scaler.policies.planner.ladder import make_ladder, refresh_ladder
from scaler.policies.planner.load_chain import (
    BINS,
    begin_level,
    forecast_rates,
    highest_level,
    inherit_chain,
    make_chain,
    observe_level,
)
from scaler.policies.planner.node_type import choose_type, follow_shadow, migrate, reconsider
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
    list_outcomes,
    make_workload,
    observe,
)

SWEEPS_PER_SLOT = 2  # sweeps in a slot that plans, each of one threshold in one view
MAX_SKIPPED_SITUATIONS = 24  # of these passed over, at most, to find one that the load comes near
SLOTS_PER_THRESHOLD = 24  # after each so many slots for each threshold, planning skips one slot more
MAX_PLANNING_PERIOD = 16  # slots from one piece of planning to the next
ACCOUNT_HORIZON = 50_000.0  # slots over which what was paid fades; early on, as long as there were slots
INITIAL_HORIZON = 300.0
SWEEPS_TO_INHERIT, MAX_SWEEPS_TO_INHERIT = 5, 150  # of every level, of all: a driver takes .2 ms each
PEAK_DECAY = 0.995
USUAL_GAIN = 0.05  # weight of a slot's response time in what is usual


def prepare(start: Start) -> State:
    p = lay_out(start.task)
    workload = make_workload(len(start.task.types) * steps(p) if p.one_at_a_time else 1)
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
        chain=make_chain(start.task.highest_rate, 1 if p.one_at_a_time else BINS),
        ladder=make_ladder(*(1, 1) if p.one_at_a_time else (len(p.price), p.k_max)),
        course=make_course(p, *(1, 1) if p.one_at_a_time else (BINS, len(p.price) * p.k_max)),
    )


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    return decide_one(p, s, k, seen) if p.one_at_a_time else choose_change(p, s, k, seen)


@jit
def decide_one(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    """The change of one replica at most."""
    kind = s.kind[0]
    if s.clock[0] == 0:
        return 0
    if k[kind] != seen.count:
        return migrate(p, s, k, seen)
    return scale_to(p, k, seen.count, kind, choose_count(p, s, kind, seen.count))


@jit
def worth(p: Problem, s: State, k: Integers, seen: KernelView, action: int) -> float:
    """What a change costs beyond what it brings."""
    return worth_of_one(p, s, k, seen, action) if p.one_at_a_time else worth_of(p, s, k, seen, action)


@jit
def worth_of_one(p: Problem, s: State, k: Integers, seen: KernelView, action: int) -> float:
    """The same of one replica. Moves between types are not valued: the one decided on is least."""
    kind = s.kind[0]
    if action == 0:
        return 0.0
    if s.clock[0] == 0 or k[kind] != seen.count:
        return -p.w_rcf if action == decide_one(p, s, k, seen) else p.w_rcf
    for i in range(k.shape[0]):
        if i != kind and delta_of(p, k, action, i) != 0:
            return p.w_rcf
    if delta_of(p, k, action, kind) > 0:
        return price_out(p, s, kind, seen.count + 1) - worth_of_replica(p, s, kind, seen.count + 1)
    return price_in(p, s, kind, seen.count) + worth_of_replica(p, s, kind, seen.count)


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    if p.one_at_a_time:
        learn_thresholds(p, s, k, before, action, seen)
    else:
        learn_course(p, s, k, before, action, seen)


@jit
def learn_service(p: Problem, s: State, before: KernelView, seen: KernelView) -> int:
    """Learn from a slot what answers take; the type whose service time was seen for the first time, else -1."""
    if s.clock[0] == 0:
        observe_capacity(p, s.capacity, before)
    first = observe_capacity(p, s.capacity, seen) if p.one_at_a_time or shows_service(before, seen) else -1
    if not seen.violated and math.isfinite(seen.response):
        s.usual[0] += (USUAL_GAIN if s.usual[0] > 0.0 else 1.0) * (seen.response - s.usual[0])
    return first


@jit_apart
def learn_course(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    """Learn from a slot where changes are of any size."""
    learn_service(p, s, before, seen)
    follow_course(p, s, k, before, seen)
    s.clock[0] += 1


@jit
def learn_thresholds(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    """Learn from a slot where changes are of one replica."""
    w, first = s.workload, learn_service(p, s, before, seen)
    if s.clock[0] == 0:
        begin(w, before.rate)
    advance(w, seen.rate)
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
def follow_course(p: Problem, s: State, k: Integers, before: KernelView, seen: KernelView) -> None:
    """Take one slot in where changes are of any size, and plan a bounded piece."""
    c, arrivals = s.chain, arrivals_of(seen)
    if c.place[1] == 0:
        begin_level(c, arrivals_of(before))
    was = c.place[0]
    observe_level(c, arrivals)
    refresh_ladder(p, s.ladder, s.capacity, place_of(p, k, seen.count), highest_level(c))
    capacity = capacity_of(p, s, int(p.order[seen.slowest]), seen.count)
    note_lateness(s.course, seen, arrivals, capacity, overload_tolerance(p, s.usual[0]))
    plan_course(p, s.course, c, s.ladder, was, s.usual[0])


@jit
def plan(p: Problem, s: State) -> None:
    """A bounded piece of planning: every other sweep for the type in use, where the load comes near."""
    step = SLOTS_PER_THRESHOLD * s.workload.age.shape[0]
    if s.clock[0] % min(1 + s.clock[0] // step, MAX_PLANNING_PERIOD) != 0:
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
            appraise(p, s.worth, s.workload, at % V, b, p.price[b // steps(p)], n % 2 == 0)
            if at % V == SMOOTHED:
                appraise_ages(p, s.worth, s.workload, b, p.price[b // steps(p)])


def inherit(task: Task, state: State, earlier: Task, before: State) -> State:
    """Hand over workload, capacities and the type in use; what was paid and what replicas are worth is learned anew."""
    names = [node.name for node in earlier.types]
    places = [names.index(node.name) if node.name in names else -1 for node in task.types]  # in the earlier task
    p = lay_out(task)
    capacity = inherit_capacity(p, state.capacity, before.capacity, places)
    state = state._replace(capacity=capacity, clock=np.array([before.clock[0], 0, 0], np.int64))
    if task.one_at_a_time != earlier.one_at_a_time:
        return state._replace(clock=np.zeros(3, np.int64))
    if not task.one_at_a_time:
        return inherit_course(p, state._replace(chain=inherit_chain(state.chain, before.chain)), before)
    rates, rates_before = (
        np.array([(j + 1) * optimistic_capacity(c, i) for i in range(len(t.types)) for j in range(max(1, t.k_max - 1))])
        for t, c in ((task, capacity), (earlier, before.capacity))
    )
    kinds = [places.index(kind) if kind in places else 0 for kind in before.kind.tolist()]
    held = [int(before.shadow[i]) if i >= 0 else 1 for i in places]
    return state._replace(
        workload=inherit_workload(state.workload, before.workload, rates, rates_before),
        shadow=np.clip(np.array(held, np.int64), 1, task.k_max),
        kind=np.array(kinds, np.int64),
        peak=before.peak.copy(),
    )


def inherit_course(p: Problem, state: State, before: State) -> State:
    """Plan anew on the load as it is known, by a few sweeps of every level that it has been at; slots add more."""
    state.course.overloads[:4] = before.course.overloads[:4]
    state.usual[:] = before.usual
    refresh_ladder(p, state.ladder, state.capacity, -1, float(highest_level(state.chain)))
    levels = np.flatnonzero(state.chain.visits).tolist()
    for _ in range(min(SWEEPS_TO_INHERIT, max(1, MAX_SWEEPS_TO_INHERIT // max(1, len(levels))))):
        for level in levels:
            sweep_level(p, state.course, state.chain, state.ladder, level, float(state.usual[0]))
    return state


RELEARNT = ("usual", "worth.late_out", "worth.late_in")  # within slots; checkpoints of older versions lack them
LISTED = ("workload.known", "workload.many")  # likewise, and told by the counts
OF_ANY_SIZE = ("chain.", "ladder.", "course.")  # likewise
OF_ONE_AT_A_TIME = ("workload.", "worth.")


def load(state: State, arrays: Mapping[str, NDArray[Any]]) -> State:
    own = flatten(state)
    later = {name: own[name] for name in own if name in (*RELEARNT, *LISTED) or name.startswith(OF_ANY_SIZE)}
    unused = OF_ONE_AT_A_TIME if len(state.chain.visits) > 1 else OF_ANY_SIZE
    loaded: State = unflatten(
        state, {**later, **arrays, **{name: own[name] for name in own if name.startswith(unused)}}
    )
    list_outcomes(loaded.workload)
    return loaded


PLANNER = Kernel(
    title="planner",
    prepare=prepare,
    decide=decide,
    learn=learn,
    worth=worth,
    measure=measure_arrays,
    inherit=inherit,
    shared=SHARED,
    options=("history",),  # for the simulator, which replays it before (sim/known_history.py)
    load=load,
    experience=("workload", "capacity", "peak", "clock", "chain"),
    parts=(
        HotFunctions(choose_change, learn_course, worth_of),
        HotFunctions(decide_one, learn_thresholds, worth_of_one),
    ),
    any_size=True,
    forecast=lambda state, shares: forecast_rates(state.chain, shares) if len(state.chain.visits) > 1 else [],
)
