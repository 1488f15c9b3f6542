"""Write a drafted slot down as the decision that goes on record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from scaler.agent.decide import DecisionDraft, is_missing
from scaler.agent.policy_instance import PolicyInstance
from scaler.model.decision import (
    ACTUATION,
    ACTUATION_FAILED,
    HELD,
    NOT_ACTUATED,
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
from scaler.model.nodes import Deployment, NodeType, Reconfiguration
from scaler.model.policy import Observation

MAX_REASON = 1500  # characters


def write_decision(
    seen: Observation,
    draft: DecisionDraft,
    lead: PolicyInstance | None,
    shadow: ShadowDecision | None,
    nodes: Sequence[NodeType],
    asked: Deployment | None,
    figures: SlotFigures,
) -> Decision:
    """The slot for the record, as it is if all goes well."""
    names = [node.name for node in nodes]
    known = len(seen.deployment.replicas) == len(names)
    figures = replace(
        figures,
        utilisation=known_or_none(seen.utilisation),
        completeness=known_or_none(seen.completeness) if figures.completeness is None else figures.completeness,
        deployment=count_by_name(seen.deployment, names) if known else {},
        target={} if asked is None or len(asked.replicas) != len(names) else count_by_name(asked, names),
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
        alternatives={} if lead is None or draft.kind == HELD else lead.value(draft.decided_on or seen, names),
        shadow=shadow,
    )


def conclude(step: Step, done: Reconfiguration, why: str, names: Sequence[str]) -> Decision:
    """The decision as it goes on record, now that it is known what was done and, where that is not all, why."""
    if done == step.change:
        return step.decision
    decided, did = describe_change(step.change, names), describe_change(done, names)
    because = f": {why[:400]}" if why else ""
    reason = f"{decided.capitalize()} was decided, and {did} was done{because}; {step.decision.reason}"
    objection = Objection(ACTUATION, NOT_ACTUATED, why[:400] or f"{did} was done")
    return replace(step.decision, kind=ACTUATION_FAILED, reason=reason, code=NOT_ACTUATED, objections=(objection,))


def price(nodes: Sequence[NodeType], deployment: Deployment, instance: PolicyInstance | None) -> float:
    """Per hour: the objective's prices, or the driver's own for node types that it does not know."""
    stated = {} if instance is None else {node.name: node.price for node in instance.objective.nodes}
    prices = [stated.get(node.name, node.price) for node in nodes]
    return sum(n * each for n, each in zip(deployment.replicas, prices, strict=True))


def known_or_none(value: float) -> float | None:
    return None if is_missing(value) else float(value)
