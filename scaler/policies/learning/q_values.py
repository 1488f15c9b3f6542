"""Shared by the learners: tables of values by state, slot cost, step sizes, epsilon-greedy choice.

A table is a dense array where that is small, else a hash table of the visited states. A row is addressed by the number
of its state (a deployment's key and a rate level): the row itself in a dense table, found by open addressing in `keys`
in a sparse one. Rows never written read as the fill value. A sparse table grows between chunks of slots (`reserve`), up
to a budget of bytes; past that, what is new is dropped and counted.

Notation: S rows, W values a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from scaler.model.jit import fastest, jit, uniform
from scaler.model.kernel import Floats, Integers, KernelView, Problem, allowed
from scaler.model.policy import State

DENSE_BYTES = 64 << 20
BUDGET_BYTES = 512 << 20
EMPTY = -1
ALPHA, ALPHA_DECAY, ALPHA_EVERY, ALPHA_LEAST = 1.0, 0.98, 10, 0.1
EPSILON, EPSILON_DECAY, EPSILON_LEAST = 1.0, 0.95, 0.01


class Table(NamedTuple):
    """Rows of values; `keys` is empty in a dense table."""

    keys: Integers  # [S] or [0]
    values: Floats  # [S, W]
    used: Integers  # [2] rows taken, rows refused for want of room
    fill: float


def make_table(states: int, width: int, fill: float = 0.0, dense_bytes: int = DENSE_BYTES) -> Table:
    """A table for so many states, dense if that takes no more than `dense_bytes`."""
    if states * width * 8 <= dense_bytes:
        values = np.zeros((states, width)) if fill == 0.0 else np.full((states, width), fill)
        return Table(np.empty(0, np.int64), values, np.zeros(2, np.int64), fill)
    rows = 1 << 12
    return Table(np.full(rows, EMPTY, np.int64), np.full((rows, width), fill), np.zeros(2, np.int64), fill)


def reserve(table: Table, more: int, budget_bytes: int = BUDGET_BYTES) -> Table:
    """The table itself, or a larger copy with room for `more` new rows at a load of at most one half."""
    rows = table.keys.shape[0]
    wanted = 2 * (int(table.used[0]) + more)
    if rows == 0 or wanted <= rows:
        return table
    row_bytes = 8 * (table.values.shape[1] + 1)
    while rows < wanted and 2 * rows * row_bytes <= budget_bytes:
        rows *= 2
    if rows == table.keys.shape[0]:
        return table
    width = table.values.shape[1]
    grown = Table(np.full(rows, EMPTY, np.int64), np.full((rows, width), table.fill), table.used.copy(), table.fill)
    grown.used[0] = 0
    fastest(move_rows)(table, grown)
    return grown


def table_bytes(table: Table) -> int:
    """Memory held: all rows of a sparse table; of a dense one, which the system fills page by page, all pages too."""
    return int(table.keys.nbytes + table.values.nbytes)


def measure_table(state: State) -> int:
    """Bytes held by the table of a learner's state."""
    return table_bytes(state.table)


def grow_table(state: State, slots: int) -> State:
    """A learner's state with room in its table for what so many slots may visit."""
    return state._replace(table=reserve(state.table, slots))


@jit
def probe(keys: Integers, state: int) -> int:
    """Where a state is, or the free place where it would go; -1 when the table is full."""
    state = int(state)  # a numpy scalar would warn of the overflow that hashing wants
    mask = keys.shape[0] - 1
    place = (state ^ (state >> 17)) * 0x9E3779B1 & mask
    for _ in range(keys.shape[0]):
        if keys[place] == state or keys[place] == EMPTY:
            return place
        place = (place + 1) & mask
    return -1


@jit
def find(table: Table, state: int) -> int:
    """The row of a state, or -1 if it was never written."""
    if table.keys.shape[0] == 0:
        return state
    place = probe(table.keys, state)
    return place if place >= 0 and table.keys[place] == state else -1


@jit
def claim(table: Table, state: int) -> int:
    """The row of a state, taken now if it was free; -1 when there is no room."""
    if table.keys.shape[0] == 0:
        return state
    place = probe(table.keys, state)
    if place < 0 or (table.keys[place] == EMPTY and table.used[0] * 10 >= table.keys.shape[0] * 9):
        table.used[1] += 1
        return -1
    if table.keys[place] == EMPTY:
        table.keys[place] = state
        table.used[0] += 1
    return place


@jit
def read(table: Table, state: int, column: int) -> float:
    """A value, or the fill value if its row was never written."""
    row = find(table, state)
    return table.values[row, column] if row >= 0 else table.fill


@jit
def move_rows(source: Table, target: Table) -> None:
    """Copy every taken row."""
    for i in range(source.keys.shape[0]):
        if source.keys[i] != EMPTY:
            row = claim(target, source.keys[i])
            for column in range(source.values.shape[1]):  # a slice assignment would allocate
                target.values[row, column] = source.values[i, column]


def first_rates() -> Floats:
    """Learning rate and exploration at the start."""
    return np.array([ALPHA, EPSILON])


def has_floors(options: Mapping[str, Any]) -> bool:
    """Whether learning rate and exploration stop falling (as in the tables), or never do (as in the paper's text)."""
    return not options.get("schedules_as_written", False)


@jit
def slot_cost(p: Problem, action: int, seen: KernelView) -> float:
    """What the slot cost: the change that led into it, the violation in it, the resources held through it."""
    cost = p.w_res * seen.price
    if action != 0:
        cost += p.w_rcf
    if seen.violated:
        cost += p.w_perf
    return cost


@jit
def cool_down(rates: Floats, clock: Integers, floors: bool) -> None:
    """Advance the step count and the schedules of learning rate and exploration."""
    clock[0] += 1
    if clock[0] % ALPHA_EVERY == 0:
        rates[0] = max(rates[0] * ALPHA_DECAY, ALPHA_LEAST if floors else 0.0)
    rates[1] = max(rates[1] * EPSILON_DECAY, EPSILON_LEAST if floors else 0.0)


@jit
def explores(seed: int, clock: int, epsilon: float) -> bool:
    return uniform(seed, 2 * clock) <= epsilon


@jit
def exploration(p: Problem, k: Integers, count: int, seed: int, clock: int) -> int:
    """The action that this step explores: any that is allowed, with equal chances."""
    actions = 2 * p.radix.shape[0] + 1
    choices = 0
    for action in range(actions):
        if allowed(p, k, count, action):
            choices += 1
    pick = int(uniform(seed, 2 * clock + 1) * choices)
    for action in range(actions):
        if allowed(p, k, count, action):
            if pick == 0:
                return action
            pick -= 1
    return 0
