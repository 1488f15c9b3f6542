"""A guard: a function that allows a proposed change, or objects to it; its options and its history.

A guard is a pure function of the proposal, the observation, the history of changes and its own settings. It can only
refuse: what would be better is the policy's business. So a deployment that starts outside a guard's limits is not
brought back by it, but no change may lead further out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scaler.model.decision import GUARD, Objection
from scaler.model.errors import BadInput
from scaler.model.nodes import NOTHING, Reconfiguration
from scaler.model.policy import Observation

MISSING: Any = object()
WAYS = {"": 0, "out": 1, "in": -1, "over": 2}
MAX_CHANGES = 1000  # in a history: the most that a flap budget may allow


class GuardOptions:
    """Options as a person wrote them (TOML, JSON), read one by one; tracks the known, so that others can be refused."""

    def __init__(self, guard: str, settings: Mapping[str, Any], types: Sequence[str]) -> None:
        self.guard = guard
        self.settings = settings
        self.types = tuple(types)
        self.known: list[str] = []

    def read(self, name: str, default: Any = MISSING) -> Any:
        """A setting as it was written."""
        self.known.append(name)
        value = self.settings.get(name, default)
        if value is MISSING:
            raise BadInput(f"guard {self.guard!r} lacks its setting {name!r}")
        return value

    def number(self, name: str, default: Any = MISSING, low: float = 0.0, high: float = math.inf) -> float:
        """A setting that is a number in [low, high]."""
        value = self.read(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            upto = f" to {high:g}" if math.isfinite(high) else " upwards"
            raise self.wrong(name, value, f"a number from {low:g}{upto}")
        return float(value)

    def count(self, name: str, default: Any = MISSING, low: int = 0, high: float = math.inf) -> int:
        """A setting that is a whole number in [low, high]."""
        value = self.number(name, default, low, high)
        if value != math.floor(value):
            raise self.wrong(name, self.settings.get(name), "a whole number")
        return int(value)

    def choice(self, name: str, choices: Sequence[str], default: Any = MISSING) -> str:
        """A setting that is one of some words."""
        value = self.read(name, default)
        if value not in choices:
            raise self.wrong(name, value, f"one of {', '.join(choices)}")
        return str(value)

    def by_type(self, name: str) -> dict[int, Any]:
        """A setting that is a table by node type, its keys turned into their numbers; empty if it is missing."""
        value = self.read(name, {})
        if not isinstance(value, Mapping):
            raise self.wrong(name, value, "a table by node type")
        for key in value:
            if key not in self.types:
                raise self.wrong(name, key, f"a node type: one of {', '.join(self.types)}")
        return {self.types.index(key): part for key, part in value.items()}

    def wrong(self, name: str, value: Any, right: str) -> BadInput:
        return BadInput(f"guard {self.guard!r}: {name!r} is {value!r}, and must be {right}")

    def refuse_unknown(self) -> None:
        """Refuse options that no reader knows."""
        for name in self.settings:
            if name not in self.known:
                takes = f"it takes {', '.join(self.known)}" if self.known else "it takes none"
                raise BadInput(f"guard {self.guard!r} has no setting {name!r}; {takes}")


@dataclass(frozen=True, slots=True)
class ChangeHistory:
    """Times of changes that were made, and how long the policy has wanted one direction; seconds since the epoch."""

    changes: tuple[float, ...] = ()  # when, the latest last
    wish: int = 0  # one of WAYS: where the policy has wanted to go since `wished_since`, without a break
    wished_since: float = 0.0


def record_slot(history: ChangeHistory, time: float, proposed: Reconfiguration, done: Reconfiguration) -> ChangeHistory:
    """Add a slot. A change ends a run of proposals: observations before it are of another deployment."""
    if done != NOTHING:
        return ChangeHistory(changes=(*history.changes, time)[-MAX_CHANGES:])
    if WAYS[direction(proposed)] == history.wish:
        return history
    return replace(history, wish=WAYS[direction(proposed)], wished_since=time)


@dataclass(frozen=True, slots=True)
class GuardCase:
    """A proposed change, which is never none, the observation that it is for, and the changes before it."""

    proposed: Reconfiguration
    seen: Observation
    history: ChangeHistory


Guard = Callable[[GuardCase], Objection | None]  # a check with its settings bound
GuardReader = Callable[[GuardOptions], Guard]


def object_to(guard: str, message: str, **data: Any) -> Objection:
    """A guard's objection; the message and the data name the setting that blocked."""
    return Objection(GUARD, guard, message, data)


def direction(change: Reconfiguration) -> str:
    """Name a change's direction: "out", "in", "over" to other node types, or "" of no change."""
    if change == NOTHING:
        return ""
    return "over" if change.net == 0 else "out" if change.net > 0 else "in"
