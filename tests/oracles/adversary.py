"""An adversary that sees what a policy has deployed, and chooses the next slot's load to make it regret that.

It plays the published slots (M/G/1, without memory) against a policy that may change by any size, so that the floor of
the load that comes of it is exact. The load exceeds the deployment's capacity by a share until the policy has kept up
with it for some slots, and then falls to a share of the highest rate until the policy has given capacity away, or for
some slots at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from scaler.model.kernel import Floats, lay_out, replica_response
from scaler.model.nodes import Deployment
from scaler.model.policy import Observation, Policy, Transition, build_policy
from scaler.model.task import Task
from scaler.policies.planner.planner import PLANNER
from sim.sized_floor import SizedWorld, sized_floor

SLOT_S = 60.0
NO_HURRY = 10**9


@dataclass(frozen=True, slots=True)
class Tease:
    """How the adversary plays."""

    excess: float = 1.05  # of the capacity, as a factor
    low: float = 0.05  # of the highest rate
    kept_up: int = 1  # slots in which the policy answers in time, before the load falls
    stays_low: int = NO_HURRY  # slots at most

    def vary(self, rng: np.random.Generator) -> Tease:
        """Another one near this one."""
        moved = replace(
            self,
            excess=float(np.clip(self.excess * math.exp(rng.normal(0.0, 0.2)), 1.001, 8.0)),
            low=float(np.clip(self.low * math.exp(rng.normal(0.0, 0.5)), 0.001, 0.7)),
        )
        if rng.random() < 0.5:
            moved = replace(moved, kept_up=int(rng.geometric(1.0 / (1.0 + moved.kept_up))))
        if rng.random() < 0.5:
            long = rng.random() < 0.4
            moved = replace(moved, stays_low=NO_HURRY if long else int(rng.geometric(1.0 / rng.integers(2, 60))))
        return moved


@dataclass(frozen=True, slots=True)
class Played:
    rates: Floats
    cost: float  # a slot
    floor: float  # a slot, exact
    late: float
    changes: float

    @property
    def multiple(self) -> float:
        return self.cost / self.floor

    def excess(self, multiple: float) -> float:
        """Cost beyond this multiple of the floor, in all, in slots that are late."""
        return (self.cost - multiple * self.floor) * len(self.rates)


def play(task: Task, tease: Tease, slots: int, policy: Policy | None = None) -> Played:
    """Play so many slots against the planner, or another policy, that begins with one replica of the first type."""
    p, policy = lay_out(task), policy or build_policy(PLANNER, task)
    deployment = Deployment((1, *[0] * (len(task.types) - 1)))
    highest, before = task.highest_rate, None
    rates: list[float] = []
    late = changes = 0
    rent, rising, count = 0.0, True, 0
    least = capacity_of(task, deployment)
    for slot in range(slots):
        capacity = capacity_of(task, deployment)
        rate = min(highest, tease.excess * capacity) if rising else tease.low * highest
        response = respond(task, deployment, rate)
        seen = Observation(slot * SLOT_S, rate, load_of(task, deployment, rate), response, deployment)
        if before is not None:
            policy.learn(Transition(before, seen))
        violated = response > task.bound
        after = deployment.after(policy.decide(seen))
        late, changes = late + violated, changes + (after != deployment)
        rent += float(sum(n * price for n, price in zip(deployment.replicas, p.price, strict=True)))
        count = 0 if rising and violated else count + 1
        if rising and (count >= tease.kept_up or (rate == highest and not violated)):
            rising, count, least = False, 0, capacity_of(task, after)
        elif not rising and (capacity_of(task, after) < least or count >= tease.stays_low):
            rising, count = True, 0
        rates.append(rate)
        deployment, before = after, seen
    load = np.array(rates)
    first = np.array([1, *[0] * (len(task.types) - 1)])
    floor = sized_floor(task, load, SizedWorld(first, "memoryless", SLOT_S, np.zeros((0, len(first)))))
    assert floor.exact
    cost = (p.w_perf * late + p.w_rcf * changes + p.w_res * rent) / slots
    return Played(load, cost, floor.lower, late / slots, changes / slots)


def capacity_of(task: Task, deployment: Deployment) -> float:
    """Highest rate that is answered within the bound: the slowest replica sets the pace."""
    p = lay_out(task)
    slowest = min(p.capacity[i] for i, n in enumerate(deployment.replicas) if n)
    return float(slowest) * deployment.parallelism


def load_of(task: Task, deployment: Deployment, rate: float) -> float:
    """Utilisation of the slowest replica."""
    slowest = min(node.speedup for node, n in zip(task.types, deployment.replicas, strict=True) if n)
    return rate / deployment.parallelism * task.moments.mean / slowest


def respond(task: Task, deployment: Deployment, rate: float) -> float:
    p = lay_out(task)
    slowest = min(p.speedup[i] for i, n in enumerate(deployment.replicas) if n)
    return float(replica_response(p, rate / deployment.parallelism, float(slowest)))
