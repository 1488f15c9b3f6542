"""Full-backup model-based reinforcement learning: learn the model on-line and plan with it again and again.

Starts from a plan on an approximate service model. From then on counts how rate levels follow each other (starting as
if each had followed itself once) and averages violations by parallelism, slowest type present and level (the belief
counts as one observation). A full backup is at most three sweeps of value iteration over every state, fewer when the
last changed no value by 1e-4 or more.

As published, backups are done every slot until slot 100,000 and every 100 slots from then on; but there operators had
one node type. With more, a backup costs thousands of times as much, so that by default they come as seldom as keeps
the work per slot about the same; `backup_every` sets it. Deviations: the published code averages all violations over
the time since the start, whether or not they were of that state, and gives the belief the weight of 10,000 slots.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem
from scaler.model.policy import Kernel, Start
from scaler.model.task import Task
from scaler.policies.homogeneous import read_count
from scaler.policies.learning.value_iteration import (
    Space,
    decide,
    plan_for,
    transition_counts,
    violation_costs,
    worth,
)

EAGER_SLOTS = 100_000
LATER_EVERY = 100
SWEEPS, SETTLED = 3, 1e-4
WORK_PER_SLOT = 100_000  # additions that backups may cost, averaged over slots, unless `backup_every` is given


class State(NamedTuple):
    space: Space
    values: Floats  # [D, L] U, as in value_iteration.py
    least: Floats  # [D, L] scratch: the least over actions
    fresh: Floats  # [L] scratch: the new row of U
    follows: Floats  # [L, L] how often level l' followed l
    onward: Floats  # [L, L] their shares by (l', l): P transposed, so that a sweep runs along its rows
    violation: Floats  # [K + 1, N, L] mean cost, by parallelism and rank of the slowest type present
    times: Floats  # [K + 1, N, L] how many observations that is the mean of
    clock: Integers  # [1]
    backup_every: int


def prepare(start: Start) -> State:
    task = start.task
    plan = plan_for(task, start.model, start.options)
    follows = np.eye(task.levels) + transition_counts(task, start.options)
    violation = violation_costs(task, start.model)
    return State(
        space=plan.space,
        values=plan.values,
        least=np.zeros_like(plan.values),
        fresh=np.zeros(task.levels),
        follows=follows,
        onward=np.ascontiguousarray((follows / follows.sum(axis=1, keepdims=True)).T),
        violation=violation,
        times=np.ones_like(violation),
        clock=np.zeros(1, np.int64),
        backup_every=read_count(start.options, "backup_every", affordable_period(task, plan.space)),
    )


def affordable_period(task: Task, space: Space) -> int:
    """Slots from one full backup to the next at which the work per slot is what it may be."""
    actions, levels = space.near.shape[1], task.levels
    work = SWEEPS * len(space.keys) * levels * (levels + actions)
    return math.ceil(work / WORK_PER_SLOT)


def measure_state(state: State) -> int:
    """Bytes held: values, their least over the actions, and what each action leads to."""
    return int(2 * state.values.nbytes + state.space.near.nbytes)


@jit
def count_transition(s: State, before: int, after: int) -> None:
    """Let one more level follow another."""
    s.follows[before, after] += 1.0
    total = s.follows[before, :].sum()
    for level in range(s.onward.shape[0]):
        s.onward[level, before] = s.follows[before, level] / total


@jit
def average_violation(p: Problem, s: State, seen: KernelView) -> None:
    """Take one more observation into the mean cost of a violation."""
    cost = p.w_perf if seen.violated else 0.0
    s.times[seen.count, seen.slowest, seen.level] += 1.0
    mean = s.violation[seen.count, seen.slowest, seen.level]
    s.violation[seen.count, seen.slowest, seen.level] += (cost - mean) / s.times[seen.count, seen.slowest, seen.level]


@jit
def choose_in_row(p: Problem, s: State, d: int) -> None:
    """The least over the actions of one deployment, at every level, into `least`."""
    for level in range(s.fresh.shape[0]):
        s.least[d, level] = s.space.cost[d] + s.values[d, level]
    for action in range(1, s.space.near.shape[1]):
        to = s.space.near[d, action]
        if to >= 0:
            cost = s.space.cost[to] + p.w_rcf
            for level in range(s.fresh.shape[0]):
                s.least[d, level] = min(s.least[d, level], cost + s.values[to, level])


@jit
def back_up_row(p: Problem, s: State, d: int) -> float:
    """The values of one deployment once more from what they lead to, and the largest change."""
    levels = s.fresh.shape[0]
    for level in range(levels):
        s.fresh[level] = 0.0
    for after in range(levels):
        cost = s.violation[s.space.parallelism[d], s.space.slowest[d], after] + p.gamma * s.least[d, after]
        for level in range(levels):
            s.fresh[level] += s.onward[after, level] * cost
    worst = 0.0
    for level in range(levels):
        worst = max(worst, abs(s.fresh[level] - s.values[d, level]))
        s.values[d, level] = s.fresh[level]
    return worst


@jit
def back_up_all(p: Problem, s: State) -> None:
    """A full backup."""
    for _ in range(SWEEPS):
        for d in range(s.values.shape[0]):
            choose_in_row(p, s, d)
        worst = 0.0
        for d in range(s.values.shape[0]):
            worst = max(worst, back_up_row(p, s, d))
        if worst < SETTLED:
            return


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    count_transition(s, before.level, seen.level)
    average_violation(p, s, seen)
    s.clock[0] += 1
    period = s.backup_every if s.clock[0] <= EAGER_SLOTS else max(s.backup_every, LATER_EVERY)
    if s.clock[0] % period == 0:
        back_up_all(p, s)


MODEL_BASED = Kernel(
    title="full backup model-based",
    prepare=prepare,
    decide=decide,
    learn=learn,
    worth=worth,
    measure=measure_state,
    options=("history", "backup_every"),
)
