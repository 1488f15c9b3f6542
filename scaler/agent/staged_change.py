"""Carry a change out in stages: replicas to be added come first, those to be removed go once these serve.

What a change still has to order is `PendingReplicas.rest`, so that target and rest together are the goal, the
deployment that policies decide about. Additions are ordered at once, as many as the limit on replicas has room for.
Where it has none for the others (an operator at its limit that migrates), some replicas are exchanged at a time, as a
rolling update does: never so many that fewer than the least serve, and a quarter of those that serve at most. A change
of which a replica misses its deadline is given up from there on: nothing is removed for a replacement that never came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scaler.agent.pending import FAILED, PendingOutcome, PendingReplicas, describe_rest, order
from scaler.guards.deployments import Span

EXCHANGED = 4  # the part of the serving replicas that is exchanged at a time: one of so many


def begin_change(pending: PendingReplicas, change: Mapping[str, int]) -> PendingReplicas:
    """Add a change to what is still to be ordered; an addition first takes back a removal that was to come."""
    rest = {name: pending.rest.get(name, 0) + change.get(name, 0) for name in pending.target}
    return replace(pending, rest={name: delta for name, delta in rest.items() if delta})


def count_additions(pending: PendingReplicas, change: Mapping[str, int]) -> dict[str, int]:
    """Replicas that a change would order anew, by node type; removals that are still to come can be taken back."""
    more = {name: max(delta, 0) + min(pending.rest.get(name, 0), 0) for name, delta in change.items()}
    return {name: count for name, count in more.items() if count > 0}


def advance(
    pending: PendingReplicas, serving: Mapping[str, int], limits: Span, now: float, may_remove: bool = True
) -> PendingReplicas:
    """Order what can be ordered of the rest now."""
    target, rest = dict(pending.target), dict(pending.rest)
    additions = take(rest, 1, limits.most - sum(target.values()))
    # Replicas that are still on their way to be removed serve nobody: those of the target must be there themselves.
    if not any(additions.values()) and all(serving.get(name, 0) >= count for name, count in target.items()):
        spare = sum(target.values()) - limits.least if may_remove else 0
        waiting = sum(delta for delta in rest.values() if delta > 0)
        if waiting:
            spare = min(spare, waiting, max(1, sum(serving.values()) // EXCHANGED))
        removals = take(rest, -1, spare)
        gone = sum(removals.values())
        additions = take(rest, 1, limits.most - sum(target.values()) + gone)
        for name, count in removals.items():
            target[name] -= count
    for name, count in additions.items():
        target[name] += count
    return replace(order(pending, target, now), rest={name: delta for name, delta in rest.items() if delta})


def continue_change(
    outcome: PendingOutcome, serving: Mapping[str, int], limits: Span, now: float, may_remove: bool
) -> PendingOutcome:
    """Order the next stage of what is under way; give up what no stage can order any more."""
    pending = outcome.pending
    after = advance(pending, serving, limits, now, may_remove)
    if after != pending:
        return replace(outcome, pending=after, new_target=after.target)
    if not may_remove or any(serving.get(name, 0) < count for name, count in pending.target.items()):
        return outcome
    return give_up(pending, f"from {limits.least} to {limits.most} replicas are allowed")


def give_up(pending: PendingReplicas, why: str) -> PendingOutcome:
    """Order nothing of the rest any more."""
    message = f"{describe_rest(pending)} was given up: {why}"
    return PendingOutcome(FAILED, message, replace(pending, rest={}), pending.target, pending.rest)


def take(rest: dict[str, int], sign: int, most: int) -> dict[str, int]:
    """Take at most so many additions (sign 1) or removals (-1) out of the rest; how many, by node type."""
    taken: dict[str, int] = {}
    for name, delta in rest.items():
        taken[name] = max(0, min(sign * delta, most - sum(taken.values())))
        rest[name] -= sign * taken[name]
    return taken
