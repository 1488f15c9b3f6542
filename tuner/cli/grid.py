"""Print tables whose columns line up, in several parts where one would be too wide."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

GAP = 2
UNBOUNDED = 10_000  # columns where stdout is no terminal


def open_console() -> Console:
    return Console(width=None if sys.stdout.isatty() else UNBOUNDED, highlight=False)


def spell_out_errors(text: str, ascii_only: bool) -> str:
    """The text, without ± where the terminal knows ASCII alone."""
    return text.replace("±", "+-") if ascii_only else text


def print_grid(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """The first so many columns, which are names, from the left and in every part; figures from the right."""
    console = open_console()
    plain = console.options.ascii_only
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for part in deal_out(widths, left, console.width):
        table = Table(box=SIMPLE_HEAD, padding=(0, GAP - 1, 0, 0), pad_edge=False, show_edge=False)
        for i in part:
            head = Text(spell_out_errors(heads[i], plain))
            table.add_column(head, justify="left" if i < left else "right", overflow="fold")
        for row in rows:
            table.add_row(*(Text(spell_out_errors(row[i], plain)) for i in part))
        console.print(table)


def deal_out(widths: Sequence[int], left: int, room: int) -> list[list[int]]:
    """Which columns each part has, so that it fits the room where it can."""
    names = list(range(left))
    parts, taken = [names], sum(widths[:left]) + GAP * left
    for i in range(left, len(widths)):
        if taken + widths[i] + GAP > room and len(parts[-1]) > left:
            parts.append(names)
            taken = sum(widths[:left]) + GAP * left
        parts[-1] = [*parts[-1], i]
        taken += widths[i] + GAP
    return parts
