"""A document in; JSON that every reader takes, and the same document again, out.

JSON has no infinity, and an overloaded operator's response time is infinite. As in Protocol Buffers' mapping to JSON
such numbers are written as the texts "Infinity", "-Infinity" and "NaN", and come back as numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from scaler.model.errors import BadInput

SPELLED = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def write_json(document: Any) -> str:
    try:
        return json.dumps(document, allow_nan=False, ensure_ascii=False)
    except (ValueError, TypeError):
        pass  # what is rare is looked for only when it was found to be there
    try:
        return json.dumps(spell(document), allow_nan=False, ensure_ascii=False)
    except TypeError as error:
        raise BadInput(f"a document for the database holds what JSON cannot say ({error}); make it plain") from error


def as_stored(document: Any) -> Any:
    """The document as it will come back: lists where there were tuples, plain numbers for those of numpy."""
    return read_json(write_json(document))


def spell(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): spell(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [spell(item) for item in value]
    if not isinstance(value, float) and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()  # a number of numpy's
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0.0 else "-Infinity"
    return value


def read_json(text: str | bytes) -> Any:
    document = json.loads(text)
    shown = text if isinstance(text, str) else text.decode()
    return unspell(document) if 'Infinity"' in shown or '"NaN"' in shown else document


def unspell(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unspell(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unspell(item) for item in value]
    return SPELLED.get(value, value) if isinstance(value, str) else value
