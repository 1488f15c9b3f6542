"""A table of figures by name, as the commands of this room print it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Study:
    """A figure in rows."""

    figure: str
    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[object, ...]]
