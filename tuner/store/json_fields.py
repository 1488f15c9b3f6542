"""Read dataclasses from stored JSON tolerantly, and write them back: one codec for all plain fields.

A field's JSON key is its name, or its metadata's `key`. Reading leaves out what is missing or of another type, so that
the field gets its default: documents of older versions stay readable. Writing leaves out defaults. A field that holds a
dataclass of plain fields is an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from scaler.model import wire
from scaler.model.errors import BadInput
from scaler.model.wire import read_json

T = TypeVar("T")
PLAIN = (bool, int, float, str, tuple)


def keyed(key: str, default: Any = None) -> Any:
    """A field that is stored under another key."""
    return field(default=default, metadata={"key": key})


def renamed(before: str) -> Any:
    """A field that older versions stored under another key, which is read where its own is missing."""
    return field(default=None, metadata={"before": before})


def key_of(one: Field[Any]) -> str:
    return str(one.metadata.get("key", one.name))


def read_fields(kind: type[T], document: object, **others: Any) -> T:
    """Build a dataclass from its plain fields in a document; `others` are fields that the caller parsed."""
    table = document if isinstance(document, Mapping) else {}
    known: dict[str, Any] = {}
    plain: Any = kind
    for one, types, inner in list_types(plain):
        value = table.get(key_of(one), table.get(one.metadata.get("before")))
        if one.name in others or (isinstance(value, bool) and bool not in types):
            continue
        if inner is not None and isinstance(value, Mapping):
            known[one.name] = read_fields(inner, value)
        elif tuple in types and isinstance(value, list | tuple):
            known[one.name] = tuple(str(item) for item in value)
        elif isinstance(value, types):
            known[one.name] = value
    return kind(**known, **others)


@cache
def list_types(kind: type) -> tuple[tuple[Field[Any], tuple[type, ...], type | None], ...]:
    """Every field with the plain types, or the dataclass, of its value; whole numbers pass for floats."""
    hints, listed = get_type_hints(kind), []
    for one in fields(kind):
        hint = hints[one.name]
        parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        types = tuple(part for part in (get_origin(part) or part for part in parts) if part in PLAIN)
        inner = next((part for part in parts if isinstance(part, type) and is_dataclass(part)), None)
        listed.append((one, (*types, int) if float in types else types, inner))
    return tuple(listed)


def write_fields(value: Any, **others: Any) -> dict[str, Any]:
    """JSON of a dataclass without defaults; `others` are the JSON values of fields that are no plain ones."""
    table: dict[str, Any] = {}
    for one in fields(value):
        stated = others.get(one.name) if one.name in others else getattr(value, one.name)
        default = None if one.name in others else one.default
        if stated != default:
            stated = write_fields(stated) if is_dataclass(stated) else stated
            table[key_of(one)] = list(stated) if isinstance(stated, tuple) else stated
    return table


def write_json(document: Any) -> str:
    """The document as JSON; BadInput where a value is not plain."""
    try:
        return wire.write_json(document)
    except TypeError as error:
        raise BadInput(f"a document for the database holds what JSON cannot say ({error}); make it plain") from error


def as_stored(document: Any) -> Any:
    """The document as it will come back: lists where there were tuples, plain numbers for those of numpy."""
    return read_json(write_json(document))
