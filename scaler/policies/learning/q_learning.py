"""Q-learning with an epsilon-greedy choice (QL), without a model of the operator."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem, allowed
from scaler.model.policy import Kernel, Start
from scaler.policies.learning.q_values import (
    Table,
    claim,
    cool_down,
    exploration,
    explores,
    find,
    first_rates,
    grow_table,
    has_floors,
    make_table,
    measure_table,
    slot_cost,
)


class State(NamedTuple):
    table: Table  # [states, actions]
    rates: Floats  # [2] alpha, epsilon
    clock: Integers  # [1]
    seed: Integers  # [1]
    floors: bool  # of learning rate and exploration


def prepare(start: Start) -> State:
    task = start.task
    states = (task.k_max + 1) ** len(task.types) * task.levels
    return State(
        table=make_table(states, 2 * len(task.types) + 1),
        rates=first_rates(),
        clock=np.zeros(1, np.int64),
        seed=np.array([start.seed], np.int64),
        floors=has_floors(start.options),
    )


@jit
def worth(p: Problem, s: State, k: Integers, seen: KernelView, action: int) -> float:
    row = find(s.table, seen.key * p.levels + seen.level)
    return s.table.values[row, action] if row >= 0 else 0.0


@jit
def best(p: Problem, s: State, k: Integers, seen: KernelView) -> tuple[int, float]:
    """The cheapest allowed action and its value; ties go to the first."""
    row = find(s.table, seen.key * p.levels + seen.level)
    if row < 0:
        return 0, 0.0
    choice = 0
    least = s.table.values[row, 0]
    for action in range(1, s.table.values.shape[1]):
        q = s.table.values[row, action]
        if q < least and allowed(p, k, seen.count, action):
            least = q
            choice = action
    return choice, least


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    if explores(s.seed[0], s.clock[0], s.rates[1]):
        return exploration(p, k, seen.count, s.seed[0], s.clock[0])
    return best(p, s, k, seen)[0]


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    target = slot_cost(p, action, seen) + p.gamma * best(p, s, k, seen)[1]
    row = claim(s.table, before.key * p.levels + before.level)
    if row >= 0:
        s.table.values[row, action] += s.rates[0] * (target - s.table.values[row, action])
    cool_down(s.rates, s.clock, s.floors)


Q_LEARNING = Kernel(
    title="QL",
    prepare=prepare,
    decide=decide,
    learn=learn,
    worth=worth,
    grow=grow_table,
    measure=measure_table,
    options=("schedules_as_written",),
)
