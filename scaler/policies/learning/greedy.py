"""Shared by the tabular learners: slot cost, schedule of step sizes, epsilon-greedy choice."""

from __future__ import annotations

import numpy as np

from scaler.model.jit import jit, uniform
from scaler.model.kernel import Floats, Integers, KernelView, Problem, allowed

ALPHA, ALPHA_DECAY, ALPHA_EVERY, ALPHA_LEAST = 1.0, 0.98, 10, 0.1
EPSILON, EPSILON_DECAY, EPSILON_LEAST = 1.0, 0.95, 0.01


def first_rates() -> Floats:
    """Learning rate and exploration at the start."""
    return np.array([ALPHA, EPSILON])


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
def cool_down(rates: Floats, clock: Integers) -> None:
    """Advance the step count and the schedules of learning rate and exploration."""
    clock[0] += 1
    if clock[0] % ALPHA_EVERY == 0:
        rates[0] = max(rates[0] * ALPHA_DECAY, ALPHA_LEAST)
    rates[1] = max(rates[1] * EPSILON_DECAY, EPSILON_LEAST)


@jit
def explore(p: Problem, k: Integers, count: int, u: float) -> int:
    """The action that a uniform number in [0, 1) picks among those allowed."""
    actions = 2 * p.radix.shape[0] + 1
    choices = 0
    for action in range(actions):
        if allowed(p, k, count, action):
            choices += 1
    pick = int(u * choices)
    for action in range(actions):
        if allowed(p, k, count, action):
            if pick == 0:
                return action
            pick -= 1
    return 0


@jit
def explores(seed: int, clock: int, epsilon: float) -> bool:
    """Whether this step explores."""
    return uniform(seed, 2 * clock) <= epsilon


@jit
def exploration(p: Problem, k: Integers, count: int, seed: int, clock: int) -> int:
    """The action that this step explores."""
    return explore(p, k, count, uniform(seed, 2 * clock + 1))
