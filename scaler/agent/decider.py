"""Decide for one operator, slot by slot, under the orders of the moment.

Guards remember what was done to the operator, whatever the objective; policies learn what deployments really were, so
that a replica that came late, or never, is learned as it was. Without an objective the operator is held, and after
`fallback_s` the threshold policy takes over; the last good orders, however old, are an objective.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from scaler.agent.checkpoint import DeciderMemory, pack, unpack
from scaler.agent.decide import (
    DecisionContext,
    DecisionDraft,
    Proposal,
    apply_guards,
    decide,
    fall_back,
    find_gap,
    find_removal_objection,
    hold,
    hold_unseen,
    list_guard_tables,
)
from scaler.agent.joint_slots import JointSlots
from scaler.agent.known_history import HistoryOffer
from scaler.agent.pending import describe_pending, expect_arrivals
from scaler.agent.policy_instance import PolicyInstance, build_policy_instance
from scaler.agent.record import decide_in_shadow, write_decision
from scaler.agent.shared_change import settle_change
from scaler.guards import find_bounds
from scaler.guards.deployments import Span
from scaler.guards.guard import record_slot
from scaler.model import decision as codes
from scaler.model.decision import Objection, ShadowDecision, SlotFigures, Step
from scaler.model.errors import BadInput
from scaler.model.nodes import NOTHING, Deployment, NodeType, Reconfiguration
from scaler.model.orders import Objective, Orders
from scaler.model.policy import Arrays, Observation, Transition

FALLBACK_S = 6 * 3600.0  # without an objective, after which the threshold policy takes over
MIN_COMPLETENESS = 0.8  # share of the metrics that must have arrived
MAX_TRANSITIONS = 2000  # kept for policies to come
GAP = 1.5  # slots between two observations, beyond which the one did not lead to the other


class Decider:
    """Decide for one operator; it has no thread, no clock, no connection, and is not for two threads at a time.

    `nodes` are the driver's node types in the order of `Observation.deployment`; `k_max` is the driver's own limit, and
    holds beside the objective's.
    """

    def __init__(
        self,
        operator: str,
        nodes: Sequence[NodeType],
        k_max: int | None = None,
        seed: int = 0,
        slot_s: float = 60.0,  # until orders come
        fallback_s: float = FALLBACK_S,
        complete: float = MIN_COMPLETENESS,
        kept: int = MAX_TRANSITIONS,
        retry_s: float = 300.0,  # before a change that failed is ordered again
        guards: Mapping[str, Any] | None = None,  # the driver's own, with or without orders
        board: JointSlots | None = None,  # of all agents of the application in this driver
    ) -> None:
        self.operator, self.nodes, self.k_max, self.seed = operator, tuple(nodes), k_max, seed
        self.names = tuple(node.name for node in nodes)
        if not nodes or len(set(self.names)) < len(nodes) or (k_max is not None and k_max < 1):
            raise BadInput(f"operator {operator!r} needs node types with a name each, and a k_max of at least 1")
        self.slot_s, self.fallback_s, self.complete, self.retry_s = slot_s, fallback_s, complete, retry_s
        self.guards, self.board = dict(guards or {}), board or JointSlots()
        self.instances: dict[int, PolicyInstance] = {}  # by version of the objective
        self.last: PolicyInstance | None = None  # that led last, for its limits
        self.memory = DeciderMemory(deque(maxlen=kept))
        self.offer = HistoryOffer()

    def step(
        self,
        observation: Observation,
        orders: Orders | None,
        now: float,
        target: Deployment | None = None,  # once all pending replicas serve: decided about, and not scaled in before
        figures: SlotFigures | None = None,  # more of the slot, for the record
        no_scale_in: Objection | None = None,  # why nothing is to be removed otherwise (a backlog)
        barred: Mapping[str, Objection] | None = None,  # why no replica is to be added, by node type
    ) -> Step:
        """Decide a slot that started at the observation's `time`, in which NaN is an unknown figure."""
        if self.memory.pending is not None:
            self.actuated(self.memory.pending, NOTHING)
        self.memory.latest = observation.time
        self.update_instances(orders)
        gap = find_gap(observation, len(self.names), self.complete)
        pending = None if target == observation.deployment else target
        shadow = None
        if gap is not None:
            self.break_sequence()
        else:
            shadow = self.learn(observation, orders, self.find_lead(orders, observation)[0])
        lead, why = self.find_lead(orders, observation)  # anew: one may have failed while it learned
        self.record_lead(lead, now)
        context = DecisionContext(
            self.operator, self.names, orders, self.memory.history, self.guards, self.memory.failed, self.retry_s,
            no_scale_in, barred or {},
        )  # fmt: skip
        if gap is not None:
            draft = hold_unseen(gap, no_scale_in)
        else:
            draft = self.draft(context, observation, now, lead, why, pending)
        draft = settle_change(self.board, context, draft, lead, observation, self.slot_s)
        if lead is not None and lead.fault:
            lead = None
        figures = figures or SlotFigures()
        figures = replace(figures, notes=(*figures.notes, *self.offer.take_notes()))
        decision = write_decision(observation, draft, lead, shadow, self.nodes, target, figures)
        self.memory.pending = step = Step(decision, draft.change, draft.proposed)
        return step

    def actuated(self, step: Step, done: Reconfiguration) -> None:
        """Record what was done about a step; a next `step` without this assumes that nothing was done.

        And once more, at any time, where what was done did not last (a replica that never arrived): `done` is then what
        remained of it.
        """
        decision, change, memory = step.decision, step.change, self.memory
        if memory.pending == step:
            memory.pending = None
            if decision.kind != codes.HELD or done != NOTHING:
                memory.history = record_slot(memory.history, decision.time, step.proposed, done)
        carried_out = dict(done.changes)
        for node_type, delta in change.changes:
            what = (node_type, delta > 0)
            if carried_out.get(node_type) == delta:
                memory.failed.pop(what, None)
            elif delta > 0 or done.added == change.added:  # else its removal was not tried: it waited for what is added
                memory.failed[what] = max(decision.time, memory.latest)

    def update_instances(self, orders: Orders | None) -> None:
        """Have an instance for each objective of the orders, and for no other; without orders, those there are stay."""
        if orders is None:
            return
        self.slot_s = orders.slot_s
        self.offer.read(orders.experience.get(self.operator), orders.slot_s)
        wanted = [] if orders.candidate is None else [orders.candidate.objective]
        wanted += [] if orders.objective is None else [orders.objective]
        instances = {}
        for objective in {one.version: one for one in wanted}.values():
            instance = self.instances.get(objective.version)
            if instance is None or instance.objective != objective:  # a restored manager may use a version twice
                instance = self.build_instance(objective, self.find_source(objective))
            elif not instance.fault and self.offer.exceeds(instance.policy, objective.policy):
                instance = self.renew_instance(instance)
            instances[objective.version] = instance
        self.instances = instances

    def build_instance(self, objective: Objective, source: PolicyInstance | None) -> PolicyInstance:
        return build_policy_instance(
            objective, self.operator, self.nodes, self.k_max, self.seed, self.memory.transitions, source=source,
            offer=self.offer,
        )  # fmt: skip

    def renew_instance(self, instance: PolicyInstance) -> PolicyInstance:
        """The instance begun anew with the history that is offered; as it is where that history is of no use."""
        renewed = self.build_instance(instance.objective, instance)
        if renewed.fault:
            self.offer.refuse(BadInput(renewed.fault))
        return instance if self.offer.experience is None else renewed

    def find_source(self, objective: Objective) -> PolicyInstance | None:
        """The instance of the same policy that has learned the operator best: the one that led last, if it can be."""
        for one in (self.last, *self.instances.values()):
            if one is not None and not one.fault and one.shadow is None and one.objective.policy == objective.policy:
                return one
        return None

    def find_lead(self, orders: Orders | None, seen: Observation) -> tuple[PolicyInstance | None, Objection | None]:
        """Under which objective the operator acts in this slot, or why under none."""
        if orders is None:
            return None, Objection(codes.ORDERS, codes.NO_ORDERS, "no orders have come")
        candidate, found = orders.candidate, []
        if candidate is not None and candidate.leads(self.operator, seen.time):
            found.append(candidate.objective)
        if orders.objective is not None:
            found.append(orders.objective)
        why: Objection | None = Objection(codes.ORDERS, codes.NO_OBJECTIVE, "the manager has set no objective")
        for objective in found:
            instance = self.instances[objective.version]
            why = self.find_fault(instance, seen)
            if why is None:
                return instance, None
        return None, why

    def find_fault(self, instance: PolicyInstance, seen: Observation) -> Objection | None:
        """Why a instance cannot decide about this observation."""
        if instance.fault:
            return Objection(codes.POLICY, codes.POLICY_FAILED, instance.fault)
        if instance.view is None or len(seen.deployment.replicas) != len(self.names):
            return None
        unknown = [self.names[i] for i in instance.view.find_unknown(seen.deployment)]
        if not unknown:
            return None
        message = f"replicas run on {', '.join(unknown)}, which objective {instance.objective.version} does not know"
        return Objection(codes.POLICY, codes.NODE_TYPE_UNKNOWN, message, {"node_types": unknown})

    def break_sequence(self) -> None:
        """A slot that was not seen: what comes after it did not follow from what was before it."""
        self.memory.before = None
        for instance in self.instances.values():
            instance.shadow = None if instance.shadow is None else replace(instance.shadow, before=None)

    def learn(self, seen: Observation, orders: Orders | None, lead: PolicyInstance | None) -> ShadowDecision | None:
        """Let every policy learn the last slot's transition; decide for a candidate that does not lead."""
        transition = self.connect(seen)
        if transition is not None:
            self.memory.transitions.append(transition)
        self.memory.before = seen
        beside = None  # the candidate whose shadow decisions are to be computed
        if orders is not None and orders.candidate is not None:
            candidate = orders.candidate.objective.version
            full = None if orders.objective is None else orders.objective.version
            beside = None if candidate == full else self.instances[candidate]
        beside = None if beside is lead else beside
        for instance in self.instances.values():
            if instance is not beside:
                instance.shadow = None
            if instance.shadow is None:
                instance.learn(transition)
        if beside is None:
            return None
        return decide_in_shadow(self.make_context(orders), beside, seen, self.nodes, GAP * self.slot_s)

    def connect(self, seen: Observation) -> Transition | None:
        """The transition from the slot before to this one; None where one of them did not lead to the other."""
        before = self.memory.before
        if before is None or not 0.0 < seen.time - before.time <= GAP * self.slot_s:
            return None
        return Transition(before, seen)

    def record_lead(self, lead: PolicyInstance | None, now: float) -> None:
        """Record which instance leads, or since when none does."""
        since = self.memory.leaderless_since
        if lead is not None:
            self.last, self.memory.leaderless_since = lead, None
        else:
            self.memory.leaderless_since = now if since is None else min(since, now)

    def draft(
        self,
        context: DecisionContext,
        seen: Observation,
        now: float,
        lead: PolicyInstance | None,
        why: Objection | None,
        pending: Deployment | None,
    ) -> DecisionDraft:
        """Decide about a slot of which enough is known, on the deployment once pending replicas serve."""
        wait = None
        if pending is not None:
            if len(pending.replicas) != len(self.names):
                message = "ordered replicas are pending, and are not known by node type"
                return hold(Objection(codes.METRICS, codes.DEPLOYMENT_UNKNOWN, message))
            message = f"ordered replicas are pending ({describe_pending(seen.deployment, pending, self.names)})"
            wait = Objection(codes.LIMIT, codes.PENDING, message)
            context = replace(context, no_scale_in=wait)
            seen = expect_arrivals(seen, pending, self.nodes if lead is None else lead.match_nodes(self.nodes))
        draft = None if lead is None else decide(context, lead, seen)
        if draft is None:
            fault = why if lead is None else Objection(codes.POLICY, codes.POLICY_FAILED, lead.fault)
            assert fault is not None
            draft = self.decide_without(context, seen, now, fault)
        stated = wait is None or any(one.code == wait.code for one in draft.objections)
        reason = draft.reason if stated or wait is None else f"{draft.reason}; {wait.message}"
        return replace(draft, reason=reason, decided_on=seen)

    def decide_without(self, context: DecisionContext, seen: Observation, now: float, why: Objection) -> DecisionDraft:
        """Hold, and after a while let the threshold policy decide."""
        since = self.memory.leaderless_since
        since = self.memory.leaderless_since = now if since is None else since
        passed, limit = (now - since) / 3600.0, self.fallback_s / 3600.0
        view = None if self.last is None else self.last.view
        limits = [k for k in (self.k_max, None if view is None else view.task.k_max) if k is not None]
        said = why.message
        if passed < limit:
            return hold(why, f"{said}; after {limit:.3g} h without an objective the threshold policy takes over")
        if not limits:
            message = f"{said}, and no limit on the number of replicas is known to go on with"
            return hold(Objection(codes.LIMIT, codes.NO_LIMIT, message))
        who = f"for {passed:.3g} h there has been nothing to pursue ({said}), so that the threshold policy decides: it"
        try:
            proposed = fall_back(seen, self.nodes, min(limits), view)
        except BadInput as error:
            message = f"{said}, and the threshold policy cannot decide ({error})"
            return hold(Objection(codes.POLICY, codes.POLICY_FAILED, message))
        return apply_guards(context, seen, Proposal(proposed, who, codes.FALLBACK, None, min(limits)))

    def make_context(self, orders: Orders | None) -> DecisionContext:
        return DecisionContext(self.operator, self.names, orders, self.memory.history, self.guards)

    def find_limits(self, orders: Orders | None, time: float) -> Span:
        """Replicas in all that the objective, the driver and bounds allow; BadInput where bounds cannot be read."""
        tables, names = list_guard_tables(self.make_context(orders))
        spans = [find_bounds(tables, names)]
        led = None if orders is None else orders.find_led(self.operator, time)
        model = None if led is None else led.model.operators.get(self.operator)
        if model is not None:
            spans.append(Span(model.k_min, model.k_max))
        elif self.last is not None and self.last.view is not None:
            spans.append(Span(self.last.view.task.k_min, self.last.view.task.k_max))
        if self.k_max is not None:
            spans.append(Span(1, self.k_max))
        most = min(span.most for span in spans)
        return Span(min(most, max(1, *(span.least for span in spans))), most)

    def find_removal_objection(
        self, orders: Orders | None, time: float, deployment: Deployment, removal: Reconfiguration
    ) -> Objection | None:
        """Why what a change still has to remove is not to be removed any more."""
        seen = Observation(time, math.nan, math.nan, math.nan, deployment)
        return find_removal_objection(self.make_context(orders), seen, removal)

    def save(self) -> Arrays:
        """Everything remembered, as arrays by dotted name (fit for numpy.savez)."""
        return pack(self.names, self.memory, self.instances, self.last) | self.board.save()

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint, or refuse it with BadInput and stay as it was."""
        kept = self.memory.transitions.maxlen
        try:
            loaded = unpack(arrays, self.operator, self.nodes, self.k_max, self.seed, kept)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(
                f"the checkpoint of operator {self.operator!r} cannot be read ({error!r}); begin without it"
            ) from error
        self.memory, self.instances, self.last = loaded
        self.board.load(arrays)
