"""DRS (Fu et al. 2015, "DRS: dynamic resource scheduling"): the least parallelism that meets the bound.

The application is an open Jackson network, an operator in it an M/M/k queue, with Allen and Cunneen's factor where
service times are not exponential. DRS wants the fewest replicas whose mean response time meets the bound. The paper
meets one bound for the whole application, greedily giving the next replica to the operator that gains most by it
(drs_graph.py); here every operator has a bound of its own, from the Objective, so that each finds its number alone.

Replicas of one type (homogeneous.py says of which) come and go. The first replica, if of another
type, counts and stays; the paper measures how fast replicas are, and so the model takes all to be as slow as the
slowest there. One queue for all of them is more than a plant has that gives each replica its share of the arrivals:
there the model promises too much. A queue in equilibrium has no backlog to be worked off: the rate is that of arrivals.
"""

from __future__ import annotations

from typing import NamedTuple

from scaler.model.jit import jit
from scaler.model.kernel import Integers, KernelView, Problem
from scaler.model.policy import Start
from scaler.model.queueing import mgk_response
from scaler.policies.homogeneous import by_node, scale_to
from scaler.policies.rules.static import learn_nothing

ARRIVAL_SCV = 1.0  # Poisson


class State(NamedTuple):
    node_type: int


def prepare(start: Start, node_type: int) -> State:
    return State(node_type)


@jit
def pace(p: Problem, seen: KernelView, node_type: int) -> float:
    """Speed of the slowest replica, were one of this type added."""
    return min(p.speedup[node_type], p.speedup[p.order[seen.slowest]])


@jit
def least_replicas(p: Problem, rate: float, speedup: float) -> int:
    """The fewest replicas of this speed that meet the bound at this rate; K if that takes more."""
    count = min(p.k_max, int(rate * p.mean / speedup) + 1)  # with fewer the queue grows for ever
    while count < p.k_max and mgk_response(rate, p.mean, p.variance, speedup, count, ARRIVAL_SCV) > p.bound:
        count += 1
    return count


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    wanted = least_replicas(p, seen.arrivals, pace(p, seen, s.node_type))
    return scale_to(p, k, seen.count, s.node_type, wanted)


DRS_C, DRS_S, DRS_O, DRS_P = by_node("DRS", prepare, decide, learn_nothing, any_size=True)
