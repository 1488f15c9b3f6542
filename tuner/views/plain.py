"""Turn values into those that JSON knows: what is not finite is None, or a word where that is said."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from scaler.model.wire import spell, to_plain


def tame(value: Any) -> Any:
    """Values that JSON knows."""
    rules: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
        (dict, lambda v: {str(k): tame(x) for k, x in v.items()}),
        ((list, tuple), lambda v: [tame(x) for x in v]),
        (float, lambda v: v if math.isfinite(v) else None),
        ((str, bool, int, type(None)), lambda v: v),
    )
    for kinds, rule in rules:
        if isinstance(value, kinds):
            return rule(value)
    return str(value)


def to_json(record: Any) -> str:
    """A record as JSON; what is infinite as the text "Infinity"."""
    return json.dumps(spell(to_plain(record)), indent=2, allow_nan=False)
