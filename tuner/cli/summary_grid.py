"""Print the summary of a policy benchmark as tables."""

from __future__ import annotations

import click

from tuner.lab.benchmark_report import explain_errors, list_rows, list_summaries
from tuner.lab.policy_benchmark import BenchmarkResult
from tuner.views.grid import print_columns, print_lines
from tuner.views.html_document import Column


def print_benchmark(result: BenchmarkResult) -> None:
    """A line per setting and policy, then a line per policy."""
    workload = Column("workload", tuple(row.cell.group for row in result.rows), "")
    print_columns([workload, *list_rows(result, result.rows)], left=3, texts=("floor",))
    click.echo()
    print_columns(list_summaries(result), texts=("floor",))
    print_lines(explain_errors(result))
