"""Print the summary of a policy benchmark as tables, in several parts where one would be too wide."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tuner.cli.comparison_grid import measure, pack
from tuner.cli.grid import GAP, open_console, spell_out_errors
from tuner.lab.benchmark_report import explain_errors, list_rows, list_summaries
from tuner.lab.policy_benchmark import BenchmarkResult
from tuner.views.html_document import Column

LEFT = ("workload", "setting", "policy", "floor")


def print_benchmark(result: BenchmarkResult) -> None:
    """A line per setting and policy, then a line per policy."""
    console = open_console()
    rows = result.rows
    workload = Column("workload", tuple(row.cell.group for row in rows), "")
    setting, policy, *figures = list_rows(result, rows)
    print_parts(console, [workload, setting, policy], figures)
    console.print()
    first, *others = list_summaries(result)
    print_parts(console, [first], others)
    console.print(spell_out_errors(explain_errors(result), console.options.ascii_only), markup=False)


def print_parts(console: Console, named: list[Column], rest: list[Column]) -> None:
    """Tables that each begin with the columns that name a line."""
    for i, columns in enumerate(pack(named[0], rest, console.width - sum(map(measure, named[1:])))):
        console.print("\n" * (i > 0), end="")
        console.print(draw(named, columns, console.options.ascii_only))


def draw(named: Sequence[Column], columns: Sequence[Column], ascii_only: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, GAP - 1, 0, 0), pad_edge=False, show_edge=False)
    for column in (*named, *columns):
        table.add_column(Text(column.head), justify="left" if column.head in LEFT else "right", no_wrap=True)
    for cells in zip(*(column.cells for column in (*named, *columns)), strict=True):
        table.add_row(*(Text(spell_out_errors(cell, ascii_only)) for cell in cells))
    return table
