"""Hold of a reconfiguration: seconds for which arrivals wait while state moves, and the late answers that follow.

Notation, per replica that receives state: a arrivals/s of keys that are held, o arrivals/s of keys that it has already,
c its capacity in tuples/s (c' while state moves), D seconds of hold, s the slack (latency bound less usual response
time). A held tuple that comes t after the start waits D - t (1 - a/c) and what o left behind; after the release the
backlog drains at c - a - o. A second counts as late with the share of all arrivals in it that are answered after the
bound; with o = 0 and c' = c it comes to (D - s) c / (c - a).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.jit import jit


@dataclass(frozen=True, slots=True)
class HoldTime:
    """Seconds that a reconfiguration in one direction adds to a batch, by the number of replicas that it moves."""

    base_s: float
    each_s: float = 0.0  # per replica
    events: int = 0  # reconfigurations that it was measured on; 0: stated

    def __post_init__(self) -> None:
        if not (0.0 <= self.base_s < math.inf and 0.0 <= self.each_s < math.inf and self.events >= 0):
            raise BadInput(
                f"a reconfiguration holds {self.base_s} s and {self.each_s} s a replica, measured on {self.events}; "
                "all three must be 0 or more"
            )

    def seconds(self, replicas: int) -> float:
        """Of a change of so many replicas."""
        return self.base_s + self.each_s * replicas if replicas > 0 else 0.0


@dataclass(frozen=True, slots=True)
class HoldTimes:
    """Measured hold of scaling out and of scaling in, and seconds to load one store of state; None is not known."""

    out: HoldTime | None = None
    into: HoldTime | None = None
    load_s: float | None = None

    def __post_init__(self) -> None:
        if self.load_s is not None and not 0.0 <= self.load_s < math.inf:
            raise BadInput(f"a store of state is loaded in {self.load_s} s, and must be in 0 s or more")

    def to_json(self) -> dict[str, Any]:
        known = {"out": self.out, "in": self.into}
        loads = {} if self.load_s is None else {"load_s": self.load_s}
        return {name: asdict(hold) for name, hold in known.items() if hold is not None} | loads


def parse_hold_times(table: Mapping[str, Any]) -> HoldTimes:
    """The hold of a document; KeyError, TypeError or ValueError where it holds none."""
    out, into = (None if name not in table else parse_hold_time(table[name]) for name in ("out", "in"))
    return HoldTimes(out, into, None if "load_s" not in table else float(table["load_s"]))


def parse_hold_time(table: Mapping[str, Any]) -> HoldTime:
    return HoldTime(float(table["base_s"]), float(table.get("each_s", 0.0)), int(table.get("events", 0)))


@jit
def late_seconds(hold_s: float, slack_s: float, held: float, own: float, capacity: float, moving: float) -> float:
    """Late seconds per share of arrivals that is held; infinite where the receivers cannot serve their arrivals.

    `held` and `own` are a and o, `capacity` and `moving` are c and c'.
    """
    if held + own >= capacity:
        return math.inf
    if held <= 0.0:
        return 0.0
    slack = max(0.0, slack_s)
    grown = max(0.0, own - moving) * hold_s / capacity  # seconds of work that its own keys leave until the release
    late = min(hold_s, max(0.0, hold_s + grown - slack) / (1.0 - held / capacity))
    waiting = grown + held * hold_s / capacity
    late += max(0.0, waiting - slack) * capacity / (capacity - held - own) * (held + own) / held
    if own > moving:  # its own keys wait, longest those that come moving / own of the way through
        first = slack * moving / (own - moving)
        last = min(hold_s, (hold_s * (1.0 - moving / capacity) - slack) / (1.0 - own / capacity))
        late += max(0.0, last - first) * own / held
    return late
