"""Cooldown: minimum time between two changes, longer before a scale-in than before a scale-out."""

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
class Cooldown:
    out_s: float
    in_s: float


def cool_down(
    cooldown: Cooldown, proposed: Reconfiguration, seen: Observation, history: ChangeHistory
) -> Objection | None:
    wait = cooldown.out_s if proposed.delta > 0 else cooldown.in_s
    if not history.changes or seen.time - history.changes[-1] >= wait:
        return None
    since, setting = seen.time - history.changes[-1], f"{direction(proposed)}_s"
    message = f"the last change was {since:.0f} s ago, and {setting} is {wait:g}"
    return object_to("cooldown", message, setting=setting, value=wait, since_s=since)


def read_cooldown(table: GuardOptions) -> Guard:
    return partial(cool_down, Cooldown(out_s=table.number("out_s", 0.0), in_s=table.number("in_s", 600.0)))
