"""Parse JSON bodies to plain documents within limits; write records as JSON, and their JSON Schema.

JSON has no infinity: such numbers travel as texts (`scaler.model.wire`).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Container
from dataclasses import fields
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.wire import SPELLED, to_plain
from tuner.store.json_fields import write_json

MAX_DEPTH = 12  # documents in documents; what a scaler or a person writes has four
MAX_VALUES = 300_000  # of a body; a full one of reports has 200,000, and each may take 60 bytes when it is read
MAX_KEYS = 10_000  # of one object; an application may name as many paths
TOO_DEEP = f"the body is nested more than {MAX_DEPTH} deep; send a flatter document"
MAX_NUMBER = 400  # characters; the longest plain spelling of a float has some 330
SPECIAL = tuple(SPELLED)
NUMBER = {"anyOf": [{"type": "number"}, {"type": "string", "enum": list(SPECIAL)}]}
PLAIN: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    "float": NUMBER,
    "Document": {"type": "object"},
    "list[Document]": {"type": "array", "items": {"type": "object"}},
    "Mapping[str, float]": {"type": "object", "additionalProperties": NUMBER},
    "Weights": {"type": "object", "additionalProperties": NUMBER},
}
HIDDEN = ("digest", "owner", "fence")  # of no use to a reader, and the first one a secret's shadow


class TooLarge(BadInput):
    """A body that is right in parts."""


def read_document(body: bytes) -> Any:
    """Plain JSON of limited size and depth: no NaN, no number beyond a float or 64 bit, no key twice, no NUL in a text.

    A value of two bytes becomes one of sixty, so that values are counted before they are made.
    """
    count = body.count(b",") + body.count(b"[") + body.count(b"{")
    if count > MAX_VALUES:
        raise TooLarge(f"the body has {count:,} values, and may have {MAX_VALUES:,}; send it in smaller parts")
    try:
        text = body.decode()
        document = json.loads(
            text, parse_float=parse_float_text, parse_int=parse_whole, parse_constant=refuse_constant,
            object_pairs_hook=parse_pairs,
        )  # fmt: skip
    except UnicodeDecodeError as error:
        raise BadInput(f"the body is not UTF-8 (byte {error.start}); send JSON in UTF-8") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadInput(f"the body is not JSON ({where}: {error.msg}); send one JSON document") from error
    except RecursionError as error:
        raise BadInput(TOO_DEEP) from error
    if "\\u" in text or text.count("{") + text.count("[") > MAX_DEPTH:  # else there is nothing that could be wrong
        check_plain(document)
    return document


def parse_float_text(text: str) -> float:
    value = float(text) if len(text) <= MAX_NUMBER else math.inf
    if not math.isfinite(value):
        raise BadInput(f"the number {shorten(text)} is too large; the largest is 1.797e308")
    return value


def parse_whole(text: str) -> int:
    value = int(text) if len(text) <= 20 else 2**63
    if not -(2**63) <= value < 2**63:
        raise BadInput(f"the whole number {shorten(text)} has more than 64 bit; write it as 1e20 where it is none")
    return value


def refuse_constant(word: str) -> float:
    raise BadInput(f'{word} is no JSON; where an infinite number may stand, write the text "Infinity"')


def parse_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_KEYS:
        raise BadInput(f"an object has {len(pairs):,} keys, and may have {MAX_KEYS:,}")
    table = dict(pairs)
    if len(table) < len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise BadInput(f"the key {shorten(twice)!r} stands twice in one object; state it once")
    return table


def check_plain(document: Any) -> None:
    level, depth = [document], 0
    while level:
        if depth > MAX_DEPTH:
            raise BadInput(TOO_DEEP)
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += [*value, *value.values()]
            elif isinstance(value, list):
                below += value
            elif isinstance(value, str):
                check_text(value)
        level, depth = below, depth + 1


def check_text(text: str) -> None:
    """What PostgreSQL and UTF-8 have no place for."""
    if "\0" in text:
        raise BadInput(f"the text {shorten(text)!r} holds the character NUL; leave it out")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise BadInput(f"the text {shorten(text)!a} holds half of a surrogate pair; send whole ones") from error


def shorten(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def to_bytes(value: Any) -> bytes:
    """JSON of plain values and records, infinities spelled out."""
    return write_json(to_plain(value, HIDDEN)).encode()


def schema_of(record: type, left_out: Container[str] = (), **further: dict[str, Any]) -> dict[str, Any]:
    """What `to_bytes` makes of such a record, as JSON Schema; without some fields and with further ones."""
    properties = dict(further)
    kept = (field for field in fields(record) if field.name not in HIDDEN and field.name not in left_out)
    for name, kind in ((field.name, str(field.type)) for field in kept):
        alone = kind.removesuffix(" | None")
        properties[name] = PLAIN[alone] if alone == kind else {"anyOf": [PLAIN[alone], {"type": "null"}]}
    return {"title": record.__name__, "type": "object", "properties": properties, "required": list(properties)}
