"""Weigh what a change by one replica would hold under the load of a slot, in either direction."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scaler.model.decision import Decision
from scaler.model.hold import HoldTime, HoldTimes, late_seconds


@dataclass(frozen=True, slots=True)
class HeldChange:
    """What scaling in one direction holds; None is not known."""

    direction: str  # out or in
    events: int = 0  # reconfigurations that it was measured on
    hold_s: float | None = None
    late_s: float | None = None  # seconds of late answers under the load of the slot; infinite: it would not keep up


def weigh_holds(hold: HoldTimes | None, decision: Decision) -> tuple[HeldChange, ...]:
    """Both directions; none where neither was measured."""
    if hold is None or (hold.out is None and hold.into is None):
        return ()
    return tuple(
        HeldChange(name)
        if time is None
        else HeldChange(name, time.events, time.seconds(1), find_late_seconds(time, replicas, decision))
        for name, time, replicas in (("out", hold.out, 1), ("in", hold.into, -1))
    )


def find_late_seconds(time: HoldTime, more: int, decision: Decision) -> float | None:
    """Late seconds of a change to so many replicas more; None where the slot does not say enough, or none are left."""
    seen, rate = decision.seen, decision.rate
    count = sum(seen.deployment.values())
    if rate is None or not seen.utilisation or decision.response is None or decision.bound is None:
        return None
    if count + more < 1 or not all(map(math.isfinite, (rate, seen.utilisation))):
        return None
    capacity = rate / seen.utilisation * (count + more) / count
    return late_seconds(time.seconds(1), decision.bound - decision.response, rate, 0.0, capacity, capacity)
