"""Look names up in a registry, whose entries say where what they name lives: "module:attribute"."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from scaler.model.errors import BadInput, suggest


def load_named(what: str, entries: Mapping[str, str], name: str, package: str) -> Any:
    """What stands under a name; its module is imported now, so that only who asks for it needs what it imports."""
    if name not in entries:
        raise BadInput(f"there is no {what} {name!r}; {suggest(name, entries)}")
    module, _, attribute = entries[name].partition(":")
    return getattr(import_module(f"{package}.{module}"), attribute)
