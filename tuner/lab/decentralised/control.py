"""Decision makers of the paper: planned beforehand (MDP), or learning by full backups (RL+, RL).

Notation: U[l, j] is the cost of a slot that is begun in joint state j with level l known, and of what follows; V the
least of it over the joint actions, with what a reconfiguration costs once, however many operators change:

    U[l, j] = rent(j) + sum_l' P[l, l'] (w_late late(l', j) + g V[l', j]),
    V[l, j] = min_a (w_rcf [a != 0] + U[l, j_a]).

The price of a reconfiguration is the same whoever changes, so the minimum over 3^N joint actions is one over a box:
one operator's neighbours after the other's (`least_in_box`). RL+ knows what is late and counts P. RL estimates lateness
by state and joint action, an exponential average as printed; its minimum is over the joint actions one by one.

Levels that were not seen yet stay. Backups come every slot at first, and later as seldom as keeps the work per slot
about the same: every slot for an Operator Manager, every 20 for three operators together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers
from scaler.policies.learning.value_iteration import iterate
from sim.application_floor import least_in_box
from sim.compiler import compile_kernel
from sim.level_chain import LevelChain
from tuner.lab.decentralised.chained_operators import ALPHA, JointSpace

PLANNED, KNOWN, LEARNED = 0, 1, 2  # what a decision maker knows: all; what is late; neither
EAGER_SLOTS = 5_000  # with a backup in each
STATES_PER_SLOT = 6  # that later backups may cost, averaged over slots


class Memory(NamedTuple):
    """What a decision maker has learned, and scratch."""

    values: Floats  # [L, J] U
    least: Floats  # [L, J] V
    counts: Floats  # [L, L] how often level l' followed l
    followers: Integers  # [L, L] levels that followed l, the first `many` of the row
    many: Integers  # [L]
    lateness: Floats  # [L, J, A] estimated cost of a violation; [1, 1, 1] where it is known
    later: Floats  # [J]
    box: Floats  # [J]


def empty_memory(space: JointSpace, knows: int) -> Memory:
    """A decision maker that has seen nothing."""
    levels, states = space.late.shape
    estimated = (levels, states, space.near.shape[1]) if knows == LEARNED else (1, 1, 1)
    return Memory(
        values=np.zeros((levels, states)),
        least=np.zeros((levels, states)),
        counts=np.zeros((levels, levels)),
        followers=np.zeros((levels, levels), np.int64),
        many=np.zeros(levels, np.int64),
        lateness=np.zeros(estimated),
        later=np.zeros(states),
        box=np.zeros(states),
    )


def plan_jointly(space: JointSpace, chances: Floats) -> Floats:
    """U [L, J] by value iteration, with the least over all joint actions as a box minimum."""
    memory = empty_memory(space, PLANNED)
    minimise = compile_kernel(minimise_box)

    def sweep(values: Floats) -> Floats:
        memory.values[:] = values
        minimise(space, memory)
        swept: Floats = space.rent + chances @ (space.w_late * space.late + space.gamma * memory.least)
        return swept

    return iterate(sweep, memory.values.copy(), space.gamma)


def control(space: JointSpace, knows: int, chain: LevelChain, levels: Integers) -> Integers:
    """The joint state of every slot under a decision maker, from one replica each on."""
    memory = empty_memory(space, knows)
    if knows == PLANNED:
        memory.values[:] = plan_jointly(space, chain.chances)
    states = np.zeros(len(levels), np.int64)
    every = max(1, len(space.rent) // STATES_PER_SLOT)
    compile_kernel(replay_control)(space, memory, knows, every, levels, states)
    return states


@jit
def replay_control(
    space: JointSpace, memory: Memory, knows: int, every: int, levels: Integers, states: Integers
) -> None:
    """Serve a slot, learn from it with backups `every` so many slots, and choose the state of the next."""
    at = 0
    before = 0
    action = 0
    for t in range(levels.shape[0]):
        level = levels[t]
        states[t] = at
        if knows != PLANNED and t > 0:
            count_follower(memory, levels[t - 1], level)
            if knows == LEARNED:
                cost = space.w_late if space.late[level, at] else 0.0
                estimate = memory.lateness[levels[t - 1], before, action]
                memory.lateness[levels[t - 1], before, action] = estimate + ALPHA * (cost - estimate)
            if t < EAGER_SLOTS or t % every == 0:
                back_up_all(space, memory, knows)
        before = at
        action = choose(space, memory, knows, level, at)
        at = space.near[at, action]


@jit
def choose(space: JointSpace, memory: Memory, knows: int, level: int, at: int) -> int:
    """The joint action of least cost; none where that is as good."""
    best = np.inf
    choice = 0
    for action in range(space.near.shape[1]):
        to = space.near[at, action]
        if to >= 0:
            cost = memory.values[level, to]
            if action > 0:
                cost += space.w_rcf
            if knows == LEARNED:
                cost += memory.lateness[level, at, action]
            if cost < best:
                best = cost
                choice = action
    return choice


@jit
def count_follower(memory: Memory, before: int, after: int) -> None:
    """Let one more level follow another."""
    if memory.counts[before, after] == 0.0:
        memory.followers[before, memory.many[before]] = after
        memory.many[before] += 1
    memory.counts[before, after] += 1.0


@jit
def back_up_all(space: JointSpace, memory: Memory, knows: int) -> None:
    """One sweep over all states and actions."""
    if knows == LEARNED:
        minimise_one_by_one(space, memory)
    else:
        minimise_box(space, memory)
    for level in range(memory.values.shape[0]):
        if memory.many[level] == 0:
            for j in range(space.rent.shape[0]):
                memory.values[level, j] = space.rent[j]
            add_future(space, memory, knows, level, level, 1.0)
            continue
        total = 0.0
        for i in range(memory.many[level]):
            total += memory.counts[level, memory.followers[level, i]]
        for j in range(space.rent.shape[0]):
            memory.values[level, j] = space.rent[j]
        for i in range(memory.many[level]):
            after = memory.followers[level, i]
            add_future(space, memory, knows, level, after, memory.counts[level, after] / total)


@jit
def add_future(space: JointSpace, memory: Memory, knows: int, level: int, after: int, share: float) -> None:
    """Add what level `after` brings, weighted by its share, to the values of `level`."""
    for j in range(space.rent.shape[0]):
        memory.values[level, j] += share * space.gamma * memory.least[after, j]
    if knows != LEARNED:
        for j in range(space.rent.shape[0]):
            if space.late[after, j]:
                memory.values[level, j] += share * space.w_late


@jit
def minimise_box(space: JointSpace, memory: Memory) -> None:
    """V from U where all joint changes cost the same."""
    for level in range(memory.values.shape[0]):
        least_in_box(space.choices, memory.values[level], memory.later, memory.box)
        for j in range(memory.box.shape[0]):
            memory.least[level, j] = min(memory.values[level, j], space.w_rcf + memory.box[j])


@jit
def minimise_one_by_one(space: JointSpace, memory: Memory) -> None:
    """V from U where every joint action of every state has an estimate of its own."""
    for level in range(memory.values.shape[0]):
        for j in range(space.near.shape[0]):
            best = memory.values[level, j] + memory.lateness[level, j, 0]
            for action in range(1, space.near.shape[1]):
                to = space.near[j, action]
                if to >= 0:
                    cost = memory.values[level, to] + memory.lateness[level, j, action] + space.w_rcf
                    best = min(best, cost)
            memory.least[level, j] = best
