"""A candidate that does not lead in; what it would have done in this slot, as it goes into the decision, out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler.agent.policy_instance import PolicyInstance
from scaler.agent.record import price
from scaler.agent.ruling import Court, judge
from scaler.agent.shadow_run import Virtual, imagine
from scaler.guards.change_history import enter
from scaler.model.decision import count_by_name, name_action
from scaler.model.nodes import NodeType
from scaler.model.policy import Observation, Transition


def rehearse(
    court: Court, seat: PolicyInstance, seen: Observation, nodes: Sequence[NodeType], gap_s: float
) -> dict[str, Any] | None:
    """One slot in the candidate's own deployment, which begins where the real one stands; None where it has no part.

    The same guards are heard as in earnest, with the candidate's own history of changes.
    """
    view = seat.view
    if seat.fault or view is None:
        return None
    virtual = seat.virtual
    if virtual is None or not view.fits(virtual.deployment):
        if not view.fits(seen.deployment):
            return None
        virtual = Virtual(seen.deployment, court.history)
    imagined = imagine(view, virtual.deployment, seen)
    before = virtual.before
    if before is not None:
        near = 0.0 < seen.time - before.time <= gap_s
        seat.learn(Transition(before, virtual.done, imagined) if near else None)
    own = Court(court.operator, court.names, court.orders, virtual.history)
    ruling = None if seat.fault else judge(own, seat, imagined)
    if ruling is None:
        return None
    history = enter(virtual.history, seen.time, ruling.proposed, ruling.change)
    seat.virtual = Virtual(virtual.deployment.after(ruling.change), history, imagined, ruling.change)
    return {
        "version": seat.objective.version,
        "action": name_action(ruling.change, court.names),
        "deployment": count_by_name(virtual.deployment, court.names),
        "response": imagined.response,
        "bound": view.bound,
        "price": price(nodes, virtual.deployment, seat),
        "reason": ruling.reason,
    }
