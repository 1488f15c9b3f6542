"""Write a benchmark of policies as one self-contained HTML page: a summary, charts, a table per workload, settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from scaler.model.units import NONE, format_count, format_fixed, format_number, format_percentage
from sim.floor import Bound
from sim.simulate import MEASURES
from tuner.lab.plan import BenchmarkCell, PublishedBest
from tuner.lab.policy_benchmark import BenchmarkResult, FloorMultiples, PolicyRow, PolicySummary
from tuner.lab.shifts import SETTLING, SHIFTS
from tuner.simulation.comparison import Figure
from tuner.views.chart import DotRow, draw_dots
from tuner.views.comparison_report import describe_floor
from tuner.views.html_document import write_columns, write_document, write_facts, write_readings
from tuner.views.words import Column, to_finite

FLOOR_READING = "least cost with the trace known beforehand; exact, or a bound that is no more than that"


def list_rows(result: BenchmarkResult, rows: Sequence[PolicyRow]) -> list[Column]:
    """The columns of one row per cell and policy, from the cell's size on."""
    several = len(result.plan.seeds) > 1

    def column(head: str, cell: Callable[[PolicyRow], str], reading: str) -> Column:
        return Column(head, tuple(map(cell, rows)), reading)

    def figures(
        head: str, digits: int, pick: Callable[[PolicyRow], Figure | None], reading: str, always: bool
    ) -> Column:
        return column(head, lambda row: format_figure(pick(row), digits, several or always), reading)

    columns = [
        column("setting", lambda row: row.cell.size, "infrastructure, node types (N) and most replicas (K)"),
        column("policy", lambda row: row.policy, "as --policy names it"),
        column("floor", lambda row: format_bound(row.bound), FLOOR_READING),
        figures("cost", 4, lambda row: row.cost, "what a slot costs by the three weights, 0 to 1", True),
        figures("x floor", 3, lambda row: row.multiple, "cost over the floor; 1 is what no policy beats", True),
        figures("violated %", 2, lambda row: per_cent(row.violations), "slots that answer later than R_max", False),
        figures("reconf. %", 2, lambda row: per_cent(row.reconfigurations), "slots in which replicas change", False),
        figures("resources", 2, lambda row: row.resources, "mean price per hour of the replicas that run", False),
        figures("us/decision", 2, lambda row: row.microseconds, "wall time per slot and operator, compiled", False),
    ]
    if any(row.of_published is not None for row in rows):
        columns.append(
            column("x published", lambda row: format_fixed(row.of_published, 2), "cost over the best published for it")
        )
    if result.plan.shift is not None:
        since = f"from {SETTLING:,} slots after the change on"
        columns += [
            figures("cost after", 4, lambda row: row.tail_cost, f"cost {since}", True),
            column(
                "floor after",
                lambda row: format_bound(row.tail_bound),
                f"floor {since}, from the best deployment",
            ),
            figures("x after", 3, lambda row: row.tail_multiple, f"cost over floor {since}", True),
        ]
    return columns


def list_summaries(result: BenchmarkResult) -> list[Column]:
    """The columns of one row per policy."""
    rows = result.summaries
    cells = len(result.plan.cells)

    def column(head: str, cell: Callable[[PolicySummary], str], reading: str) -> Column:
        return Column(head, tuple(map(cell, rows)), reading)

    def extents(after: str, pick: Callable[[PolicySummary], FloorMultiples | None]) -> list[Column]:
        return [
            column(f"mean x{after}", lambda row: format_extent(pick(row), 3), "geometric mean of the multiples"),
            column(f"worst x{after}", lambda row: format_worst(pick(row)), "greatest multiple, and where"),
        ]

    columns = [
        column("policy", lambda row: row.policy, "as --policy names it"),
        column("cells", lambda row: f"{row.cells} of {cells}", "how many have a floor"),
        *extents("", lambda row: row.whole),
        *(extents(" after", lambda row: row.tail) if result.plan.shift is not None else []),
        column("worst violated %", lambda row: format_percentage(row.worst_violations), "greatest of any cell"),
        column("worst reconf. %", lambda row: format_percentage(row.worst_reconfigurations), "greatest of any cell"),
        column("us/decision", lambda row: f"{row.microseconds:.2f}", "mean over cells"),
    ]
    if any(cell.published is not None for cell in result.plan.cells):
        reading = "in how many it costs no more than the best published policy, to the printed digit"
        columns.append(column("as published", lambda row: f"{row.as_published} of {cells}", reading))
    return columns


def per_cent(figure: Figure) -> Figure:
    return Figure(100.0 * figure.mean, 100.0 * figure.error)


def format_figure(figure: Figure | None, digits: int, with_error: bool) -> str:
    if figure is None:
        return NONE
    if not with_error or not math.isfinite(figure.error):
        return f"{figure.mean:.{digits}f}"
    return f"{figure.mean:.{digits}f} ± {figure.error:.{digits}f}"


def format_bound(bound: Bound | None) -> str:
    return NONE if bound is None else f"{format_number(bound.lower)} {'exact' if bound.exact else 'bound'}"


def format_extent(extent: FloorMultiples | None, digits: int) -> str:
    return format_fixed(None if extent is None else extent.geometric_mean, digits)


def format_worst(extent: FloorMultiples | None) -> str:
    return NONE if extent is None else f"{extent.worst:.3f} ({extent.where})"


def explain_errors(result: BenchmarkResult) -> str:
    """What stands after the ±, and what changes half-way."""
    seeds = result.plan.seeds
    said = (
        f"± is one standard error, from the means of blocks of slots; seed {seeds[0]}."
        if len(seeds) == 1
        else f"Means over {len(seeds)} seeds; ± is one standard error over them (0: nothing is left to chance)."
    )
    bare = sum(row.floor is None for row in result.rows) // len(result.plan.policies)
    if bare:
        said += f" {bare} of {len(result.plan.cells)} settings have no floor: several operators, or a backlog."
    if any(row.floor is not None and not row.floor.whole.exact for row in result.rows):
        said += " Over a floor that is a bound, a multiple is no less than over the exact one."
    if result.plan.shift is not None:
        said += f" {result.plan.shift}: {SHIFTS[result.plan.shift].says}."
    return said


def write_benchmark(result: BenchmarkResult) -> str:
    """The whole page."""
    plan = result.plan
    columns = [*list_summaries(result), *list_rows(result, result.rows[:1])]
    policies = format_count(len(plan.policies), "policy", "policies")
    groups = {cell.group: None for cell in plan.cells}
    tables = "".join(write_group(result, group) for group in groups)
    return write_document(
        f"{plan.name}: {policies} compared",
        f"<p>{format_count(len(plan.cells), 'setting', 'settings')}, "
        f"{format_count(len(plan.seeds), 'seed', 'seeds')} each.</p>{write_columns(list_summaries(result))}"
        f'<p class="faint">{escape(explain_errors(result))}</p>\n'
        f"{write_charts(result)}\n{tables}\n{write_readings(columns)}{describe_cells(plan.cells)}",
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
        return draw_chart(result, "cost", "Cost by policy and setting", "Cost", 0.0)
    title = "Multiple of the floor by policy and setting"
    chart = draw_chart(result, "multiple", title, title, 1.0)
    if result.plan.shift is None:
        return chart
    title = f"The same from {SETTLING:,} slots after the change on"
    return chart + draw_chart(result, "tail_multiple", title, title, 1.0)


def draw_chart(result: BenchmarkResult, measure: str, title: str, axis: str, least: float) -> str:
    rows = [DotRow(cell.name, tuple(getattr(row, measure) for row in rows)) for cell, rows in result.by_cell]
    known = [row for row in rows if any(row.values)]
    return f"<h2>{title}</h2>{draw_dots(known, [*result.plan.policies], axis, least)}"


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


def describe_benchmark(result: BenchmarkResult) -> dict[str, Any]:
    """Cells with a row per policy, and a summary per policy."""
    plan = result.plan
    described: dict[str, Any] = to_finite(
        {
            "plan": plan.name,
            "seeds": plan.seeds,
            "shift": plan.shift,
            "shift_says": None if plan.shift is None else SHIFTS[plan.shift].says,
            "policies": [describe_summary(summary) for summary in result.summaries],
            "cells": [describe_benchmark_cell(cell, rows) for cell, rows in result.by_cell],
        }
    )
    return described


def describe_known(value: FloorMultiples | Figure | PublishedBest | Bound | None) -> dict[str, Any] | None:
    """The value's fields; None where it is not known."""
    if isinstance(value, Bound):
        return describe_floor(value)
    return None if value is None else asdict(value)


def describe_summary(summary: PolicySummary) -> dict[str, Any]:
    return {
        "policy": summary.policy,
        "title": summary.title,
        "cells_with_a_floor": summary.cells,
        "times_floor": describe_known(summary.whole),
        "times_floor_after": describe_known(summary.tail),
        "worst_violations": summary.worst_violations,
        "worst_reconfigurations": summary.worst_reconfigurations,
        "microseconds_per_decision": summary.microseconds,
        "cells_as_cheap_as_published": summary.as_published,
    }


def describe_benchmark_cell(cell: BenchmarkCell, rows: tuple[PolicyRow, ...]) -> dict[str, Any]:
    return {
        "workload": cell.workload,
        "application": cell.application,
        "infrastructure": cell.infrastructure,
        "n_res": cell.n_res,
        "k_max": int(cell.k_max) if cell.k_max.isdigit() else cell.k_max,
        "slots": cell.world.setting.trace.rates.size,
        "floor": describe_known(rows[0].bound),
        "floor_after": describe_known(rows[0].tail_bound),
        "published_best": describe_known(cell.published),
        "policies": [describe_row(row) for row in rows],
    }


def describe_row(row: PolicyRow) -> dict[str, Any]:
    return {
        "policy": row.policy,
        "title": row.title,
        **{name: describe_known(getattr(row, name)) for name in MEASURES},
        "times_floor": describe_known(row.multiple),
        "cost_after": describe_known(row.tail_cost),
        "times_floor_after": describe_known(row.tail_multiple),
        "times_published_best": row.of_published,
        "microseconds_per_decision": describe_known(row.microseconds),
    }
