"""What the planner carries from slot to slot, and what it says of single replicas."""

from __future__ import annotations

from typing import NamedTuple

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, Problem
from scaler.policies.planner.capacity import Capacity
from scaler.policies.planner.replica_worth import Worth, cost_in, cost_out, worth_now
from scaler.policies.planner.workload import Workload


class State(NamedTuple):
    workload: Workload
    capacity: Capacity
    worth: Worth
    shadow: Integers  # [N] replicas that each type's shadow holds
    paid: Floats  # [N] what each shadow paid, fading
    kind: Integers  # [2] node type in use, and the one before
    peak: Floats  # [1] highest rate of late
    usual: Floats  # [1] response time of slots that keep the bound
    clock: Integers  # [3] slots seen; next threshold and view to plan for of all, and of the type in use


@jit
def steps(p: Problem) -> int:
    """Thresholds of a node type: one for each number of replicas that can be added to."""
    return max(1, p.k_max - 1)


@jit
def worth_of_replica(p: Problem, s: State, i: int, number: int) -> float:
    """Worth of the replica of this number (from 2 on) of type i."""
    return worth_now(p, s.worth, s.workload, i * steps(p) + number - 2, p.price[i])


@jit
def price_out(p: Problem, s: State, i: int, number: int) -> float:
    """Cost of adding the replica of this number (from 2 on) of type i."""
    return cost_out(p, s.worth, s.workload, i * steps(p) + number - 2)


@jit
def price_in(p: Problem, s: State, i: int, number: int) -> float:
    """Cost of removing it."""
    return cost_in(p, s.worth, s.workload, i * steps(p) + number - 2)


@jit
def price_beyond(p: Problem, s: State, i: int, number: int, adds: bool) -> float:
    """What changes of a type cost beyond w_rcf, at this number or the nearest that has a threshold."""
    place = max(2, min(number, steps(p) + 1))
    return (price_out(p, s, i, place) if adds else price_in(p, s, i, place)) - p.w_rcf


@jit
def choose_count(p: Problem, s: State, i: int, count: int) -> int:
    """Replicas of type i to have, where there are so many: the first must be worth a change, the rest their rent."""
    wanted = count
    if count < p.k_max:
        out = price_out(p, s, i, count + 1)
        while wanted < p.k_max and worth_of_replica(p, s, i, wanted + 1) > out:
            wanted += 1
            out = price_out(p, s, i, wanted) - p.w_rcf
            if p.one_at_a_time:
                break
    if wanted == count and count > 1:
        into = price_in(p, s, i, count)
        while wanted > 1 and worth_of_replica(p, s, i, wanted) < -into:
            wanted -= 1
            into = price_in(p, s, i, wanted + 1) - p.w_rcf
            if p.one_at_a_time:
                break
    return wanted
