"""Q-learning on post-decision states: known costs of a decision are computed, only the rest is learned.

`QL+PDS` knows prices and the cost of a reconfiguration. `QL+PDS+` also estimates the violation cost with an
approximate service model and learns the difference. `QL+PDS+ planned` is the latter started from a plan on that model
instead of from zero; how rate levels follow each other it takes from the option `history`, or for a slow walk. All
choose greedily: zero promises more than can be had, so that everything is tried, but what a plan overrates the cost of
may never be. Equation (paper):

    V(s+) <- (1 - a) V(s+) + a (c_u + g min_a [c_k(s', a) + V(s'+)]).

The published figures come from a variant that reads V of the *previous state* on the right where this equation has
V(s+); `as_published` selects it.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from scaler.model.jit import fastest, jit
from scaler.model.kernel import (
    Floats,
    Integers,
    KernelView,
    Problem,
    slowest_after,
    split_action,
)
from scaler.model.policy import Kernel, Prepare, Start
from scaler.policies.learning.q_values import (
    Table,
    claim,
    cool_down,
    first_rates,
    grow_table,
    has_floors,
    make_table,
    measure_table,
    read,
    reserve,
)
from scaler.policies.learning.value_iteration import plan_for, violating_levels


class State(NamedTuple):
    table: Table  # [post-decision states, 1]
    first_bad: Integers  # [K + 1, N] lowest rate level that violates by the model; by parallelism, slowest type's rank
    rates: Floats  # [2]
    clock: Integers  # [1]
    as_published: bool
    floors: bool  # of the learning rate


def prepare(start: Start, estimates: bool) -> State:
    task = start.task
    states = (task.k_max + 1) ** len(task.types) * task.levels
    return State(
        table=make_table(states, 1),
        first_bad=violating_levels(start.model, estimates),
        rates=first_rates(),
        clock=np.zeros(1, np.int64),
        as_published=bool(start.options.get("as_published", False)),
        floors=has_floors(start.options),
    )


def prepare_planned(start: Start) -> State:
    """The start of QL+PDS+, with V filled: the value of a plan but for the violation that the model expects at once."""
    task, state = start.task, prepare(start, estimates=True)
    space, values = plan_for(task, start.model, start.options)
    levels = np.arange(task.levels)
    expected = levels >= state.first_bad[space.parallelism, space.slowest][:, None]
    states = space.keys[:, None] * task.levels + levels
    table = reserve(state.table, states.size)
    fastest(write)(table, states.ravel(), (values - task.weights.performance * expected).ravel())
    return state._replace(table=table)


@jit
def write(table: Table, states: Integers, values: Floats) -> None:
    """Set the values of these states."""
    for i in range(states.shape[0]):
        row = claim(table, int(states[i]))
        if row >= 0:
            table.values[row, 0] = values[i]


@jit
def expected_violation(p: Problem, s: State, count: int, slowest: int, level: int) -> float:
    """Cost of the violation that the model expects of a deployment at a rate level."""
    return p.w_perf if level >= s.first_bad[count, slowest] else 0.0


@jit
def worth(p: Problem, s: State, k: Integers, seen: KernelView, action: int) -> float:
    delta, i = split_action(k.shape[0], action)
    v = read(s.table, (seen.key + delta * p.radix[i]) * p.levels + seen.level, 0)
    known = p.w_res * (seen.price + delta * p.price[i])
    if action != 0:
        known += p.w_rcf
    slowest = slowest_after(p, k, seen, action)
    return v + known + expected_violation(p, s, seen.count + delta, slowest, seen.level)


@jit
def best(p: Problem, s: State, k: Integers, seen: KernelView) -> tuple[int, float]:
    """The cheapest allowed action and its value; ties go to the first."""
    types = k.shape[0]
    choice = 0
    least = worth(p, s, k, seen, 0)
    if seen.count > 1:
        for action in range(1, types + 1):
            if k[action - 1] > 0:
                value = worth(p, s, k, seen, action)
                if value < least:
                    least = value
                    choice = action
    if seen.count < p.k_max:
        for action in range(types + 1, 2 * types + 1):
            value = worth(p, s, k, seen, action)
            if value < least:
                least = value
                choice = action
    return choice, least


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    return best(p, s, k, seen)[0]


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    surprise = -expected_violation(p, s, seen.count, seen.slowest, before.level)
    if seen.violated:
        surprise += p.w_perf
    target = surprise + p.gamma * best(p, s, k, seen)[1]
    state = seen.key * p.levels + before.level
    old = read(s.table, before.key * p.levels + before.level if s.as_published else state, 0)
    row = claim(s.table, state)
    if row >= 0:
        s.table.values[row, 0] = (1.0 - s.rates[0]) * old + s.rates[0] * target
    cool_down(s.rates, s.clock, s.floors)


def kernel(title: str, prepare: Prepare, *options: str) -> Kernel:
    return Kernel(
        title=title,
        prepare=prepare,
        decide=decide,
        learn=learn,
        worth=worth,
        grow=grow_table,
        measure=measure_table,
        options=("as_published", "schedules_as_written", *options),
    )


PDS = kernel("QL+PDS", partial(prepare, estimates=False))
PDS_PLUS = kernel("QL+PDS+", partial(prepare, estimates=True))
PDS_PLANNED = kernel("QL+PDS+ planned", prepare_planned, "history")
