"""What the planner carries from slot to slot, and what it says of single replicas."""

from __future__ import annotations

from typing import NamedTuple

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, Problem
from scaler.policies.planner.capacity import Capacity
from scaler.policies.planner.deployment_plan import DeploymentPlan
from scaler.policies.planner.ladder import Ladder
from scaler.policies.planner.load_chain import LoadChain
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
    chain: LoadChain  # these three where changes are of any size, the thresholds above else
    ladder: Ladder
    course: DeploymentPlan


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
    """Replicas of type i to have, where there are so many: one more or less where that is worth a change."""
    if count < p.k_max and worth_of_replica(p, s, i, count + 1) > price_out(p, s, i, count + 1):
        return count + 1
    if count > 1 and worth_of_replica(p, s, i, count) < -price_in(p, s, i, count):
        return count - 1
    return count
