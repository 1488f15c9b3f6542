"""Policy of one objective for one operator; its faults do not reach the driver.

The driver and the objective list node types each in their own order. A `NodeView` translates: a policy is shown those
that both have; what the driver does not have cannot be added, and what the objective lacks cannot be judged.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from scaler.agent.known_history import HistoryOffer, list_later
from scaler.guards.guard import ChangeHistory
from scaler.model.decision import name_alternative
from scaler.model.errors import BadInput
from scaler.model.joint_changes import PAYS_ALONE
from scaler.model.nodes import NOTHING, Deployment, NodeType, Reconfiguration, scale
from scaler.model.orders import Objective, to_task
from scaler.model.policy import Observation, Policy, Transition, build_policy
from scaler.model.task import Task
from scaler.policies import find_policy

MAX_RATE = 1e6  # times the highest rate: what is more is shown as this, for levels are whole numbers
MAX_LESSONS = 250  # in one slot: without numba a planner takes 20 ms and more for each


@dataclass(frozen=True, slots=True)
class NodeView:
    """Translation between the driver's node types and an objective's, for one operator."""

    task: Task
    constant: float
    places: tuple[int, ...]  # in the driver's list, of each of the task's node types

    @property
    def bound(self) -> float:
        """On the whole response time."""
        return self.task.bound + self.constant

    def fits(self, deployment: Deployment) -> bool:
        """Whether a policy may be shown this deployment: kernels number what lies within the bounds."""
        return 1 <= deployment.parallelism <= self.task.k_max and not self.find_unknown(deployment)

    def find_unknown(self, deployment: Deployment) -> list[int]:
        """Places of node types that replicas run on and the objective lacks."""
        return [i for i, count in enumerate(deployment.replicas) if count > 0 and i not in self.places]

    def show(self, seen: Observation) -> Observation:
        """As the policy sees it: the queueing part of the response time, its own node types."""
        most = MAX_RATE * self.task.highest_rate
        return replace(
            seen, rate=min(seen.rate, most), catch_up_rate=min(seen.catch_up_rate, most),
            response=max(0.0, seen.response - self.constant),
            deployment=Deployment(tuple(seen.deployment.replicas[i] for i in self.places)),
        )  # fmt: skip

    def show_transitions(self, transitions: Iterable[Transition]) -> list[Transition]:
        """Without those that lead through deployments that the policy cannot be shown."""
        return [
            Transition(self.show(one.before), self.show(one.after))
            for one in transitions
            if self.fits(one.before.deployment) and self.fits(one.after.deployment)
        ]

    def name_change(self, change: Reconfiguration) -> Reconfiguration:
        """A policy's change in the driver's node types."""
        return Reconfiguration(tuple(sorted((self.places[i], delta) for i, delta in change.changes)))

    def find_slowest(self, deployment: Deployment) -> int:
        """The number, among the task's types, of the worst replica's."""
        present = [number for number, i in enumerate(self.places) if deployment.replicas[i] > 0]
        return min(present, key=lambda number: self.task.types[number].speedup)


def make_node_view(objective: Objective, operator: str, nodes: Sequence[NodeType], k_max: int | None) -> NodeView:
    """BadInput where the objective says nothing that this driver could do."""
    whole = to_task(objective, operator)
    names = [node.name for node in nodes]
    types = tuple(t for t in whole.types if t.name in names)
    if not types:
        known = ", ".join(t.name for t in whole.types)
        raise BadInput(f"objective {objective.version} is of {known}, and the driver has {', '.join(names)}")
    limit = whole.k_max if k_max is None else min(whole.k_max, k_max)
    task = replace(whole, types=types, k_min=min(whole.k_min, limit), k_max=limit, normaliser=whole.dearest)
    constant = objective.model.operators[operator].constant
    return NodeView(task, constant, tuple(names.index(t.name) for t in types))


@dataclass(frozen=True, slots=True)
class ShadowState:
    """Where the deployment of a candidate would stand, had it led from the start."""

    deployment: Deployment
    history: ChangeHistory
    before: Observation | None = None  # in this world, in the slot before; None after a gap


@dataclass(slots=True)
class PolicyInstance:
    """The policy under one version of the objective; `fault` says why it cannot decide."""

    objective: Objective
    view: NodeView | None = None
    policy: Policy | None = None
    fault: str = ""
    shadow: ShadowState | None = None  # while it is a candidate that does not lead
    unlearned: deque[Transition] = field(default_factory=deque)  # the oldest first
    replays: deque[Transition] = field(default_factory=deque)  # known to it but for what depends on the objective
    history_s: float = 0.0  # seconds of the application's history that it, or what it inherits from, began with

    def propose(self, seen: Observation) -> Reconfiguration | None:
        """The policy's proposal in the driver's node types; None where it failed."""
        assert self.view is not None
        assert self.policy is not None
        if seen.deployment.parallelism < self.view.task.k_min:
            usual = max(self.view.places, key=lambda i: seen.deployment.replicas[i])
            return scale(usual, self.view.task.k_min - seen.deployment.parallelism)
        if seen.deployment.parallelism > self.view.task.k_max:
            slowest = self.view.places[self.view.find_slowest(seen.deployment)]
            excess = seen.deployment.parallelism - self.view.task.k_max
            return scale(slowest, -min(excess, seen.deployment.replicas[slowest]))
        try:
            return self.view.name_change(self.policy.decide(self.view.show(seen)))
        except Exception as error:  # a policy's fault is not the stream's
            self.fail(error)
            return None

    def propose_with_others(self, seen: Observation) -> Reconfiguration:
        """The change that it wants where other operators pay the pause; nothing where it cannot tell."""
        if self.view is None or self.policy is None or self.view.task.pause_share == 1.0:
            return NOTHING
        try:
            return self.view.name_change(self.policy.decide_with_others(self.view.show(seen)))
        except Exception as error:
            self.fail(error)
            return NOTHING

    def weigh(self, seen: Observation, change: Reconfiguration, alone: bool) -> tuple[int, float]:
        """What a change is to the slot, and its worth in units of the pause's price."""
        assert self.view is not None
        assert self.policy is not None
        inner = Reconfiguration(tuple(sorted((self.view.places.index(i), delta) for i, delta in change.changes)))
        try:
            return self.policy.weigh(self.view.show(seen), inner, alone)
        except Exception as error:
            self.fail(error)
            return PAYS_ALONE, math.inf

    def learn(self, transition: Transition | None) -> None:
        """Learn this after what is still unlearned; at most so much in one slot that the next is not delayed."""
        if self.fault or self.view is None or self.policy is None:
            self.unlearned.clear()
            self.replays.clear()
            return
        self.unlearned.extend([] if transition is None else [transition])
        lessons = min(MAX_LESSONS, len(self.unlearned))
        repeats = min(MAX_LESSONS - lessons, len(self.replays))
        try:
            for shown in self.view.show_transitions(self.unlearned.popleft() for _ in range(lessons)):
                self.policy.learn(shown)
            if repeats:
                self.policy.replay(self.view.show_transitions(self.replays.popleft() for _ in range(repeats)))
        except Exception as error:
            self.fail(error)

    def value(self, seen: Observation, names: Sequence[str]) -> dict[str, float]:
        """The value of each alternative by name; empty where the policy does not value them."""
        if self.policy is None or self.view is None or not self.view.fits(seen.deployment):
            return {}
        try:
            worth = self.policy.worth(self.view.show(seen))
            values = {self.view.name_change(change): float(value) for change, value in worth.items()}
        except Exception as error:
            self.fail(error)
            return {}
        return {name_alternative(change, names): v for change, v in values.items() if not math.isnan(v)}

    def match_nodes(self, nodes: Sequence[NodeType]) -> tuple[NodeType, ...]:
        """The driver's node types as the objective describes them, where it does."""
        described = {node.name: node for node in self.objective.nodes}
        return tuple(described.get(node.name, node) for node in nodes)

    def fail(self, error: Exception) -> None:
        what = str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"
        self.fault = f"policy {self.objective.policy!r} of objective {self.objective.version} failed ({what[:300]})"


def build_policy_instance(
    objective: Objective,
    operator: str,
    nodes: Sequence[NodeType],
    k_max: int | None,
    seed: int,
    kept: Iterable[Transition] = (),
    arrays: Mapping[str, NDArray[Any]] | None = None,
    source: PolicyInstance | None = None,
    offer: HistoryOffer | None = None,
) -> PolicyInstance:
    """Build the policy of an objective for one operator, with the driver's node types and limit of replicas.

    It goes on from `arrays`, its state in a checkpoint; learns slot by slot what was `kept` from before it came, the
    oldest first; and takes over the experience of `source` with the workload and the node types, if it can; or begins
    with the history that is offered, where that is longer than what the source has learned.
    """
    instance = PolicyInstance(objective)
    transitions = list(kept)
    try:
        instance.view = make_node_view(objective, operator, nodes, k_max)
        kind = find_policy(objective.policy)
        instance.policy = build_policy(kind, instance.view.task, seed, objective.model.options)
        if arrays is not None:
            instance.policy.load(arrays)
        learned = None if source is None else source.policy
        if offer is not None and offer.exceeds(learned, objective.policy) and offer.give(instance.policy, learned):
            assert offer.experience is not None
            instance.history_s = offer.experience.seconds
            transitions = list_later(transitions, offer.experience.until)
        elif source is not None and learned is not None and instance.policy.inherit(learned):
            instance.history_s = source.history_s
            known = max(0, len(transitions) - len(source.unlearned))
            instance.replays.extend(transitions[:known])
            transitions = transitions[known:]
    except Exception as error:
        instance.fail(error)
        return instance
    instance.unlearned.extend(transitions)
    return instance
