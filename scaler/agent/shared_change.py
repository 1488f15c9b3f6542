"""Settle an operator's decision with the other agents of its application: joint changes, and the budget of changes."""

from __future__ import annotations

import math
from dataclasses import replace

from scaler.agent.decide import DecisionContext, DecisionDraft, Proposal, apply_guards
from scaler.agent.joint_slots import JointSlots, SlotOutcome
from scaler.agent.policy_instance import PolicyInstance
from scaler.model import decision as codes
from scaler.model.change_budget import ChangeBudget
from scaler.model.decision import Objection, describe_change
from scaler.model.joint_changes import AVERTS, NO_TOKEN, NO_WISH, PAYS_ALONE, WORTH_LESS
from scaler.model.nodes import NOTHING
from scaler.model.policy import Observation

REQUIRED = (codes.OVER_LIMIT, codes.UNDER_LIMIT)  # changes that limits call for, which no budget may hold up


def settle_change(
    board: JointSlots,
    context: DecisionContext,
    draft: DecisionDraft,
    lead: PolicyInstance | None,
    seen: Observation,
    slot_s: float,
) -> DecisionDraft:
    """The decision once the application's other operators have decided on the same slot."""
    budget = None if context.orders is None else context.orders.change_budget
    joint = lead is not None and lead.view is not None and lead.view.task.pause_share < 1.0
    if budget is None and not joint:
        return draft
    decided_on = draft.decided_on or seen
    shared, wish = find_wish(context, draft, lead, decided_on)
    result = board.settle(context.operator, seen.time, slot_s, wish, budget)
    tokens = None if budget is None else result.tokens
    if wish[0] == NO_WISH or result.is_made:
        return replace(shared, tokens=tokens, decided_on=draft.decided_on)
    if result.outcome == WORTH_LESS or budget is None:
        what = describe_change(shared.change, context.names)
        said = f"{what} and what other operators want are together worth {result.worth:.2g} of a pause, and not made"
        return replace(draft, reason=f"{draft.reason}; {said}", tokens=tokens)
    objection = object_to_change(budget, result)
    reason = f"{shared.reason.removesuffix(', and no guard objected')}, which was blocked by {objection}"
    objections = (objection, *shared.objections)
    blocked = replace(shared, kind=codes.BLOCKED, code=objection.code, change=NOTHING, objections=objections)
    return replace(blocked, reason=reason, tokens=tokens, decided_on=draft.decided_on)


def find_wish(
    context: DecisionContext, draft: DecisionDraft, lead: PolicyInstance | None, seen: Observation
) -> tuple[DecisionDraft, tuple[int, float]]:
    """The decision with what it is to the slot: one that pays alone, else one that may pay with others'."""
    if draft.kind == codes.SCALED:
        if draft.code in REQUIRED:
            return draft, (AVERTS, math.inf)
        if lead is None or draft.code != codes.PROPOSED:
            return draft, (PAYS_ALONE if draft.change.removed else AVERTS, math.inf)
        return draft, lead.weigh(seen, draft.change, True)
    if draft.kind == codes.NO_CHANGE and draft.code == codes.PROPOSED and lead is not None and lead.view is not None:
        change, task = lead.propose_with_others(seen), lead.view.task
        if change != NOTHING:
            who = f"{lead.objective.policy} under objective {lead.objective.version}, with other operators,"
            proposal = Proposal(change, who, codes.PROPOSED, lead.view.bound, task.k_max, task.k_min)
            shared = apply_guards(context, seen, proposal)
            if shared.kind == codes.SCALED:
                return shared, lead.weigh(seen, shared.change, False)
    return draft, (NO_WISH, 0.0)


def object_to_change(budget: ChangeBudget, result: SlotOutcome) -> Objection:
    """Why the budget does not allow a change, with what is left of it."""
    left = f"{result.tokens:.2f} of {budget.depth:g} tokens"
    fills = f"it fills by {budget.per_slot:.3g} a slot"
    if result.outcome == NO_TOKEN:
        owed = f", of which {result.owed:.3g} are owed" if result.owed else ""
        message = f"the application's budget of changes has {left} and a change takes one; {fills}{owed}"
    else:
        message = (
            f"the application's budget of changes has {left}, for which changes must be worth {result.needed:.2f} of a "
            f"pause, and are worth {result.worth:.2f}; {fills}"
        )
    data = {"tokens": result.tokens, "owed": result.owed, **budget.to_json()}
    data |= {"worth": result.worth, "needed": result.needed} if math.isfinite(result.worth) else {}
    return Objection(codes.LIMIT, codes.CHANGE_BUDGET, message, data)
