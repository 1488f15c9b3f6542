"""Print tables on the terminal whose columns line up, in several parts where one would be too wide."""

from __future__ import annotations

import sys
from collections.abc import Container, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scaler.model.units import clean
from tuner.views.words import Column

GAP = 2
UNBOUNDED = 10_000  # columns where stdout is no terminal


def open_console() -> Console:
    return Console(width=None if sys.stdout.isatty() else UNBOUNDED, highlight=False)


def spell_ascii(text: str, ascii_only: bool) -> str:
    """The text, without ± where the terminal knows ASCII alone."""
    return text.replace("±", "+-") if ascii_only else text


def print_lines(*lines: str) -> None:
    """Print lines as they are; the terminal wraps them."""
    console = open_console()
    for line in lines:
        text = spell_ascii(line, console.options.ascii_only)
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def print_columns(
    columns: Sequence[Column], left: int = 1, texts: Container[str] = (), bold: int | None = None
) -> None:
    """Print columns side by side, as `print_grid` does."""
    rows = list(zip(*(column.cells for column in columns), strict=True))
    print_grid([column.head for column in columns], rows, left, texts, bold)


def print_grid(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: int = 1,
    texts: Container[str] = (),
    bold: int | None = None,
) -> None:
    """Print rows of cells; the first `left` columns, which are names, stand in every part.

    Names and columns headed as in `texts` are aligned to the left, figures to the right. The row `bold` stands out.
    """
    console = open_console()
    plain = console.options.ascii_only
    rows = [[clean(cell, len(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for number, part in enumerate(deal_out(widths, left, console.width)):
        table = Table(box=SIMPLE_HEAD, padding=(0, GAP - 1, 0, 0), pad_edge=False, show_edge=False)
        for i in part:
            head = Text(spell_ascii(heads[i], plain))
            table.add_column(head, justify="left" if i < left or heads[i] in texts else "right", overflow="fold")
        for i, row in enumerate(rows):
            table.add_row(*(Text(spell_ascii(row[j], plain)) for j in part), style="bold" if i == bold else "")
        console.print("\n" * (number > 0), end="")
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
