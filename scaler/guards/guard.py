"""What a guard is: a proposed change, what was seen and what was done before in; allowed, or blocked for a reason, out.

A guard is a pure function of these and of its settings, a small frozen value. It can only refuse: what would be better
is the policy's to know. So a deployment that starts outside a guard's limits is not brought back by it, but no change
may take it further out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from scaler.guards.change_history import History
from scaler.guards.options import Table
from scaler.model.nodes import Reconfiguration
from scaler.model.policy import Observation


@dataclass(frozen=True, slots=True)
class Verdict:
    """Allowed, or blocked with a sentence that names the guard and the setting that blocked."""

    allowed: bool
    reason: str = ""


ALLOWED = Verdict(True)


class Guard(Protocol):
    """A judging function with its settings bound; it is never asked about doing nothing."""

    def __call__(self, proposed: Reconfiguration, seen: Observation, history: History, /) -> Verdict: ...


ReadGuard = Callable[[Table], Guard]  # settings in, the guard out


def block(reason: str) -> Verdict:
    return Verdict(False, reason)


def direction(change: Reconfiguration) -> str:
    """What a change is called in settings and reasons."""
    return "out" if change.delta > 0 else "in"
