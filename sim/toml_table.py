"""Read TOML documents, check their tables against kinds of values, and format them as text.

The text is for people: lists stand on one line, and tables in the order of the document (tomli-w breaks lists up).
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple

from scaler.model.errors import BadInput, suggest
from scaler.model.wire import MAX_DEPTH, check_depth

Table = Mapping[str, Any]
KEYS = "the keys are {}"


class Kind(NamedTuple):
    """What the value of a key must be, in words and as a test."""

    says: str
    fits: Callable[[Any], bool]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def is_table_of_numbers(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(is_number, value.values()))


def are(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


TEXT = Kind("a text", lambda value: isinstance(value, str) and value != "")
TEXTS = Kind("a list of texts", are(TEXT.fits))
NUMBER = Kind("a finite number", is_number)
NUMBERS = Kind("a list of numbers", are(is_number))
WHOLE = Kind("a whole number", is_whole)
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
WHOLES = Kind("a whole number or a list of them", lambda value: is_whole(value) or are(is_whole)(value))
MOMENT = Kind("a date or a date with a time", lambda value: isinstance(value, date))
TABLE = Kind("a table", lambda value: isinstance(value, Mapping))
TABLES = Kind("a list of tables; head each one with [[{key}]]", are(TABLE.fits))
SHARES = Kind("a table of numbers", is_table_of_numbers)


def read_toml(path: Path | str) -> dict[str, Any]:
    """The document in a TOML file, or one sentence on why there is none."""
    try:
        document = tomllib.loads(Path(path).read_bytes().decode())
        check_depth(document)
        return document
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); name a TOML file") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} holds bytes that are no text; the file must be UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not TOML: {error}; correct it there") from error
    except (BadInput, RecursionError) as error:
        raise BadInput(f"{path} is nested more than {MAX_DEPTH} deep; write a flatter document") from error


def check_table(
    table: Table, kinds: Mapping[str, Kind], place: Callable[[str], str], required: Iterable[str] = ()
) -> None:
    """Refuse an unknown key, a value that is not of its kind, a required key that is missing.

    `place` gives the place of a key in words.
    """
    for key, value in table.items():
        if key not in kinds:
            raise BadInput(f"{place(key)}: there is no such key here; {suggest(key, kinds, KEYS)}")
        if not kinds[key].fits(value):
            raise BadInput(f"{place(key)} is {spell(value)}, and must be {kinds[key].says.format(key=key)}")
    for key in required:
        if key not in table:
            raise BadInput(f"{place(key)} is missing, and must be {kinds[key].says.format(key=key)}")


def spell(value: object) -> str:
    """A value as a file states it, but texts and lists as Python does."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def name_item(kind: str, table: Table, number: int) -> str:
    """The place of a table in a list: by its name, or by its number where it has none."""
    name = table.get("name")
    return f"{kind} {name!r}" if TEXT.fits(name) else f"{kind} {number}"


def format_document(document: Table, head: str = "") -> str:
    """A document as TOML text that reads back the same."""
    lines = [f"{format_key(k)} = {format_value(v)}" for k, v in document.items() if not is_headed(v)]
    parts = ["\n".join(lines)] if lines else []
    for key, value in document.items():
        name = f"{head}{format_key(key)}"
        if isinstance(value, Mapping):
            parts.append(f"[{name}]\n{format_document(value, f'{name}.')}".rstrip())
        elif is_headed(value):
            parts += [f"[[{name}]]\n{format_document(one, f'{name}.')}".rstrip() for one in value]
    return "\n\n".join(parts) + ("\n" if not head else "")


def is_headed(value: Any) -> bool:
    """Whether a value stands under a head of its own."""
    return isinstance(value, Mapping) or (bool(value) and TABLES.fits(value))


def format_key(key: str) -> str:
    return key if key.isascii() and key.replace("_", "").replace("-", "").isalnum() else format_value(key)


def format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value))}]"
    return value.isoformat() if isinstance(value, datetime | date) else repr(value)


def quote(text: str) -> str:
    """A basic string: quotes, backslashes and control characters escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in escaped) + '"'
