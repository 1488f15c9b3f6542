"""Direction lock: only scale out, or only scale in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from scaler.guards.change_history import ChangeHistory
from scaler.guards.guard import Guard, direction, object_to
from scaler.guards.options import GuardOptions
from scaler.model.decision import Objection
from scaler.model.nodes import Reconfiguration
from scaler.model.policy import Observation


@dataclass(frozen=True, slots=True)
class DirectionLock:
    only: str  # "out" or "in"


def lock(
    locked: DirectionLock, proposed: Reconfiguration, seen: Observation, history: ChangeHistory
) -> Objection | None:
    way = direction(proposed)
    if way == locked.only:
        return None
    return object_to("direction_lock", f"it would scale {way}, and only is {locked.only}", only=locked.only)


def read_direction_lock(table: GuardOptions) -> Guard:
    return partial(lock, DirectionLock(table.choice("only", ("out", "in"))))
