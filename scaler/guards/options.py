"""Options of one guard as a person wrote them (TOML, JSON), checked one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scaler.model.errors import BadInput

MISSING: Any = object()


class GuardOptions:
    """Reads options one by one and tracks which are known, so that others can be refused."""

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
