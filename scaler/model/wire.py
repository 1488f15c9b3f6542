"""Plain values as JSON that every reader accepts, and back: infinities and NaN travel as texts.

JSON has no infinity, and an overloaded operator's response time is infinite. As in Protocol Buffers' mapping to JSON
such numbers are written as the texts "Infinity", "-Infinity" and "NaN", and come back as numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from scaler.model.errors import BadInput

MAX_DEPTH = 32  # documents in documents; orders have six
SPELLED = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def write_line(document: Any) -> bytes:
    """One line without its end, NaN as null: what a scaler does not know; ValueError or TypeError if impossible."""
    return json.dumps(spell(document, nan=None), allow_nan=False, separators=(",", ":")).encode()


def write_json(document: Any) -> str:
    """The document as JSON text; TypeError where a value is not plain."""
    try:
        return json.dumps(document, allow_nan=False, ensure_ascii=False)
    except (ValueError, TypeError):  # rare values are searched for only where they stop the fast path
        return json.dumps(spell(document), allow_nan=False, ensure_ascii=False)


def read_json(text: str | bytes) -> Any:
    """The document of a JSON text, infinities and NaN as numbers."""
    document = json.loads(text)
    shown = text if isinstance(text, str) else text.decode()
    return unspell(document) if 'Infinity"' in shown or '"NaN"' in shown else document


def check_depth(document: Any) -> None:
    """Refuse a document that is nested deeper than MAX_DEPTH.

    Python parses some thousand levels, as many as the stack has left, and then fails wherever the document is compared,
    written or read with fewer left: after it was taken up, or at the next start.
    """
    level, depth = [document], 0
    while level := [value for value in level if isinstance(value, Mapping | list | tuple)]:
        depth += 1
        if depth > MAX_DEPTH:
            raise BadInput(f"it is nested more than {MAX_DEPTH} deep")
        level = [inner for value in level for inner in (value.values() if isinstance(value, Mapping) else value)]


def spell(value: Any, nan: str | None = "NaN") -> Any:
    """The same with lists for tuples, Python's numbers for numpy's, and texts for numbers that JSON lacks."""
    if isinstance(value, Mapping):
        return {str(key): spell(item, nan) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [spell(item, nan) for item in value]
    if not isinstance(value, float | str) and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()  # a number of numpy's
    if isinstance(value, float) and not math.isfinite(value):
        return nan if math.isnan(value) else "Infinity" if value > 0.0 else "-Infinity"
    return value


def unspell(value: Any) -> Any:
    """The same with numbers where `spell` wrote texts."""
    if isinstance(value, dict):
        return {key: unspell(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unspell(item) for item in value]
    return SPELLED.get(value, value) if isinstance(value, str) else value


def to_plain(value: Any, hidden: Container[str] = ()) -> Any:
    """Records as documents: by their own codec where they have one, else by the names of their fields."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return write_fields(value, hidden)
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, hidden) for key, item in value.items()}
    return [to_plain(item, hidden) for item in value] if isinstance(value, list | tuple) else value


def write_fields(record: Any, hidden: Container[str] = ()) -> dict[str, Any]:
    """A dataclass as a document by the names of its fields."""
    return {one.name: to_plain(getattr(record, one.name), hidden) for one in fields(record) if one.name not in hidden}


def read_number(value: Any) -> float | None:
    """A number, infinite and spelled ones too; None for anything else."""
    if isinstance(value, str):
        value = SPELLED.get(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return None if math.isnan(number) else number


def read_table(value: Any) -> dict[str, Any]:
    """A mapping with texts as keys; empty for anything else."""
    return {str(key): item for key, item in value.items()} if isinstance(value, Mapping) else {}


def read_text(value: Any) -> str | None:
    """A text that is not blank; None for anything else."""
    return value if isinstance(value, str) and value.strip() else None
