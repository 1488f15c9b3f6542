"""Lohrmann et al. 2015, "Elastic stream processing with latency guarantees": Kingman's formula, fitted on-line.

The wait of a tuple at k replicas is e W(k), with W Kingman's approximation and e the wait observed last over the one
predicted for it. The fewest replicas whose e W(k) and service time fit the bound are wanted. W says nothing of an
operator near saturation, so that a bottleneck (arrivals times service time, over the replicas, above .99) is resolved
first: its parallelism is doubled, or more if it is offered more than it can serve. Nothing is scaled in while the bound
is violated, and the slot after a change, whose wait is the change's own, does not count for e. The paper shares the
waiting time of a whole sequence out among its operators; here each has a bound of its own, from the Objective.

Replicas of one type (homogeneous.py says of which) come and go. The first replica, if of another
type, counts and stays; all are taken to be as slow as the slowest there, whose wait it is that is observed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem
from scaler.model.policy import Start
from scaler.model.queueing import gg1_response
from scaler.policies.homogeneous import by_node, scale_to, whole
from scaler.policies.rules.drs import pace
from scaler.policies.rules.true_rate import is_saturated

ARRIVAL_SCV = 1.0  # Poisson
BOTTLENECK = 0.99


class State(NamedTuple):
    fit: Floats  # [1] e
    node_type: int


def prepare(start: Start, node_type: int) -> State:
    return State(np.ones(1), node_type)


@jit
def waiting(p: Problem, x: float, speedup: float) -> float:
    """Kingman's wait of a replica with x arrivals per second."""
    return gg1_response(x, p.mean, p.variance, speedup, ARRIVAL_SCV) - p.mean / speedup


@jit
def load(p: Problem, seen: KernelView) -> float:
    """Arrivals over capacity; by the model where replicas never rest and no more is known, as with a backlog."""
    if is_saturated(seen):
        return seen.arrivals / seen.count * p.mean / p.speedup[p.order[seen.slowest]]
    return seen.utilisation * seen.arrivals / seen.rate if seen.rate > 0.0 else 0.0


@jit
def least_replicas(p: Problem, fit: float, rate: float, speedup: float) -> int:
    """The fewest replicas of this speed that are predicted to meet the bound; K if that takes more."""
    slack = p.bound - p.mean / speedup
    for count in range(1, p.k_max):
        if rate * p.mean < BOTTLENECK * speedup * count and fit * waiting(p, rate / count, speedup) <= slack:
            return count
    return p.k_max


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    if load(p, seen) > BOTTLENECK:
        wanted = whole(p, 2.0 * seen.count * max(1.0, load(p, seen)))
    else:
        wanted = least_replicas(p, s.fit[0], seen.arrivals, pace(p, seen, s.node_type))
    if seen.violated:
        wanted = max(wanted, seen.count)
    return scale_to(p, k, seen.count, s.node_type, wanted)


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    if action != 0 or load(p, seen) > BOTTLENECK or not math.isfinite(seen.response):
        return
    speedup = p.speedup[p.order[seen.slowest]]
    predicted = waiting(p, seen.arrivals / seen.count, speedup)
    if 0.0 < predicted < math.inf:
        s.fit[0] = max(0.0, seen.response - p.mean / speedup) / predicted


LOHRMANN_C, LOHRMANN_S, LOHRMANN_O, LOHRMANN_P = by_node("Lohrmann", prepare, decide, learn, any_size=True)
