"""Plain values in; one line of JSON that every reader takes out.

JSON has no infinity, and an overloaded operator's response time is infinite: it is written as the text "Infinity", as
the manager reads it. What is not a number (nan) is not known, and so null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def write_line(document: Any) -> bytes:
    """Without the end of the line; ValueError or TypeError where it cannot be said."""
    return json.dumps(make_plain(document), allow_nan=False, separators=(",", ":")).encode()


def make_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): make_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [make_plain(item) for item in value]
    if not isinstance(value, float | str) and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()  # a number of numpy's
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "Infinity" if value > 0.0 else "-Infinity"
    return value
