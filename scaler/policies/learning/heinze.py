"""Heinze et al. 2014, "Auto-scaling techniques for elastic data stream processing": SARSA on the utilisation alone.

A state is the utilisation in steps of 5 %, up to 10; the cost of a step is how far the utilisation then is from the
target. Q starts as a threshold policy would have it: out above the target, in below half of it, nothing between. After
each step Q is made monotone: where to scale out is right, it is at all higher utilisations; where to scale in, at all
lower ones. No exploration. As in the published code, alpha goes from .3 to .1, gamma is .99 whatever the task says, and
monotony starts from the state before, by the action chosen in the state after. There that action is also the one taken;
here `decide` looks once more after the update, which seldom changes it. Values grow to 1 / (1 - gamma) of the distance,
so that the start, at 0 and 1, is forgotten after some dozens of slots: that too is the published policy.

Replicas of the type picked beforehand (homogeneous.py says how) come and go; the first
replica, if of another type, stays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem
from scaler.model.policy import Start
from scaler.policies.homogeneous import by_node, read_number, scale_to
from scaler.policies.learning.q_values import ALPHA_DECAY, ALPHA_EVERY, ALPHA_LEAST

TARGET = 0.7
STEPS = 20  # per unit of utilisation
HIGHEST = 10  # utilisation from which states are no longer told apart
ALPHA, GAMMA = 0.3, 0.99
GAP = 0.1
NOTHING, IN, OUT = range(3)


class State(NamedTuple):
    q: Floats  # [utilisations, 3]
    alpha: Floats  # [1]
    clock: Integers  # [1]
    node_type: int
    target: float


def prepare(start: Start, node_type: int) -> State:
    target = read_number(start.options, "target", TARGET, 0.01, 1.0)
    return State(preset(target), np.array([ALPHA]), np.zeros(1, np.int64), node_type, target)


def preset(target: float) -> Floats:
    """Q of a threshold policy, [utilisations, 3]."""
    utilisation = np.arange(HIGHEST * STEPS + 1) / STEPS
    best = np.where(utilisation > target, OUT, np.where(utilisation < target / 2.0, IN, NOTHING))
    q = np.ones((len(utilisation), 3))
    q[np.arange(len(utilisation)), best] = 0.0
    return q


@jit
def state_of(seen: KernelView) -> int:
    return int(min(float(HIGHEST), seen.utilisation) * STEPS)


@jit
def choose(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    """The cheapest of NOTHING, IN and OUT that may be taken; ties go to the first."""
    u = state_of(seen)
    choice = NOTHING
    if seen.count > 1 and k[s.node_type] > 0 and s.q[u, IN] < s.q[u, choice]:
        choice = IN
    if seen.count < p.k_max and s.q[u, OUT] < s.q[u, choice]:
        choice = OUT
    return choice


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    choice = choose(p, s, k, seen)
    wanted = seen.count + 1 if choice == OUT else seen.count - 1 if choice == IN else seen.count
    return scale_to(p, k, seen.count, s.node_type, wanted)


@jit
def keep_monotone(s: State, u: int, following: int) -> None:
    """To the right of where scaling out follows, scaling in is worse; to the left of where scaling in does, out is."""
    if following == OUT:
        for higher in range(u, s.q.shape[0]):
            s.q[higher, IN] = s.q[higher, OUT] + GAP
    elif following == IN:
        for lower in range(u + 1):
            s.q[lower, OUT] = s.q[lower, IN] + GAP


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    u, v = state_of(before), state_of(seen)
    following = choose(p, s, k, seen)
    taken = NOTHING if action == 0 else (IN if action <= k.shape[0] else OUT)
    target = abs(v / STEPS - s.target) + GAMMA * s.q[v, following]
    s.q[u, taken] += s.alpha[0] * (target - s.q[u, taken])
    keep_monotone(s, u, following)
    s.clock[0] += 1
    if s.clock[0] % ALPHA_EVERY == 0:
        s.alpha[0] = max(s.alpha[0] * ALPHA_DECAY, ALPHA_LEAST)


HEINZE_C, HEINZE_S, HEINZE_O, HEINZE_P = by_node("Heinze", prepare, decide, learn, options=("target",))
