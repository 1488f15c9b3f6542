"""What becomes of a slot in; the decision as the manager keeps it, and the change to make, out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from scaler.model.nodes import Deployment, Reconfiguration

SCALED, NO_CHANGE, BLOCKED, HELD = "SCALED", "NO_CHANGE", "BLOCKED", "HELD"
ACTUATION_FAILED = "ACTUATION_FAILED"


@dataclass(frozen=True, slots=True)
class Decision:
    """One slot of one operator, as it goes into a report."""

    time: float  # start of the slot, seconds since the epoch
    kind: str
    reason: str
    action: str | None = None  # "+1 small"
    objective_version: int | None = None
    rate: float | None = None
    response: float | None = None  # whole response time as measured; infinite where overloaded
    bound: float | None = None  # on the whole response time
    price: float | None = None  # of the deployment that met the slot, per hour
    seen: Mapping[str, Any] = field(default_factory=dict)
    alternatives: Mapping[str, float] = field(default_factory=dict)  # what each is worth, less is better
    shadow: Mapping[str, Any] | None = None  # what the candidate would have done

    def document(self) -> dict[str, Any]:
        """As plain values, for `Link.report`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Step:
    """What a slot calls for: the decision if all goes well, and the change to make, in the driver's node types."""

    decision: Decision
    change: Reconfiguration
    proposed: Reconfiguration  # by the policy, before the guards


def name_action(change: Reconfiguration, types: Sequence[str]) -> str | None:
    """ "+1 small", or None for no change."""
    return None if change.delta == 0 else f"{change.delta:+d} {types[change.node_type]}"


def name_alternative(change: Reconfiguration, types: Sequence[str]) -> str:
    return name_action(change, types) or "no change"


def count_by_name(deployment: Deployment, types: Sequence[str]) -> dict[str, int]:
    return dict(zip(types, deployment.replicas, strict=True))
