"""Decide a slot: the policy's proposal, every objection of limits and guards, and a sentence with its figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from scaler.agent.policy_instance import MAX_RATE, NodeView, PolicyInstance
from scaler.guards import parse_guards
from scaler.guards.deployments import DRY_RUN_GUARD
from scaler.guards.guard import WAYS, ChangeHistory, Guard, GuardCase, direction
from scaler.model import decision as codes
from scaler.model.decision import Objection, describe_change, list_changes
from scaler.model.errors import BadInput
from scaler.model.kernel import lay_out, view_deployment
from scaler.model.nodes import NOTHING, Deployment, NodeType, Reconfiguration, scale
from scaler.model.orders import Orders
from scaler.model.policy import Observation, Start, name_action
from scaler.model.task import Moments, Task
from scaler.model.units import format_duration
from scaler.policies.homogeneous import cheapest_at_peak
from scaler.policies.rules import threshold

NO_MOMENTS = Moments(1e-3, 1e-6)  # of the threshold policy, which does not use them


@dataclass(frozen=True, slots=True)
class DecisionDraft:
    """The decision of a slot before it goes on record."""

    kind: str
    reason: str
    code: str
    objections: tuple[Objection, ...] = ()
    proposed: Reconfiguration = NOTHING
    change: Reconfiguration = NOTHING
    decided_on: Observation | None = None  # with ordered replicas counted; None where nothing was decided
    tokens: float | None = None  # left of the application's budget of changes


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """What limits and guards depend on beside the proposal."""

    operator: str
    names: tuple[str, ...]  # of the driver's node types
    orders: Orders | None
    history: ChangeHistory
    guards: Mapping[str, Any] = field(default_factory=dict)  # the driver's own
    failed: Mapping[tuple[int, bool], float] = field(default_factory=dict)  # when adding (True) to a type failed last
    retry_s: float = 0.0  # before a change that failed is made again
    no_scale_in: Objection | None = None
    barred: Mapping[str, Objection] = field(default_factory=dict)  # why no replica of a node type is to be added


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change, who proposed it, and within which limits."""

    change: Reconfiguration
    proposer: str  # as the sentence names it
    code: str
    bound: float | None  # on the response time
    k_max: int
    k_min: int = 1


def hold(objection: Objection, reason: str = "") -> DecisionDraft:
    """Change nothing, for nothing can be decided."""
    return DecisionDraft(codes.HELD, f"Held: {reason or objection.message}", objection.code, (objection,))


def hold_unseen(gap: Objection, no_scale_in: Objection | None) -> DecisionDraft:
    """Hold a slot of which too little is known; a stage that no executor serves is named as the cause."""
    if no_scale_in is None or no_scale_in.code != codes.STAGE_WAITS:
        return hold(gap)
    held = hold(gap, f"{gap.message}; {no_scale_in.message}")
    return replace(held, code=codes.STAGE_WAITS, objections=(no_scale_in, gap))


def decide(context: DecisionContext, instance: PolicyInstance, seen: Observation) -> DecisionDraft | None:
    """The policy's proposal after limits and guards; None where the policy failed."""
    change, view = instance.propose(seen), instance.view
    if change is None or view is None:
        return None
    k_min, k_max, count = view.task.k_min, view.task.k_max, seen.deployment.parallelism
    if count > k_max:
        proposer, code = f"the limit of {k_max} replicas", codes.OVER_LIMIT
    elif count < k_min:
        proposer, code = f"the limit of at least {k_min} replicas", codes.UNDER_LIMIT
    else:
        proposer, code = f"{instance.objective.policy} under objective {instance.objective.version}", codes.PROPOSED
    return apply_guards(context, seen, Proposal(change, proposer, code, view.bound, k_max, k_min))


def apply_guards(context: DecisionContext, seen: Observation, proposal: Proposal) -> DecisionDraft:
    """Check a proposal against the limits and the guards of the orders."""
    change = proposal.change
    what = describe_change(change, context.names)
    stated = f"{describe_slot(seen, proposal.bound)}; {proposal.proposer} proposed {what}"
    if change == NOTHING:
        return DecisionDraft(codes.NO_CHANGE, stated, proposal.code)
    try:
        checks = list_checks(context, seen, proposal)
        objections = find_objections(checks, change, context.names)
        allowed = find_allowed(change, lambda part: all(is_dry_run_alone(check(part)) for check in checks))
        dry_run = [one for one in objections if one.code == DRY_RUN_GUARD]
        if dry_run and allowed != NOTHING:
            dry_run = [one for check in checks for one in check(allowed)]
    except BadInput as error:  # what a person has set is not passed over because it cannot be read
        message = f"a guard of the orders cannot be understood ({error})"
        return hold(Objection(codes.ORDERS, codes.GUARDS_UNREADABLE, message))
    if not objections:
        return DecisionDraft(codes.SCALED, f"{stated}, and no guard objected", proposal.code, (), change, change)
    others = tuple(one for one in objections if one.code != DRY_RUN_GUARD)
    blocked = f"was blocked by {'; '.join(map(str, others))}"
    if allowed == NOTHING:
        objections = (*others, *dry_run)
        return DecisionDraft(
            codes.BLOCKED, f"{stated}, which {'; '.join((blocked, *map(str, dry_run)))}", objections[0].code,
            objections, change,
        )  # fmt: skip
    if allowed != change:
        stated = f"{stated}, of which all but {describe_change(allowed, context.names)} {blocked}"
    if dry_run:
        reason = f"{stated}, and in this dry run nothing is changed"
        return DecisionDraft(codes.DRY_RUN, reason, DRY_RUN_GUARD, (*dry_run, *others), change)
    return DecisionDraft(codes.SCALED, stated, proposal.code, others, change, allowed)


Check = Callable[[Reconfiguration], list[Objection]]


def is_dry_run_alone(objections: Sequence[Objection]) -> bool:
    return all(one.code == DRY_RUN_GUARD for one in objections)


def find_objections(checks: Sequence[Check], change: Reconfiguration, names: Sequence[str]) -> tuple[Objection, ...]:
    """Every reason against a change, and what it blocks where that is only a part; a dry run's comes last."""
    found = []
    for check in checks:
        for objection in check(change):
            allowed = find_allowed(change, lambda part, check=check: not check(part))  # type: ignore[misc]
            found.append(objection if allowed == NOTHING else name_part(objection, subtract(change, allowed), names))
    return tuple(sorted(found, key=lambda objection: objection.code == DRY_RUN_GUARD))


def find_allowed(change: Reconfiguration, is_allowed: Callable[[Reconfiguration], bool]) -> Reconfiguration:
    """The largest part of a change that is allowed: additions first, and removals only beside all of them.

    A removal counts on what is added in its place.
    """
    if is_allowed(change):
        return change
    kept: tuple[tuple[int, int], ...] = ()
    for i, delta in sorted(change.changes, key=lambda pair: pair[1] < 0):
        if delta < 0 and sum(n for _, n in kept if n > 0) < change.added:
            break
        sizes = range(delta, 0, -1) if delta > 0 else range(delta, 0)
        parts = (tuple(sorted((*kept, (i, size)))) for size in sizes)
        kept = next((part for part in parts if is_allowed(Reconfiguration(part))), kept)
    return Reconfiguration(kept)


def subtract(change: Reconfiguration, part: Reconfiguration) -> Reconfiguration:
    """What a part leaves of a change."""
    done = dict(part.changes)
    left = ((i, delta - done.get(i, 0)) for i, delta in change.changes)
    return Reconfiguration(tuple((i, delta) for i, delta in left if delta))


def name_part(objection: Objection, blocked: Reconfiguration, names: Sequence[str]) -> Objection:
    """The objection with the part of the change that it blocks."""
    message = f"{objection.message}; this blocks {describe_change(blocked, names)}"
    return replace(objection, message=message, data={**objection.data, "blocked": list_changes(blocked, names)})


def list_checks(context: DecisionContext, seen: Observation, proposal: Proposal) -> list[Check]:
    """The limits, then the guards in force."""
    guards, padded = guards_for(context, seen)

    def bind(guard: Guard) -> Check:
        return lambda part: [one for one in [guard(GuardCase(part, padded, context.history))] if one is not None]

    limits = (check_replicas, check_removals, check_additions, check_failed)
    return [*(partial(check, context, seen, proposal) for check in limits), *map(bind, guards)]


def check_replicas(
    _: DecisionContext, seen: Observation, proposal: Proposal, change: Reconfiguration
) -> list[Objection]:
    """Whether the number of replicas stays within the objective's and the driver's limits."""
    after, k_min, k_max = seen.deployment.after(change), proposal.k_min, proposal.k_max
    count = after.parallelism
    outside = (change.net > 0 and count > k_max) or (change.net < 0 and count < k_min)
    if not outside and min(after.replicas) >= 0 and count >= 1:
        return []
    message = f"it would make {count} replicas, and {k_min} to {k_max} are allowed"
    return [Objection(codes.LIMIT, codes.REPLICA_LIMIT, message, {"replicas": count, "k_min": k_min, "k_max": k_max})]


def check_removals(context: DecisionContext, _: Observation, __: Proposal, change: Reconfiguration) -> list[Objection]:
    return [context.no_scale_in] if change.removed and context.no_scale_in is not None else []


def check_additions(context: DecisionContext, _: Observation, __: Proposal, change: Reconfiguration) -> list[Objection]:
    """Whether node types to which replicas are added are to be had."""
    added = (context.names[node_type] for node_type, delta in change.changes if delta > 0)
    return [context.barred[name] for name in added if name in context.barred]


def check_failed(context: DecisionContext, seen: Observation, _: Proposal, change: Reconfiguration) -> list[Objection]:
    """Whether adding to, or removing from, one of these types failed of late."""
    failed = (context.failed.get((node_type, delta > 0), -math.inf) for node_type, delta in change.changes)
    since = seen.time - max(failed, default=-math.inf)
    if since >= context.retry_s:
        return []
    message = f"the same failed {since:.0f} s ago, and is not tried within {context.retry_s:g} s"
    return [Objection(codes.LIMIT, codes.FAILED_LATELY, message, {"since_s": since, "retry_s": context.retry_s})]


def guards_for(context: DecisionContext, seen: Observation) -> tuple[list[Guard], Observation]:
    """The guards in force, and the observation with the node types that they may name and this driver lacks."""
    tables, names = list_guard_tables(context)
    guards = [guard for table in tables for guard in parse_guards(table, names)]
    more = (0,) * (len(names) - len(context.names))
    return guards, replace(seen, deployment=Deployment((*seen.deployment.replicas, *more)))


def list_guard_tables(context: DecisionContext) -> tuple[list[Mapping[str, Any]], tuple[str, ...]]:
    """Guards of the driver's own, of all operators and of this one; the driver's node types, then other objectives'."""
    orders = context.orders
    if orders is None:
        return [context.guards], context.names
    objectives = [] if orders.objective is None else [orders.objective]
    objectives += [] if orders.candidate is None else [orders.candidate.objective]
    others = [node.name for objective in objectives for node in objective.nodes]
    names = tuple(dict.fromkeys([*context.names, *others]))
    return [context.guards, *(orders.guards.get(whose, {}) for whose in ("", context.operator))], names


def find_removal_objection(context: DecisionContext, seen: Observation, removal: Reconfiguration) -> Objection | None:
    """A guard's objection to the second half of a change, whose first half it allowed: a person may have set it since.

    The change was counted and waited for when it was decided, so guards on its time see no other before it.
    """
    guards, padded = guards_for(context, seen)
    history = ChangeHistory(wish=WAYS[direction(removal)], wished_since=-math.inf)
    case = GuardCase(removal, padded, history)
    return next((objection for guard in guards if (objection := guard(case)) is not None), None)


def find_gap(seen: Observation, types: int, complete: float) -> Objection | None:
    """Why nothing can be decided on this observation."""
    missing = [name for name in ("rate", "response", "utilisation") if is_missing(getattr(seen, name))]
    if len(seen.deployment.replicas) != types or min(seen.deployment.replicas) < 0:
        return Objection(codes.METRICS, codes.DEPLOYMENT_UNKNOWN, "the deployment is not known by node type")
    if not seen.completeness >= complete:
        message = f"{100 * seen.completeness:.0f} % of the metrics arrived, and {100 * complete:.0f} % are needed"
        share = None if math.isnan(seen.completeness) else seen.completeness
        return Objection(codes.METRICS, codes.METRICS_INCOMPLETE, message, {"completeness": share, "needed": complete})
    if missing or math.isinf(seen.rate):
        missing = missing or ["rate"]
        message = f"the {' and the '.join(missing)} {'is' if len(missing) < 2 else 'are'} not known"
        return Objection(codes.METRICS, codes.METRICS_MISSING, message, {"missing": missing})
    if seen.deployment.parallelism == 0:
        return Objection(codes.METRICS, codes.NO_REPLICA, "no replica runs, so that nothing was served")
    return None


def is_missing(value: float | None) -> bool:
    return value is None or math.isnan(value) or value < 0.0


def describe_slot(seen: Observation, bound: float | None) -> str:
    """ "At 412 tuples/s, and 30 to catch up with, answers took 38 ms, with 42 ms allowed"."""
    overloaded = math.isinf(seen.response)
    took = "came more than can be served" if overloaded else f"answers took {format_duration(seen.response)}"
    allowed = "" if bound is None else f", with {format_duration(bound)} allowed"
    behind = f", and {seen.catch_up_rate:.3g} to catch up with," if seen.catch_up_rate > 0.0 else ""
    return f"At {seen.rate:.4g} tuples/s{behind} {took}{allowed}"


def fall_back(seen: Observation, nodes: tuple[NodeType, ...], k_max: int, view: NodeView | None) -> Reconfiguration:
    """Propose the threshold policy's change, in the driver's node types, after the manager was silent for long.

    It uses the cheapest node type that meets the last known bound; where none was ever known, the type that the stream
    runs on most, for a cheaper one might be too slow to be of use.
    """
    counts = seen.deployment.replicas
    usual = counts.index(max(counts))
    if seen.deployment.parallelism > k_max:
        return scale(usual, -min(max(counts), seen.deployment.parallelism - k_max))
    if view is not None and view.find_unknown(seen.deployment):
        view = None
    if view is not None:
        task = replace(view.task, k_max=k_max)
        choice, counts = cheapest_at_peak(task), tuple(counts[i] for i in view.places)
    else:
        task = Task(types=nodes, k_max=k_max, moments=NO_MOMENTS, bound=1.0, highest_rate=1.0)
        choice = usual
    k, p = np.array(counts, dtype=np.int64), lay_out(task)
    shown = view_deployment(p, k, min(seen.demand, MAX_RATE * task.highest_rate), seen.utilisation, seen.response)
    action = int(threshold.decide(p, threshold.prepare(Start(task, task), choice), k, shown))
    change = name_action(p, k, action)
    return change if view is None else view.name_change(change)
