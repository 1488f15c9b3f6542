"""Translate between the driver's node types and those of an objective, for one operator's policy.

The driver and the objective list node types each in their own order. A policy reckons with those that both know; what
the driver does not have cannot be added, and what the objective does not know cannot be judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from scaler.model.errors import BadInput
from scaler.model.nodes import NOTHING, Deployment, NodeType, Reconfiguration
from scaler.model.orders import Objective, to_task
from scaler.model.policy import Observation, Transition
from scaler.model.task import Task

HIGHEST = 1e6  # times the highest rate: what is more is shown as this, for levels are whole numbers


@dataclass(frozen=True, slots=True)
class NodeView:
    """One operator under one objective."""

    task: Task
    constant: float
    places: tuple[int, ...]  # in the driver's list, of each of the task's node types
    strangers: tuple[int, ...]  # places of the driver's node types that the objective does not know

    @property
    def bound(self) -> float:
        """On the whole response time."""
        return self.task.bound + self.constant

    def fits(self, deployment: Deployment) -> bool:
        """Whether a policy may be shown this deployment: kernels number what lies within the bounds."""
        return 1 <= deployment.parallelism <= self.task.k_max and not self.unknown(deployment)

    def unknown(self, deployment: Deployment) -> list[int]:
        return [i for i in self.strangers if deployment.replicas[i] > 0]

    def show(self, seen: Observation) -> Observation:
        """As the policy sees it: the queueing part of the response time, its own node types."""
        deployment = Deployment(tuple(seen.deployment.replicas[i] for i in self.places))
        most = HIGHEST * self.task.highest_rate
        rate, catch_up = min(seen.rate, most), min(seen.catch_up_rate, most)
        return replace(
            seen,
            rate=rate,
            catch_up_rate=catch_up,
            response=max(0.0, seen.response - self.constant),
            deployment=deployment,
        )

    def show_change(self, change: Reconfiguration) -> Reconfiguration:
        return NOTHING if change.delta == 0 else replace(change, node_type=self.places.index(change.node_type))

    def show_transition(self, transition: Transition) -> Transition | None:
        """None where it leads through what the policy cannot be shown."""
        if not (self.fits(transition.before.deployment) and self.fits(transition.after.deployment)):
            return None
        return Transition(self.show(transition.before), self.show_change(transition.done), self.show(transition.after))

    def show_transitions(self, transitions: Iterable[Transition]) -> list[Transition]:
        """Without those that lead through what the policy cannot be shown."""
        return [shown for shown in map(self.show_transition, transitions) if shown is not None]

    def name_change(self, change: Reconfiguration) -> Reconfiguration:
        """A policy's change in the driver's node types."""
        return NOTHING if change.delta == 0 else replace(change, node_type=self.places[change.node_type])

    def slowest(self, deployment: Deployment) -> NodeType:
        """The type of the worst replica."""
        present = [t for t, i in zip(self.task.types, self.places, strict=True) if deployment.replicas[i] > 0]
        return min(present, key=lambda t: t.speedup)


def make_node_view(objective: Objective, operator: str, nodes: Sequence[NodeType], k_max: int | None) -> NodeView:
    """BadInput where the objective says nothing that this driver could do."""
    whole = to_task(objective, operator)
    names = [node.name for node in nodes]
    types = tuple(t for t in whole.types if t.name in names)
    if not types:
        known = ", ".join(t.name for t in whole.types)
        raise BadInput(f"objective {objective.version} is of {known}, and the driver has {', '.join(names)}")
    places = tuple(names.index(t.name) for t in types)
    most = whole.k_max if k_max is None else min(whole.k_max, k_max)
    return NodeView(
        task=replace(whole, types=types, k_max=most, normaliser=whole.dearest),
        constant=objective.model.operators[operator].constant,
        places=places,
        strangers=tuple(i for i in range(len(names)) if i not in places),
    )
