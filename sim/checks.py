"""Read and check tables of TOML documents; what is wrong is refused in one sentence."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scaler.model.errors import BadInput


def read_toml(path: Path | str) -> dict[str, Any]:
    """The document in a TOML file, or one sentence on why there is none."""
    try:
        return tomllib.loads(Path(path).read_bytes().decode())
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); name a TOML file") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} holds bytes that are no text; the file must be UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not TOML: {error}; correct it there") from error


def check_keys(table: Mapping[str, Any], known: Sequence[str], place: str) -> None:
    for key in table:
        if key not in known:
            raise BadInput(f"{place}: {key!r} is no key here; the keys are {', '.join(known)}")


def read_tables(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The tables of an array, none where the key is missing."""
    tables = document.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        raise BadInput(f"{key!r} is no list of tables; head each one with [[{key}]]")
    return tables


def read_name(table: Mapping[str, Any], key: str, place: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise BadInput(f"{place}: {key} is {show_value(table, key)}, and must be a text")
    return value


def read_number(table: Mapping[str, Any], key: str, place: str) -> float:
    value = table.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= sys.float_info.max:
        raise BadInput(f"{place}: {key} is {show_value(table, key)}, and must be a number")
    return float(value)


def show_value(table: Mapping[str, Any], key: str) -> str:
    return repr(table[key]) if key in table else "missing"
