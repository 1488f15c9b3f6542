"""Full-backup reinforcement learning as published by Russo Russo et al. (2018): from nothing, one sweep every slot.

Counts how rate levels follow each other and averages violations exponentially, by parallelism, slowest type present and
level; more or faster replicas and lower levels are never dearer (the group's rule for single operators). Then it backs
every state up once. The choice is greedy. Unlike `model-based` (its file names the notation) it
starts without a plan, from zeros, and believes the latest violations rather than all. A level that was not seen counts
as having followed itself once. The paper's operators have one node type and few levels; a sweep costs as much as there
are states, so that `backup_every` thins them out where there are many.
"""

from __future__ import annotations

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Integers, KernelView, Problem
from scaler.model.policy import Kernel, Start
from scaler.policies.homogeneous import read_count
from scaler.policies.learning.model_based import (
    State,
    affordable_period,
    back_up_row,
    choose_in_row,
    count_transition,
    measure_state,
)
from scaler.policies.learning.value_iteration import decide, lay_out_space, worth

ALPHA = 0.1


def prepare(start: Start) -> State:
    task = start.task
    space = lay_out_space(task)
    values = np.zeros((len(space.keys), task.levels))
    violation = np.zeros((task.k_max + 1, len(task.types), task.levels))
    return State(
        space=space,
        values=values,
        least=np.zeros_like(values),
        fresh=np.zeros(task.levels),
        follows=np.eye(task.levels),
        onward=np.eye(task.levels),
        violation=violation,
        times=np.zeros_like(violation),
        clock=np.zeros(1, np.int64),
        backup_every=read_count(start.options, "backup_every", affordable_period(task, space)),
    )


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    count_transition(s, before.level, seen.level)
    average_in_order(s, seen, p.w_perf if seen.violated else 0.0)
    s.clock[0] += 1
    if s.clock[0] % s.backup_every == 0:
        for d in range(s.values.shape[0]):
            choose_in_row(p, s, d)
        for d in range(s.values.shape[0]):
            back_up_row(p, s, d)


@jit
def average_in_order(s: State, seen: KernelView, cost: float) -> None:
    """Take a slot's violation into the average of its state, and keep the averages of all others in order."""
    old = s.violation[seen.count, seen.slowest, seen.level]
    new = old + ALPHA * (cost - old)
    s.violation[seen.count, seen.slowest, seen.level] = new
    s.times[seen.count, seen.slowest, seen.level] += 1.0
    replicas, ranks, levels = s.violation.shape
    for more in range(seen.count, replicas if new < old else 0):
        for faster in range(seen.slowest, ranks):
            for level in range(seen.level + 1):
                s.violation[more, faster, level] = min(s.violation[more, faster, level], new)
    for fewer in range(seen.count + 1 if new > old else 0):
        for slower in range(seen.slowest + 1):
            for level in range(seen.level, levels):
                s.violation[fewer, slower, level] = max(s.violation[fewer, slower, level], new)


FULL_BACKUP = Kernel(
    title="full backup RL",
    prepare=prepare,
    decide=decide,
    learn=learn,
    worth=worth,
    measure=measure_state,
    options=("backup_every",),
)
