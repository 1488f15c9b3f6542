"""Read numeric options of policies, and refuse what is out of range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.model.errors import BadInput

SLOTS = (1, 100_000)  # range of options that count slots


def read_number(options: Mapping[str, Any], name: str, default: float, low: float, high: float) -> float:
    """The option of this name as a number in [low, high]."""
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadInput(f"option {name!r} is {value!r}, and must be a number from {low:g} to {high:g}")
    return float(value)


def read_count(options: Mapping[str, Any], name: str, default: int, low: int = SLOTS[0], high: int = SLOTS[1]) -> int:
    """The option of this name as a whole number in [low, high]."""
    value = read_number(options, name, default, low, high)
    if value != int(value):
        raise BadInput(f"option {name!r} is {value:g}, and must be a whole number")
    return int(value)
