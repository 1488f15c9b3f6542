"""The guard protocol: a function that allows a proposed change, or objects to it.

A guard is a pure function of the proposal, the observation, the history of changes and its own settings, a small frozen
value. It can only refuse: what would be better is the policy's business. So a deployment that starts outside a guard's
limits is not brought back by it, but no change may lead further out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from scaler.guards.change_history import ChangeHistory
from scaler.guards.options import GuardOptions
from scaler.model.decision import GUARD, Objection
from scaler.model.nodes import Reconfiguration
from scaler.model.policy import Observation


class Guard(Protocol):
    """A check with its settings bound; it is never called for a proposal of no change."""

    def __call__(self, proposed: Reconfiguration, seen: Observation, history: ChangeHistory, /) -> Objection | None: ...


GuardReader = Callable[[GuardOptions], Guard]


def object_to(guard: str, message: str, **data: Any) -> Objection:
    """A guard's objection; the message and the data name the setting that blocked."""
    return Objection(GUARD, guard, message, data)


def direction(change: Reconfiguration) -> str:
    """Name a change's direction as settings and messages do: "out" or "in"."""
    return "out" if change.delta > 0 else "in"
