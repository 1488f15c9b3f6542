"""A slot that was ruled on in; the decision as the manager keeps it out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scaler.agent.policy_instance import PolicyInstance
from scaler.agent.reasons import is_missing
from scaler.agent.ruling import Ruling
from scaler.model.decision import HELD, Decision, count_by_name, name_action
from scaler.model.nodes import Deployment, NodeType
from scaler.model.policy import Observation

LONGEST = 1500  # characters of a reason


def write_decision(
    seen: Observation,
    ruling: Ruling,
    lead: PolicyInstance | None,
    shadow: Mapping[str, Any] | None,
    nodes: Sequence[NodeType],
    asked: Deployment | None,
    more: Mapping[str, Any],
) -> Decision:
    """The slot for the record, as it is if all goes well."""
    names = [node.name for node in nodes]
    known = len(seen.deployment.replicas) == len(names)
    facts: dict[str, Any] = {
        "utilisation": known_or_none(seen.utilisation),
        "deployment": count_by_name(seen.deployment, names) if known else {},
        "completeness": known_or_none(seen.completeness),
    }
    if asked is not None and len(asked.replicas) == len(names):
        facts["asked"] = count_by_name(asked, names)
    return Decision(
        time=seen.time,
        kind=ruling.kind,
        reason=ruling.reason[:LONGEST],
        action=name_action(ruling.change, names),
        objective_version=None if lead is None else lead.objective.version,
        rate=None if math.isinf(seen.rate) else known_or_none(seen.rate),
        response=known_or_none(seen.response),
        bound=None if lead is None or lead.view is None else lead.view.bound,
        price=price(nodes, seen.deployment, lead) if known else None,
        seen=facts | dict(more),
        alternatives={} if lead is None or ruling.kind == HELD else lead.value(ruling.judged or seen, names),
        shadow=shadow,
    )


def price(nodes: Sequence[NodeType], deployment: Deployment, seat: PolicyInstance | None) -> float:
    """Per hour: by the objective, or by the driver's own table where the objective does not say."""
    told = {} if seat is None else {node.name: node.price for node in seat.objective.nodes}
    prices = [told.get(node.name, node.price) for node in nodes]
    return sum(n * each for n, each in zip(deployment.replicas, prices, strict=True))


def known_or_none(value: float) -> float | None:
    return None if is_missing(value) else float(value)
