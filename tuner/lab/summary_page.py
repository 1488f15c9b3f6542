"""Write a benchmark of policies as one self-contained HTML page: a summary, charts, a table per workload, settings."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from scaler.model.units import format_count
from tuner.lab.plan import BenchmarkCell
from tuner.lab.policy_summary import BenchmarkResult
from tuner.lab.shifts import SETTLING
from tuner.lab.summary_table import list_rows, list_summaries, say_errors
from tuner.views.dots import DotRow, draw_dots
from tuner.views.html_document import write_columns, write_document, write_facts, write_readings


def write_benchmark(result: BenchmarkResult) -> str:
    """The whole page."""
    plan = result.plan
    policies = format_count(len(plan.policies), "policy", "policies")
    groups = {cell.group: None for cell in plan.cells}
    tables = "".join(write_group(result, group) for group in groups)
    return write_document(
        f"{plan.name}: {policies} compared",
        f"<p>{format_count(len(plan.cells), 'setting', 'settings')}, "
        f"{format_count(len(plan.seeds), 'seed', 'seeds')} each.</p>{write_columns(list_summaries(result))}"
        f'<p class="faint">{escape(say_errors(result))}</p>\n'
        f"{write_charts(result)}\n{tables}\n{explain_columns(result)}{describe_cells(plan.cells)}",
    )


def write_group(result: BenchmarkResult, group: str) -> str:
    """One workload: every setting with every policy; the cheapest of a setting stands out."""
    rows = [row for row in result.rows if row.cell.group == group]
    least = {row.cell.size: min(r.cost.mean for r in rows if r.cell.size == row.cell.size) for row in rows}
    best = [len(result.plan.policies) > 1 and row.cost.mean == least[row.cell.size] for row in rows]
    return f"<h2>{escape(group)}</h2>{write_columns(list_rows(result, rows), best)}"


def write_charts(result: BenchmarkResult) -> str:
    """Multiples of the floor where there is any, else costs; of the last part too where the world changes."""
    if all(row.floor is None for row in result.rows):
        rows = make_dot_rows(result, "cost")
        return f"<h2>Cost by policy and setting</h2>{draw_dots(rows, [*result.plan.policies], 'Cost', 0.0)}"
    title = "Multiple of the floor by policy and setting"
    parts = [f"<h2>{title}</h2>", draw_chart(result, "multiple", title)]
    if result.plan.shift is not None:
        title = f"The same from {SETTLING:,} slots after the change on"
        parts += [f"<h2>{title}</h2>", draw_chart(result, "tail_multiple", title)]
    return "".join(parts)


def draw_chart(result: BenchmarkResult, measure: str, title: str) -> str:
    rows = [row for row in make_dot_rows(result, measure) if any(row.values)]
    return draw_dots(rows, [*result.plan.policies], title, 1.0)


def make_dot_rows(result: BenchmarkResult, measure: str) -> list[DotRow]:
    plan, many = result.plan, len(result.plan.policies)
    parts = [result.rows[i : i + many] for i in range(0, len(result.rows), many)]
    return [
        DotRow(cell.name, tuple(getattr(row, measure) for row in rows))
        for cell, rows in zip(plan.cells, parts, strict=True)
    ]


def explain_columns(result: BenchmarkResult) -> str:
    return write_readings([*list_summaries(result), *list_rows(result, result.rows[:1])])


def describe_cells(cells: Sequence[BenchmarkCell]) -> str:
    """What stands behind each workload's name."""
    facts = {}
    for cell in cells:
        setting = cell.world.setting
        rates, w = setting.trace.rates, setting.weights
        operators = "; ".join(f"{o.name} {1.0 / o.moments.mean:.4g}/s" for o in setting.application.operators)
        facts[cell.group] = (
            f"{rates.size:,} slots of {setting.trace.step_s:g} s, mean rate {rates.mean():.4g}, greatest "
            f"{rates.max():.4g} per second; operators, on speedup 1: {operators}; response time at most "
            f"{1000.0 * setting.r_max:.4g} ms; weights of violations {w.performance:g}, reconfigurations "
            f"{w.reconfiguration:g}, resources {w.resources:g}; plant {setting.plant}"
        )
    return f"<h2>What was replayed</h2>{write_facts(facts)}"
