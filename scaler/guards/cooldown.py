"""Cooldown: so long after any change before the next, longer before a scale-in than before a scale-out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from scaler.guards.change_history import History
from scaler.guards.guard import ALLOWED, Guard, Verdict, block, direction
from scaler.guards.options import Table
from scaler.model.nodes import Reconfiguration
from scaler.model.policy import Observation


@dataclass(frozen=True, slots=True)
class Cooldown:
    out_s: float
    in_s: float


def cool_down(cooldown: Cooldown, proposed: Reconfiguration, seen: Observation, history: History) -> Verdict:
    wait = cooldown.out_s if proposed.delta > 0 else cooldown.in_s
    if not history.changes or seen.time - history.changes[-1] >= wait:
        return ALLOWED
    since = seen.time - history.changes[-1]
    return block(f"cooldown: the last change was {since:.0f} s ago, and {direction(proposed)}_s is {wait:g}")


def read_cooldown(table: Table) -> Guard:
    return partial(cool_down, Cooldown(out_s=table.number("out_s", 0.0), in_s=table.number("in_s", 600.0)))
