"""Decide a slot: the policy's proposal, every objection of limits and guards, and a sentence with its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scaler.agent.policy_instance import MAX_RATE, NodeView, PolicyInstance
from scaler.guards import parse_guards
from scaler.guards.deployments import DRY_RUN_GUARD
from scaler.guards.guard import ChangeHistory, Guard, GuardCase
from scaler.model import decision as codes
from scaler.model.decision import Objection, describe_change
from scaler.model.errors import BadInput
from scaler.model.kernel import lay_out, view_deployment
from scaler.model.nodes import NOTHING, Deployment, NodeType, Reconfiguration, decode
from scaler.model.orders import Orders
from scaler.model.policy import Observation, Start
from scaler.model.task import Moments, Task
from scaler.model.units import format_duration
from scaler.policies.homogeneous import optimal
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


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """What limits and guards depend on beside the proposal."""

    operator: str
    names: tuple[str, ...]  # of the driver's node types
    orders: Orders | None
    history: ChangeHistory
    guards: Mapping[str, Any] = field(default_factory=dict)  # the driver's own
    failed: Mapping[Reconfiguration, float] = field(default_factory=dict)  # when each change failed last
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
    k_max = view.task.k_max
    if seen.deployment.parallelism > k_max:
        proposal = Proposal(change, f"the limit of {k_max} replicas", codes.OVER_LIMIT, view.bound, k_max)
    else:
        proposer = f"{instance.objective.policy} under objective {instance.objective.version}"
        proposal = Proposal(change, proposer, codes.PROPOSED, view.bound, k_max)
    return apply_guards(context, seen, proposal)


def apply_guards(context: DecisionContext, seen: Observation, proposal: Proposal) -> DecisionDraft:
    """Check a proposal against the limits and the guards of the orders."""
    change = proposal.change
    what = describe_change(change, context.names)
    stated = f"{describe_slot(seen, proposal.bound)}; {proposal.proposer} proposed {what}"
    if change.delta == 0:
        return DecisionDraft(codes.NO_CHANGE, stated, proposal.code)
    try:
        objections = find_objections(context, seen, change, proposal.k_max)
    except BadInput as error:  # what a person has set is not passed over because it cannot be read
        message = f"a guard of the orders cannot be understood ({error})"
        return hold(Objection(codes.ORDERS, codes.GUARDS_UNREADABLE, message))
    if not objections:
        return DecisionDraft(codes.SCALED, f"{stated}, and no guard objected", proposal.code, (), change, change)
    code = objections[0].code
    if code == DRY_RUN_GUARD:
        return DecisionDraft(
            codes.DRY_RUN, f"{stated}, and in this dry run nothing is changed", code, objections, change
        )
    blocked = f"{stated}, which was blocked by {'; '.join(map(str, objections))}"
    return DecisionDraft(codes.BLOCKED, blocked, code, objections, change)


def find_objections(
    context: DecisionContext, seen: Observation, proposed: Reconfiguration, k_max: int
) -> tuple[Objection, ...]:
    """Every reason against a change; a dry run's comes last."""
    guards, padded = guards_for(context, seen)
    case = GuardCase(proposed, padded, context.history)
    found = [*check_limits(context, seen, proposed, k_max)]
    found += [one for guard in guards if (one := guard(case)) is not None]
    return tuple(sorted(found, key=lambda objection: objection.code == DRY_RUN_GUARD))


def check_limits(context: DecisionContext, seen: Observation, proposed: Reconfiguration, k_max: int) -> list[Objection]:
    """The objections of the objective's and the driver's own limits."""
    found = []
    after = seen.deployment.after(proposed)
    count = after.parallelism
    if min(after.replicas) < 0 or count < 1 or (proposed.delta > 0 and count > k_max):
        message = f"it would make {count} replicas, and 1 to {k_max} are allowed"
        found.append(Objection(codes.LIMIT, codes.REPLICA_LIMIT, message, {"replicas": count, "k_max": k_max}))
    if proposed.delta < 0 and context.no_scale_in is not None:
        found.append(context.no_scale_in)
    if proposed.delta > 0 and context.names[proposed.node_type] in context.barred:
        found.append(context.barred[context.names[proposed.node_type]])
    since = seen.time - context.failed.get(proposed, -math.inf)
    if since < context.retry_s:
        message = f"the same failed {since:.0f} s ago, and is not tried within {context.retry_s:g} s"
        found.append(
            Objection(codes.LIMIT, codes.FAILED_LATELY, message, {"since_s": since, "retry_s": context.retry_s})
        )
    return found


def guards_for(context: DecisionContext, seen: Observation) -> tuple[list[Guard], Observation]:
    """The driver's own, those of all operators and of this one; they may name node types that this driver lacks."""
    orders = context.orders
    if orders is None:
        return [*parse_guards(context.guards, context.names)], seen
    objectives = [] if orders.objective is None else [orders.objective]
    objectives += [] if orders.candidate is None else [orders.candidate.objective]
    others = [node.name for objective in objectives for node in objective.nodes]
    names = tuple(dict.fromkeys([*context.names, *others]))
    tables = [context.guards, *(orders.guards.get(whose, {}) for whose in ("", context.operator))]
    guards = [guard for table in tables for guard in parse_guards(table, names)]
    more = (0,) * (len(names) - len(context.names))
    return guards, replace(seen, deployment=Deployment((*seen.deployment.replicas, *more)))


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
        return Reconfiguration(-1, usual)
    if view is not None and view.find_unknown(seen.deployment):
        view = None
    if view is not None:
        task = replace(view.task, k_max=k_max)
        choice, counts = optimal(task), tuple(counts[i] for i in view.places)
    else:
        task = Task(types=nodes, k_max=k_max, moments=NO_MOMENTS, bound=1.0, highest_rate=1.0)
        choice = usual
    k, p = np.array(counts, dtype=np.int64), lay_out(task)
    shown = view_deployment(p, k, min(seen.demand, MAX_RATE * task.highest_rate), seen.utilisation, seen.response)
    change = decode(int(threshold.decide(p, threshold.prepare(Start(task, task), choice), k, shown)), len(task.types))
    return change if view is None else view.name_change(change)
