"""Policy of one objective for one operator: it learns what was seen before, and its faults do not reach the driver."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from scaler.agent.node_view import NodeView, make_node_view
from scaler.agent.shadow_run import Virtual
from scaler.model.decision import name_alternative
from scaler.model.errors import BadInput
from scaler.model.nodes import NodeType, Reconfiguration
from scaler.model.orders import Objective
from scaler.model.policy import Observation, Policy, Transition, build_policy
from scaler.policies import find_policy

LESSONS = 250  # in one slot: without numba a planner takes 20 ms and more for each


@dataclass(slots=True)
class PolicyInstance:
    """What acts, or would act, under one version of the objective; `fault` says why it cannot."""

    objective: Objective
    view: NodeView | None = None
    policy: Policy | None = None
    fault: str = ""
    virtual: Virtual | None = None  # while it is a candidate that does not lead
    unlearned: deque[Transition] = field(default_factory=deque)  # the oldest first
    replays: deque[Transition] = field(default_factory=deque)  # known to it but for what depends on the objective

    def propose(self, seen: Observation) -> Reconfiguration | None:
        """What the policy wants, in the driver's node types; None where it failed."""
        assert self.view is not None
        assert self.policy is not None
        if seen.deployment.parallelism > self.view.task.k_max:
            worst = self.view.slowest(seen.deployment).name
            return Reconfiguration(-1, self.view.places[[t.name for t in self.view.task.types].index(worst)])
        try:
            return self.view.name_change(self.policy.decide(self.view.show(seen)))
        except Exception as error:  # a policy's fault is not the stream's
            self.break_down(error)
            return None

    def learn(self, transition: Transition | None) -> None:
        """Learn this after what is still to be learned: in one slot so much of it that the next is not held up."""
        if self.fault or self.view is None or self.policy is None:
            self.unlearned.clear()
            self.replays.clear()
            return
        self.unlearned.extend([] if transition is None else [transition])
        lessons = min(LESSONS, len(self.unlearned))
        repeats = min(LESSONS - lessons, len(self.replays))
        try:
            for shown in self.view.show_transitions(self.unlearned.popleft() for _ in range(lessons)):
                self.policy.learn(shown)
            if repeats:
                self.policy.replay(self.view.show_transitions(self.replays.popleft() for _ in range(repeats)))
        except Exception as error:
            self.break_down(error)

    def value(self, seen: Observation, names: Sequence[str]) -> dict[str, float]:
        """What each alternative is worth, by name; empty where the policy does not value them."""
        if self.policy is None or self.view is None or not self.view.fits(seen.deployment):
            return {}
        try:
            worth = self.policy.worth(self.view.show(seen))
            values = {self.view.name_change(change): float(value) for change, value in worth.items()}
        except Exception as error:
            self.break_down(error)
            return {}
        return {name_alternative(change, names): v for change, v in values.items() if not math.isnan(v)}

    def know_speeds(self, nodes: Sequence[NodeType]) -> tuple[NodeType, ...]:
        """The driver's node types as the objective knows them, where it does."""
        told = {node.name: node for node in self.objective.nodes}
        return tuple(told.get(node.name, node) for node in nodes)

    def break_down(self, error: Exception) -> None:
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
) -> PolicyInstance:
    """Build the policy of an objective for one operator.

    Args:
        objective: what it pursues.
        operator: its name.
        nodes: the driver's node types.
        k_max: the driver's own limit of replicas.
        seed: of whatever the policy draws at random.
        kept: transitions from before it came, the oldest first; it learns them slot by slot.
        arrays: its state in a checkpoint, from which it goes on.
        source: an instance whose experience of the workload and the node types it takes over, if it can.
    """
    instance = PolicyInstance(objective)
    transitions = list(kept)
    try:
        instance.view = make_node_view(objective, operator, nodes, k_max)
        kind = find_policy(objective.policy)
        instance.policy = build_policy(kind, instance.view.task, seed, objective.model.options)
        if arrays is not None:
            instance.policy.load(arrays)
        if source is not None and source.policy is not None and instance.policy.inherit(source.policy):
            known = max(0, len(transitions) - len(source.unlearned))
            instance.replays.extend(transitions[:known])
            transitions = transitions[known:]
    except Exception as error:
        instance.break_down(error)
        return instance
    instance.unlearned.extend(transitions)
    return instance
