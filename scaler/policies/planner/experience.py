"""What the planner shares with a planner that begins elsewhere, and how that one takes it up.

Shared is what was learned: the load's chain or transition counts, service times as they were seen, what slots that are
overloaded come to, and the plan's costs, which are of the same task alone (`inherit` hands the rest to another one).
What follows from that is left out, and found anew. Where the load stands is not known to who begins: the chain's first
slot says it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.model.jit import fastest, jit
from scaler.model.kernel import Problem, lay_out
from scaler.model.policy import Arrays, Shared, flatten, unflatten
from scaler.model.task import Task
from scaler.policies.planner.capacity import inherit_capacity
from scaler.policies.planner.ladder import refresh_ladder
from scaler.policies.planner.load_chain import highest_level
from scaler.policies.planner.replica_worth import appraise, appraise_ages
from scaler.policies.planner.state import State, steps
from scaler.policies.planner.workload import V, X, Y, list_outcomes

CONSTANT = ("workload.hazard", "workload.age_edges", "workload.width", "workload.height_edges")
DERIVED = (
    "workload.known", "workload.many", "worth.by_situation", "worth.by_age", "course.late", "course.ahead",
    "course.full", "chain.silence",
)  # fmt: skip
OF_ANY_SIZE = ("chain.", "ladder.", "course.")  # as load in planner.py has them
OF_ONE_AT_A_TIME = ("workload.", "worth.")
MAY_BE_NEGATIVE = ("worth.", "course.", "chain.side", "chain.reach", "workload.trend", "workload.load", "paid")
MAX_THRESHOLDS, MAX_DEPLOYMENTS = 400, 10_000  # of a task, whose planner others are to make room for
SWEEPS = 20  # of every threshold, to plan anew where one replica at a time changes


def is_shared(name: str, any_size: bool) -> bool:
    return name not in (*CONSTANT, *DERIVED) and not name.startswith(
        (*OF_ONE_AT_A_TIME, "ladder.") if any_size else OF_ANY_SIZE
    )


def share(state: State, thinning: int) -> Arrays:
    """What is shared, without what was seen less than 2 ** thinning times at one level or in one situation.

    What all levels or thresholds show together, which fills that in, stays.
    """
    any_size = len(state.chain.visits) > 1
    arrays = {name: value for name, value in flatten(state).items() if is_shared(name, any_size)}
    seldom = ("chain.visits", "chain.rates", "chain.levels") if any_size else ("workload.visits", "workload.counts")
    few = arrays[seldom[0]] < 2**thinning
    if thinning:
        for name in seldom:
            arrays[name][few] = 0
    return arrays


def restore(fresh: State, task: Task, arrays: Arrays) -> State:
    """A fresh state of this task with what was shared of another; ValueError where that cannot be."""
    own, any_size = flatten(fresh), len(fresh.chain.visits) > 1
    wanted = {name for name in own if is_shared(name, any_size)}
    if set(arrays) != wanted:
        raise ValueError(f"arrays {', '.join(sorted(set(arrays) ^ wanted))[:100]} are too many or missing")
    for name in wanted:
        check_array(name, arrays[name], own[name])
    state: State = unflatten(fresh, own | arrays)
    check_places(task, state)
    p = lay_out(task)
    if any_size:
        state.chain.place[1] = 0
        state.course.overloads[4] = 0.0
        refresh_ladder(p, state.ladder, state.capacity, -1, float(highest_level(state.chain)))
    else:
        list_outcomes(state.workload)
        fastest(plan_anew)(p, state)
    return state


def check_array(name: str, value: NDArray[Any], like: NDArray[Any]) -> None:
    if value.dtype != like.dtype or value.shape != like.shape:
        raise ValueError(f"{name} is {value.dtype}{list(value.shape)}, and must be {like.dtype}{list(like.shape)}")
    if not np.isfinite(value).all() or (not name.startswith(MAY_BE_NEGATIVE) and (value < 0).any()):
        raise ValueError(f"{name} holds a number that cannot be")


def check_places(task: Task, state: State) -> None:
    """Whatever is a place in another array lies in it."""
    w, c, types = state.workload, state.chain, len(task.types)
    levels, situations = len(c.visits), Y * X
    limits: list[tuple[NDArray[Any], int]] = [(state.kind, types), (c.place[:1], levels)]
    limits += [(state.course.turn[:1], levels), (w.age_class, Y), (w.situation, situations)]
    limits += [(state.clock[1:], V * len(w.age))]
    if any((places >= limit).any() for places, limit in limits):
        raise ValueError("a place is beyond the end")
    if not ((state.shadow >= 1) & (state.shadow <= task.k_max)).all():
        raise ValueError("a shadow holds more replicas than there are")
    if not (c.shifted > 0.0).all() or not (state.course.overloads[:4:2] > 0.0).all() or not (c.lowest > 0.0).all():
        raise ValueError("nothing was counted")
    if not (state.capacity.service > 0.0).all() or (np.diff(c.reach, axis=1) < 0.0).any():
        raise ValueError("a service time is not positive")


def check_size(task: Task) -> None:
    """Refuse a task that no planner should be made for on another's word."""
    size, most = len(task.types) * task.k_max, MAX_THRESHOLDS if task.one_at_a_time else MAX_DEPLOYMENTS
    if size > most:
        raise ValueError(f"{size:,} deployments, and there may be {most:,}")


@jit
def plan_anew(p: Problem, s: State) -> None:
    """Find again what replicas are worth, of every threshold in turn."""
    for _ in range(SWEEPS):
        for b in range(s.workload.age.shape[0]):
            for v in range(V):
                appraise(p, s.worth, s.workload, v, b, p.price[b // steps(p)], True)
            appraise_ages(p, s.worth, s.workload, b, p.price[b // steps(p)])


def prefer_own(task: Task, state: State, own_task: Task, own: State) -> State:
    """The state with the service times that this operator's own planner saw, where it saw any."""
    names = [node.name for node in own_task.types]
    places = [names.index(node.name) if node.name in names else -1 for node in task.types]
    return state._replace(capacity=inherit_capacity(lay_out(task), state.capacity, own.capacity, places))


def count_slots(state: State) -> int:
    return int(state.clock[0])


def forget_types(task: Task, state: State, seen: Collection[str]) -> State:
    """The state with nothing seen of other node types than these: a replay saw them as they are described alone."""
    for i, node in enumerate(task.types):
        if node.name not in seen:
            state.capacity.sights[i] = 0
    return state


SHARED = Shared(share, restore, prefer_own, forget_types, count_slots, check_size)
