"""What a policy wants and everybody who may object in; what is to become of the slot, and why, out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scaler.agent.policy_instance import PolicyInstance
from scaler.agent.reasons import explain
from scaler.guards import parse_guards
from scaler.guards.change_history import History
from scaler.guards.guard import Guard
from scaler.model.decision import BLOCKED, HELD, NO_CHANGE, SCALED
from scaler.model.errors import BadInput
from scaler.model.nodes import NOTHING, Deployment, Reconfiguration
from scaler.model.orders import Orders
from scaler.model.policy import Observation


@dataclass(frozen=True, slots=True)
class Ruling:
    """What is to become of a slot, before it is written down."""

    kind: str
    reason: str
    proposed: Reconfiguration = NOTHING
    change: Reconfiguration = NOTHING
    judged: Observation | None = None  # as it was decided about, with what was asked for; None where nothing was


@dataclass(frozen=True, slots=True)
class Court:
    """Who is heard about a change, and what they know."""

    operator: str
    names: tuple[str, ...]  # of the driver's node types
    orders: Orders | None
    history: History
    failed: Mapping[Reconfiguration, float] = field(default_factory=dict)  # when each change failed last
    again_s: float = 0.0  # before such a change is made again
    unsure: str = ""  # why nothing is to be taken away; "" where nothing is against it
    barred: Mapping[str, str] = field(default_factory=dict)  # why no replica of a node type is to be added, by its name


def judge(court: Court, seat: PolicyInstance, seen: Observation) -> Ruling | None:
    """What a seat's policy wants, once everybody was heard; None where it failed."""
    proposed, view = seat.propose(seen), seat.view
    if proposed is None or view is None:
        return None
    most = view.task.k_max
    over = seen.deployment.parallelism > most
    who = (
        f"the limit of {most} replicas" if over else f"{seat.objective.policy} under objective {seat.objective.version}"
    )
    return weigh(court, seen, proposed, who, view.bound, most)


def weigh(
    court: Court, seen: Observation, proposed: Reconfiguration, who: str, bound: float | None, most: int
) -> Ruling:
    """A proposal, heard by the limits and the guards."""
    if proposed.delta == 0:
        return Ruling(NO_CHANGE, explain(seen, bound, who, proposed, (), court.names))
    try:
        objections = object_to(court, seen, proposed, most)
    except BadInput as error:  # what a person has set is not passed over because it cannot be read
        return Ruling(HELD, f"Held: a guard of the orders cannot be understood ({error})")
    said = explain(seen, bound, who, proposed, objections, court.names)
    return Ruling(BLOCKED, said, proposed) if objections else Ruling(SCALED, said, proposed, proposed)


def object_to(court: Court, seen: Observation, proposed: Reconfiguration, most: int) -> list[str]:
    """Every reason against a change."""
    objections = []
    after = seen.deployment.after(proposed)
    count = after.parallelism
    if min(after.replicas) < 0 or count < 1 or (proposed.delta > 0 and count > most):
        objections.append(f"the limits: it would make {count} replicas, and 1 to {most} are allowed")
    if proposed.delta < 0 and court.unsure:
        objections.append(f"prudence: {court.unsure}")
    if proposed.delta > 0 and court.names[proposed.node_type] in court.barred:
        objections.append(f"supply: {court.barred[court.names[proposed.node_type]]}")
    since = seen.time - court.failed.get(proposed, -math.inf)
    if since < court.again_s:
        objections.append(f"patience: the same failed {since:.0f} s ago, and is not tried within {court.again_s:g} s")
    guards, padded = read_guards(court, seen)
    verdicts = [guard(proposed, padded, court.history) for guard in guards]
    return objections + [verdict.reason for verdict in verdicts if not verdict.allowed]


def read_guards(court: Court, seen: Observation) -> tuple[list[Guard], Observation]:
    """The guards of all operators and of this one; they may name node types that this driver does not have."""
    orders = court.orders
    if orders is None:
        return [], seen
    objectives = [] if orders.objective is None else [orders.objective]
    objectives += [] if orders.candidate is None else [orders.candidate.objective]
    others = [node.name for objective in objectives for node in objective.nodes]
    names = tuple(dict.fromkeys([*court.names, *others]))
    guards = [g for whose in ("", court.operator) for g in parse_guards(orders.guards.get(whose, {}), names)]
    more = (0,) * (len(names) - len(court.names))
    return guards, replace(seen, deployment=Deployment((*seen.deployment.replicas, *more)))
