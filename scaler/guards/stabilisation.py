"""Stabilisation: a change waits until the policy has wanted it for some time; briefly out, longer in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from scaler.guards.change_history import ChangeHistory, measure_wish
from scaler.guards.guard import Guard, direction, object_to
from scaler.guards.options import GuardOptions
from scaler.model.decision import Objection
from scaler.model.nodes import Reconfiguration
from scaler.model.policy import Observation


@dataclass(frozen=True, slots=True)
class Stabilisation:
    out_s: float
    in_s: float


def stabilise(
    settings: Stabilisation, proposed: Reconfiguration, seen: Observation, history: ChangeHistory
) -> Objection | None:
    wait = settings.out_s if proposed.delta > 0 else settings.in_s
    lasted = measure_wish(history, proposed, seen.time)
    if lasted >= wait:
        return None
    way = direction(proposed)
    message = f"the policy has wanted to scale {way} for {lasted:.0f} s, and {way}_s is {wait:g}"
    return object_to("stabilisation", message, setting=f"{way}_s", value=wait, lasted_s=lasted)


def read_stabilisation(table: GuardOptions) -> Guard:
    return partial(stabilise, Stabilisation(out_s=table.number("out_s", 0.0), in_s=table.number("in_s", 300.0)))
