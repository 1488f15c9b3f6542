"""Write the decision of a slot that goes on record, and what a candidate objective would have decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from scaler.agent.decide import DecisionContext, DecisionDraft, decide, is_missing
from scaler.agent.policy_instance import NodeView, PolicyInstance, ShadowState
from scaler.guards.guard import record_slot
from scaler.model import decision as codes
from scaler.model.decision import (
    Decision,
    Objection,
    ShadowDecision,
    SlotFigures,
    Step,
    count_by_name,
    describe_change,
    list_changes,
    name_action,
)
from scaler.model.kernel import predict_response
from scaler.model.nodes import NOTHING, Deployment, NodeType, Reconfiguration
from scaler.model.policy import Observation, Transition

MAX_REASON = 1500  # characters


def write_decision(
    seen: Observation,
    draft: DecisionDraft,
    lead: PolicyInstance | None,
    shadow: ShadowDecision | None,
    nodes: Sequence[NodeType],
    target: Deployment | None,
    figures: SlotFigures,
) -> Decision:
    """The decision of a slot as it is recorded if everything decided is done."""
    names = [node.name for node in nodes]
    known = len(seen.deployment.replicas) == len(names)
    figures = replace(
        figures,
        utilisation=known_or_none(seen.utilisation),
        completeness=known_or_none(seen.completeness) if figures.completeness is None else figures.completeness,
        deployment=count_by_name(seen.deployment, names) if known else {},
        tokens=draft.tokens,
        history_s=None if lead is None or lead.history_s <= 0.0 else lead.history_s,
        target={} if target is None or len(target.replicas) != len(names) else count_by_name(target, names),
    )
    return Decision(
        time=seen.time,
        kind=draft.kind,
        reason=draft.reason[:MAX_REASON],
        code=draft.code,
        action=name_action(draft.change, names),
        proposed=list_changes(draft.proposed, names),
        objections=draft.objections,
        objective_version=None if lead is None else lead.objective.version,
        rate=None if math.isinf(seen.rate) else known_or_none(seen.rate),
        response=known_or_none(seen.response),
        bound=None if lead is None or lead.view is None else lead.view.bound,
        price=price(nodes, seen.deployment, lead) if known else None,
        seen=figures,
        alternatives={} if lead is None or draft.kind == codes.HELD else lead.value(draft.decided_on or seen, names),
        shadow=shadow,
    )


def conclude(step: Step, done: Reconfiguration, why: str, names: Sequence[str]) -> Decision:
    """The decision for the record, by what was done of it and, where that is not all, why.

    What was done in part is a change all the same: its kind stays, its action is what was done.
    """
    if done == step.change:
        return step.decision
    decided, did = describe_change(step.change, names), describe_change(done, names)
    because = f": {why[:400]}" if why else ""
    reason = f"{decided.capitalize()} was decided, and {did} was done{because}; {step.decision.reason}"
    objection = Objection(codes.ACTUATION, codes.NOT_ACTUATED, why[:400] or f"{did} was done")
    if done != NOTHING:
        return replace(
            step.decision,
            reason=reason,
            action=name_action(done, names),
            objections=(*step.decision.objections, objection),
        )
    return replace(
        step.decision, kind=codes.ACTUATION_FAILED, reason=reason, code=codes.NOT_ACTUATED, objections=(objection,)
    )


def price(nodes: Sequence[NodeType], deployment: Deployment, instance: PolicyInstance | None) -> float:
    """Per hour: the objective's prices, or the driver's own for node types that it does not know."""
    stated = {} if instance is None else {node.name: node.price for node in instance.objective.nodes}
    prices = [stated.get(node.name, node.price) for node in nodes]
    return sum(n * each for n, each in zip(deployment.replicas, prices, strict=True))


def known_or_none(value: float) -> float | None:
    return None if is_missing(value) else float(value)


def decide_in_shadow(
    context: DecisionContext, candidate: PolicyInstance, seen: Observation, nodes: Sequence[NodeType], gap_s: float
) -> ShadowDecision | None:
    """Decide one slot in the candidate's own deployment, which begins where the real one stands; None where it cannot.

    The same guards apply, with the candidate's own history of changes.
    """
    view, shadow = candidate.view, candidate.shadow
    if candidate.fault or view is None:
        return None
    if shadow is None or not view.fits(shadow.deployment):
        if not view.fits(seen.deployment):
            return None
        shadow = ShadowState(seen.deployment, context.history)
    predicted = predict_slot(view, shadow.deployment, seen)
    if shadow.before is not None:
        near = 0.0 < seen.time - shadow.before.time <= gap_s
        candidate.learn(Transition(shadow.before, predicted) if near else None)
    draft = None if candidate.fault else decide(replace(context, history=shadow.history), candidate, predicted)
    if draft is None:
        return None
    history = record_slot(shadow.history, seen.time, draft.proposed, draft.change)
    candidate.shadow = ShadowState(shadow.deployment.after(draft.change), history, predicted)
    return ShadowDecision(
        version=candidate.objective.version,
        change=list_changes(draft.change, context.names),
        action=name_action(draft.change, context.names),
        deployment=count_by_name(shadow.deployment, context.names),
        response=predicted.response,
        bound=view.bound,
        price=price(nodes, shadow.deployment, candidate),
        reason=draft.reason,
    )


def predict_slot(view: NodeView, deployment: Deployment, seen: Observation) -> Observation:
    """Predict the slot on another deployment, as its task models the operator, by the worst replica."""
    task, replicas = view.task, deployment.parallelism
    speed = task.types[view.find_slowest(deployment)].speedup
    response = float(predict_response(task, seen.rate, replicas, speed)) + view.constant
    utilisation = seen.rate / replicas * task.moments.mean / speed
    return replace(seen, utilisation=utilisation, response=response, deployment=deployment)
