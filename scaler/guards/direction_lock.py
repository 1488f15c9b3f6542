"""Direction lock: only scale out, or only scale in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from scaler.guards.change_history import History
from scaler.guards.guard import ALLOWED, Guard, Verdict, block, direction
from scaler.guards.options import Table
from scaler.model.nodes import Reconfiguration
from scaler.model.policy import Observation


@dataclass(frozen=True, slots=True)
class DirectionLock:
    only: str  # "out" or "in"


def lock(locked: DirectionLock, proposed: Reconfiguration, seen: Observation, history: History) -> Verdict:
    way = direction(proposed)
    return ALLOWED if way == locked.only else block(f"direction_lock: it would scale {way}, and only is {locked.only}")


def read_direction_lock(table: Table) -> Guard:
    return partial(lock, DirectionLock(table.choice("only", ("out", "in"))))
