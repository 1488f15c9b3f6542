"""Pin: no change at all, or none but those that lead towards a given deployment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from scaler.guards.change_history import ChangeHistory
from scaler.guards.guard import Guard, object_to
from scaler.guards.options import GuardOptions
from scaler.model.decision import Objection
from scaler.model.nodes import Deployment, Reconfiguration
from scaler.model.policy import Observation


@dataclass(frozen=True, slots=True)
class Pin:
    at: Deployment | None  # None: wherever it is
    types: tuple[str, ...]


def hold(pin: Pin, proposed: Reconfiguration, seen: Observation, history: ChangeHistory) -> Objection | None:
    if pin.at is None:
        return object_to("pin", "no change is allowed while it is set")
    i = proposed.node_type
    missing = pin.at.replicas[i] - seen.deployment.replicas[i]
    if missing * proposed.delta > 0:
        return None
    where = ", ".join(f"{n} on {name}" for n, name in zip(pin.at.replicas, pin.types, strict=True))
    at = dict(zip(pin.types, pin.at.replicas, strict=True))
    return object_to("pin", f"the change leads away from what at is: {where}", at=at)


def read_pin(table: GuardOptions) -> Guard:
    wanted = table.by_type("at")
    if "at" not in table.settings:
        return partial(hold, Pin(None, table.types))
    for value in wanted.values():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise table.wrong("at", value, "a whole number of replicas by node type")
    if sum(wanted.values()) == 0:
        raise table.wrong("at", 0, "a deployment of at least one replica")
    at = Deployment(tuple(wanted.get(i, 0) for i in range(len(table.types))))
    return partial(hold, Pin(at, table.types))
