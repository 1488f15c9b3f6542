"""Print a comparison of policies as a table, in several parts where one would be too wide."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tuner.cli.grid import GAP, open_console, spell_out_errors
from tuner.simulation.comparison import PolicyComparison
from tuner.views.comparison_report import explain_errors, list_columns
from tuner.views.html_document import Column


def print_table(comparison: PolicyComparison) -> None:
    """The rows in the order asked for; the cheapest stands out."""
    console = open_console()
    names = Column("policy", comparison.scenario.policies, "")
    for i, columns in enumerate(pack(names, list_columns(comparison), console.width)):
        console.print("\n" * (i > 0), end="")
        console.print(draw_table(comparison, [names, *columns], ascii_only=console.options.ascii_only))
    console.print(spell_out_errors(explain_errors(comparison), console.options.ascii_only))


def print_readings(comparison: PolicyComparison) -> None:
    """One line per column on how to read it."""
    columns = list_columns(comparison)
    width = max(len(column.head) for column in columns)
    console = open_console()
    for column in columns:
        console.print(f"  {column.head:<{width}}  {column.reading}", markup=False)


def pack(first: Column, columns: list[Column], width: int) -> list[list[Column]]:
    """The columns dealt out to tables that each fit the width beside the first one."""
    tables: list[list[Column]] = [[]]
    taken = measure(first)
    for column in columns:
        if tables[-1] and taken + measure(column) > width:
            tables.append([])
            taken = measure(first)
        tables[-1].append(column)
        taken += measure(column)
    return tables


def measure(column: Column) -> int:
    return GAP + max(map(len, (column.head, *column.cells)))


def draw_table(comparison: PolicyComparison, columns: list[Column], ascii_only: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, GAP - 1, 0, 0), pad_edge=False, show_edge=False)
    for i, column in enumerate(columns):
        table.add_column(Text(column.head), justify="right" if i else "left", no_wrap=True)
    for i, row in enumerate(comparison.rows):
        cells = (spell_out_errors(column.cells[i], ascii_only) for column in columns)
        table.add_row(*cells, style="bold" if row is comparison.best and len(comparison.rows) > 1 else "")
    return table
