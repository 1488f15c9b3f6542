"""Compute what a candidate objective that does not lead would have done in a slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scaler.agent.decide import DecisionContext, decide
from scaler.agent.policy_instance import PolicyInstance
from scaler.agent.record import price
from scaler.agent.shadow_run import Virtual, imagine
from scaler.guards.guard import record_slot
from scaler.model.decision import ShadowDecision, count_by_name, list_changes, name_action
from scaler.model.nodes import NodeType
from scaler.model.policy import Observation, Transition


def decide_in_shadow(
    context: DecisionContext, seat: PolicyInstance, seen: Observation, nodes: Sequence[NodeType], gap_s: float
) -> ShadowDecision | None:
    """One slot in the candidate's own deployment, which begins where the real one stands; None where it has no part.

    The same guards apply, with the candidate's own history of changes.
    """
    view = seat.view
    if seat.fault or view is None:
        return None
    virtual = seat.virtual
    if virtual is None or not view.fits(virtual.deployment):
        if not view.fits(seen.deployment):
            return None
        virtual = Virtual(seen.deployment, context.history)
    imagined = imagine(view, virtual.deployment, seen)
    before = virtual.before
    if before is not None:
        near = 0.0 < seen.time - before.time <= gap_s
        seat.learn(Transition(before, virtual.done, imagined) if near else None)
    draft = None if seat.fault else decide(replace(context, history=virtual.history), seat, imagined)
    if draft is None:
        return None
    history = record_slot(virtual.history, seen.time, draft.proposed, draft.change)
    seat.virtual = Virtual(virtual.deployment.after(draft.change), history, imagined, draft.change)
    return ShadowDecision(
        version=seat.objective.version,
        change=list_changes(draft.change, context.names),
        action=name_action(draft.change, context.names),
        deployment=count_by_name(virtual.deployment, context.names),
        response=imagined.response,
        bound=view.bound,
        price=price(nodes, virtual.deployment, seat),
        reason=draft.reason,
    )
