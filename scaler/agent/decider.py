"""Decide for one operator, slot by slot, under the orders of the moment.

Guards remember what was done to the operator, whatever the objective; policies learn what deployments really were, so
that a replica which came late, or never, is learned as it was. Without an objective the operator is held, and after
`away_s` the threshold policy takes over; the last good orders, however old, are an objective.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from scaler.agent.awaited import describe_pending, expect_arrivals
from scaler.agent.checkpoint import DeciderMemory, pack, unpack
from scaler.agent.decide import (
    DecisionContext,
    DecisionDraft,
    Proposal,
    apply_guards,
    decide,
    find_gap,
    hold,
    hold_unseen,
)
from scaler.agent.fallback import fall_back
from scaler.agent.policy_instance import PolicyInstance, build_policy_instance
from scaler.agent.record import write_decision
from scaler.agent.shadow_decision import decide_in_shadow
from scaler.guards.guard import ChangeHistory, record_slot
from scaler.model.decision import (
    DEPLOYMENT_UNKNOWN,
    FALLBACK,
    HELD,
    LIMIT,
    METRICS,
    NO_LIMIT,
    NO_OBJECTIVE,
    NO_ORDERS,
    NODE_TYPE_UNKNOWN,
    ORDERS,
    PENDING,
    POLICY,
    POLICY_FAILED,
    Objection,
    ShadowDecision,
    SlotFigures,
    Step,
)
from scaler.model.errors import BadInput
from scaler.model.nodes import NOTHING, Deployment, NodeType, Reconfiguration
from scaler.model.orders import Objective, Orders
from scaler.model.policy import Arrays, Observation, Transition

AWAY_S = 6 * 3600.0  # without anything to pursue, after which the threshold policy takes over
COMPLETE = 0.8  # share of the metrics that must have arrived
KEPT = 2000  # transitions, for policies to come
GAP = 1.5  # slots between two observations, beyond which the one did not lead to the other


class Decider:
    """Decides for one operator under the orders of the moment; it has no thread, no clock, no connection.

    `nodes` are the driver's node types in the order of `Observation.deployment`; `k_max` is the driver's own limit, and
    holds beside the objective's. Not to be used by two threads at a time.
    """

    def __init__(
        self,
        operator: str,
        nodes: Sequence[NodeType],
        k_max: int | None = None,
        seed: int = 0,
        slot_s: float = 60.0,  # until orders tell
        away_s: float = AWAY_S,
        complete: float = COMPLETE,
        kept: int = KEPT,
        again_s: float = 300.0,  # before a change that failed is asked for again
        guards: Mapping[str, Any] | None = None,  # the driver's own, with or without orders
    ) -> None:
        self.operator, self.nodes, self.k_max, self.seed = operator, tuple(nodes), k_max, seed
        self.names = tuple(node.name for node in nodes)
        if not nodes or len(set(self.names)) < len(nodes) or (k_max is not None and k_max < 1):
            raise BadInput(f"operator {operator!r} needs node types with a name each, and a k_max of at least 1")
        self.slot_s, self.away_s, self.complete, self.again_s = slot_s, away_s, complete, again_s
        self.guards = dict(guards or {})
        self.instances: dict[int, PolicyInstance] = {}
        self.last: PolicyInstance | None = None  # that led last, for its limits
        self.kept: deque[Transition] = deque(maxlen=kept)
        self.history = ChangeHistory()
        self.failed: dict[Reconfiguration, float] = {}  # when each change failed last
        self.latest = -math.inf  # start of the slot that was seen last
        self.before: Observation | None = None  # in the slot before, if it was seen whole
        self.pending: Step | None = None  # that nobody has reported on
        self.since: float | None = None  # there is nothing to pursue

    def step(
        self,
        observation: Observation,
        orders: Orders | None,
        now: float,
        asked: Deployment | None = None,
        figures: SlotFigures | None = None,
        no_scale_in: Objection | None = None,
        barred: Mapping[str, Objection] | None = None,
    ) -> Step:
        """Decide about a slot; nan is a rate, a response time or a utilisation that is not known.

        `observation.time` is the start of the slot. `asked` is the deployment once everything asked for has come: it is
        what is decided about, and nothing is taken away before it is there. `no_scale_in` says why nothing is to be
        taken away otherwise (a backlog), `barred` why none of a node type, by name, is to be added. `figures` go into
        the record.
        """
        if self.pending is not None:
            self.actuated(self.pending, NOTHING)
        self.latest = observation.time
        self.follow(orders)
        gap = find_gap(observation, len(self.names), self.complete)
        awaited = None if asked == observation.deployment else asked
        shadow = None
        if gap is not None:
            self.forget()
        else:
            shadow = self.teach(observation, orders, self.find_lead(orders, observation)[0])
        lead, why = self.find_lead(orders, observation)  # anew: one may have failed while it learned
        self.follow_lead(lead, now)
        context = replace(
            self.make_context(orders), failed=self.failed, retry_s=self.again_s, no_scale_in=no_scale_in,
            barred=barred or {},
        )  # fmt: skip
        draft = (
            hold_unseen(gap, no_scale_in)
            if gap is not None
            else self.draft(context, observation, now, lead, why, awaited)
        )
        if lead is not None and lead.fault:
            lead = None
        decision = write_decision(observation, draft, lead, shadow, self.nodes, asked, figures or SlotFigures())
        self.pending = Step(decision, draft.change, draft.proposed)
        return self.pending

    def actuated(self, step: Step, done: Reconfiguration) -> None:
        """Note what was done about a step: before the next `step`, which else takes it that nothing was done.

        And once more, at any time, if what was done turns out not to last (a replica that never arrived): `done` is
        then what remained of it.
        """
        decision, change = step.decision, step.change
        if self.pending == step:
            self.pending = None
            if decision.kind != HELD or done.delta != 0:
                self.history = record_slot(self.history, decision.time, step.proposed, done)
        if done == change:
            self.failed.pop(change, None)
        elif change.delta != 0:
            self.failed[change] = max(decision.time, self.latest)

    def follow(self, orders: Orders | None) -> None:
        """Have a instance for each objective of the orders, and for no other; without orders, those that there are."""
        if orders is None:
            return
        self.slot_s = orders.slot_s
        wanted: dict[int, Objective] = {}
        if orders.candidate is not None:
            wanted[orders.candidate.objective.version] = orders.candidate.objective
        if orders.objective is not None:
            wanted[orders.objective.version] = orders.objective
        instances = {}
        for version, objective in wanted.items():
            instance = self.instances.get(version)
            if instance is None or instance.objective != objective:  # a restored manager may use a version twice
                instance = build_policy_instance(
                    objective, self.operator, self.nodes, self.k_max, self.seed, self.kept,
                    source=self.find_source(objective),
                )  # fmt: skip
            instances[version] = instance
        self.instances = instances

    def find_source(self, objective: Objective) -> PolicyInstance | None:
        """The instance of the same policy that knows the operator best: the one that led last, if it can be."""
        known = [self.last, *self.instances.values()]
        fits = [
            one for one in known
            if one is not None and not one.fault and one.virtual is None and one.objective.policy == objective.policy
        ]  # fmt: skip
        return fits[0] if fits else None

    def make_context(self, orders: Orders | None) -> DecisionContext:
        return DecisionContext(self.operator, self.names, orders, self.history, self.guards)

    def find_lead(self, orders: Orders | None, seen: Observation) -> tuple[PolicyInstance | None, Objection | None]:
        """Under which objective the operator acts in this slot, or why under none."""
        if orders is None:
            return None, Objection(ORDERS, NO_ORDERS, "no orders have come")
        candidate, found = orders.candidate, []
        if candidate is not None and candidate.leads(self.operator, seen.time):
            found.append(candidate.objective)
        if orders.objective is not None:
            found.append(orders.objective)
        why: Objection | None = Objection(ORDERS, NO_OBJECTIVE, "the manager has set no objective")
        for objective in found:
            instance = self.instances[objective.version]
            why = self.find_fault(instance, seen)
            if why is None:
                return instance, None
        return None, why

    def find_fault(self, instance: PolicyInstance, seen: Observation) -> Objection | None:
        """Why a instance cannot decide about this observation."""
        if instance.fault:
            return Objection(POLICY, POLICY_FAILED, instance.fault)
        if instance.view is None or len(seen.deployment.replicas) != len(self.names):
            return None
        unknown = [self.names[i] for i in instance.view.unknown(seen.deployment)]
        if not unknown:
            return None
        message = f"replicas run on {', '.join(unknown)}, which objective {instance.objective.version} does not know"
        return Objection(POLICY, NODE_TYPE_UNKNOWN, message, {"node_types": unknown})

    def forget(self) -> None:
        """What comes after a slot that was not seen did not follow from what was before it."""
        self.before = None
        for instance in self.instances.values():
            instance.virtual = None if instance.virtual is None else replace(instance.virtual, before=None)

    def teach(self, seen: Observation, orders: Orders | None, lead: PolicyInstance | None) -> ShadowDecision | None:
        """Let every policy learn what came of the last slot; what a candidate beside the lead would do now."""
        transition = self.connect(seen)
        if transition is not None:
            self.kept.append(transition)
        self.before = seen
        beside = self.find_candidate(orders, lead)
        for instance in self.instances.values():
            if instance is not beside:
                instance.virtual = None
            if instance.virtual is None:
                instance.learn(transition)
        if beside is None:
            return None
        return decide_in_shadow(self.make_context(orders), beside, seen, self.nodes, GAP * self.slot_s)

    def find_candidate(self, orders: Orders | None, lead: PolicyInstance | None) -> PolicyInstance | None:
        """The candidate whose shadow decisions are to be computed."""
        if orders is None or orders.candidate is None:
            return None
        instance = self.instances[orders.candidate.objective.version]
        full = None if orders.objective is None else orders.objective.version
        return None if instance is lead or instance.objective.version == full else instance

    def connect(self, seen: Observation) -> Transition | None:
        """What led from the slot before to this one; None where that cannot be told."""
        before = self.before
        if before is None or not 0.0 < seen.time - before.time <= GAP * self.slot_s:
            return None
        steps = [a - b for a, b in zip(seen.deployment.replicas, before.deployment.replicas, strict=True)]
        if sum(map(abs, steps)) > 1:
            return None  # several at a time is nothing that a policy does
        done = next((Reconfiguration(delta, i) for i, delta in enumerate(steps) if delta), NOTHING)
        return Transition(before, done, seen)

    def follow_lead(self, lead: PolicyInstance | None, now: float) -> None:
        """Note who leads, or since when nobody does."""
        if lead is not None:
            self.last, self.since = lead, None
        else:
            self.since = now if self.since is None else min(self.since, now)

    def draft(
        self,
        context: DecisionContext,
        seen: Observation,
        now: float,
        lead: PolicyInstance | None,
        why: Objection | None,
        awaited: Deployment | None,
    ) -> DecisionDraft:
        """What to do about a slot of which enough is known."""
        pending = None
        if awaited is not None:
            if len(awaited.replicas) != len(self.names):
                message = "what was asked for is on its way, and is not known by node type"
                return hold(Objection(METRICS, DEPLOYMENT_UNKNOWN, message))
            message = f"what was asked for is on its way ({describe_pending(seen.deployment, awaited, self.names)})"
            pending = Objection(LIMIT, PENDING, message)
            context = replace(context, no_scale_in=pending)
            seen = expect_arrivals(seen, awaited, self.nodes if lead is None else lead.know_speeds(self.nodes))
        draft = None if lead is None else decide(context, lead, seen)
        if draft is None:
            fault = why if lead is None else Objection(POLICY, POLICY_FAILED, lead.fault)
            assert fault is not None
            draft = self.do_without(context, seen, now, fault)
        said = draft.reason if pending is None or pending in draft.objections else f"{draft.reason}; {pending.message}"
        return replace(draft, reason=said, decided_on=seen)

    def do_without(self, context: DecisionContext, seen: Observation, now: float, why: Objection) -> DecisionDraft:
        """Hold, and after a while let the threshold policy decide."""
        self.since = now if self.since is None else self.since
        passed, limit = (now - self.since) / 3600.0, self.away_s / 3600.0
        view = None if self.last is None else self.last.view
        limits = [k for k in (self.k_max, None if view is None else view.task.k_max) if k is not None]
        said = why.message
        if passed < limit:
            return hold(why, f"{said}; after {limit:.3g} h without an objective the threshold policy takes over")
        if not limits:
            message = f"{said}, and no limit on the number of replicas is known to go on with"
            return hold(Objection(LIMIT, NO_LIMIT, message))
        who = f"for {passed:.3g} h there has been nothing to pursue ({said}), so that the threshold policy decides: it"
        try:
            proposed = fall_back(seen, self.nodes, min(limits), view)
        except BadInput as error:
            message = f"{said}, and the threshold policy cannot decide ({error})"
            return hold(Objection(POLICY, POLICY_FAILED, message))
        return apply_guards(context, seen, Proposal(proposed, who, FALLBACK, None, min(limits)))

    def save(self) -> Arrays:
        """All that is known, as arrays by dotted name (fit for numpy.savez)."""
        own = (self.history, self.failed, self.kept, self.before, self.pending, self.since, self.latest)
        return pack(DeciderMemory(self.names, *own), self.instances, self.last)

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint, or refuse it with BadInput and stay as it was."""
        memory, instances, last = unpack(arrays, self.operator, self.nodes, self.k_max, self.seed)
        self.history, self.failed, self.since = memory.history, dict(memory.failed), memory.since
        self.kept = deque(memory.kept, maxlen=self.kept.maxlen)
        self.before, self.pending, self.latest = memory.before, memory.pending, memory.latest
        self.instances, self.last = instances, last
