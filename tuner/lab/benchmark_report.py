"""Write a benchmark of policies as one self-contained HTML page: a summary, charts, a table per workload, settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from markupsafe import Markup

from scaler.model.units import NONE, format_count, format_fixed, format_number, format_percentage
from sim.floor import Bound
from sim.setting import Setting
from tuner.lab.plan import BenchmarkCell
from tuner.lab.policy_benchmark import BenchmarkResult, FloorMultiples, PolicyRow, PolicySummary
from tuner.lab.shifts import SETTLING, SHIFTS
from tuner.simulation.comparison import Figure
from tuner.views.chart import draw_dots
from tuner.views.comparison_report import describe_floor, explain_standard_error
from tuner.views.html_document import render, write_document, write_readings
from tuner.views.words import Column, make_columns, to_finite

FLOOR_READING = "least cost with the trace known beforehand; exact, or a bound that is no more than that"
Shown = tuple[str, Callable[[Any], str], str]  # a column: head, cell of a row, how to read it
DESCRIBED = [one.name for one in fields(PolicyRow) if one.name not in ("cell", "floor", "floor_after")]


def list_rows(result: BenchmarkResult, rows: Sequence[PolicyRow]) -> list[Column]:
    """The columns of one row per cell and policy, from the cell's size on."""
    several = len(result.plan.seeds) > 1

    def figures(head: str, digits: int, name: str, reading: str, always: bool = False, factor: float = 1.0) -> Shown:
        return head, lambda row: format_figure(getattr(row, name), digits, several or always, factor), reading

    shown: list[Shown] = [
        ("setting", lambda row: row.cell.size, "infrastructure, node types (N) and most replicas (K)"),
        ("policy", lambda row: row.policy, "as --policy names it"),
        ("floor", lambda row: format_bound(row.floor), FLOOR_READING),
        figures("cost", 4, "cost", "what a slot costs by the three weights, 0 to 1", True),
        figures("x floor", 3, "times_floor", "cost over the floor; 1 is what no policy beats", True),
        figures("violated %", 2, "violations", "slots that answer later than R_max", factor=100.0),
        figures("reconf. %", 2, "reconfigurations", "slots in which replicas change", factor=100.0),
        figures("resources", 2, "resources", "mean price per hour of the replicas that run"),
        figures("us/decision", 2, "microseconds_per_decision", "wall time per slot and operator, compiled"),
    ]
    if any(row.times_published_best is not None for row in rows):
        reading = "cost over the best published for it"
        shown.append(("x published", lambda row: format_fixed(row.times_published_best, 2), reading))
    if result.plan.shift is not None:
        since = f"from {SETTLING:,} slots after the change on"
        shown += [
            figures("cost after", 4, "cost_after", f"cost {since}", True),
            ("floor after", lambda row: format_bound(row.floor_after), f"floor {since}, from the best deployment"),
            figures("x after", 3, "times_floor_after", f"cost over floor {since}", True),
        ]
    return make_columns(rows, shown)


def list_summaries(result: BenchmarkResult) -> list[Column]:
    """The columns of one row per policy."""
    cells = len(result.plan.cells)

    def extents(after: str, pick: Callable[[PolicySummary], FloorMultiples | None]) -> list[Shown]:
        def show(form: Callable[[FloorMultiples], str]) -> Callable[[PolicySummary], str]:
            return lambda row: form(found) if (found := pick(row)) else NONE

        return [
            (f"mean x{after}", show(lambda m: format_fixed(m.geometric_mean)), "geometric mean of the multiples"),
            (f"worst x{after}", show(lambda m: f"{m.worst:.3f} ({m.where})"), "greatest multiple, and where"),
        ]

    shown: list[Shown] = [
        ("policy", lambda row: row.policy, "as --policy names it"),
        ("cells", lambda row: f"{row.cells_with_a_floor} of {cells}", "how many have a floor"),
        *extents("", lambda row: row.times_floor),
        *(extents(" after", lambda row: row.times_floor_after) if result.plan.shift is not None else []),
        ("worst violated %", lambda row: format_percentage(row.worst_violations), "greatest of any cell"),
        ("worst reconf. %", lambda row: format_percentage(row.worst_reconfigurations), "greatest of any cell"),
        ("us/decision", lambda row: f"{row.microseconds_per_decision:.2f}", "mean over cells"),
    ]
    if any(cell.published is not None for cell in result.plan.cells):
        reading = "in how many it costs no more than the best published policy, to the printed digit"
        shown.append(("as published", lambda row: f"{row.cells_as_cheap_as_published} of {cells}", reading))
    return make_columns(result.summaries, shown)


def format_figure(figure: Figure | None, digits: int, with_error: bool, factor: float) -> str:
    if figure is None:
        return NONE
    error = f" ± {factor * figure.error:.{digits}f}" if with_error and math.isfinite(figure.error) else ""
    return f"{factor * figure.mean:.{digits}f}{error}"


def format_bound(bound: Bound | None) -> str:
    return NONE if bound is None else f"{format_number(bound.lower)} {'exact' if bound.exact else 'bound'}"


def explain_errors(result: BenchmarkResult) -> str:
    """What stands after the ±, and what changes half-way."""
    said = explain_standard_error(result.plan.seeds)
    bare = sum(row.floor is None for row in result.rows) // len(result.plan.policies)
    if bare:
        said += f" {bare} of {len(result.plan.cells)} settings have no floor."
    if any(row.floor is not None and not row.floor.exact for row in result.rows):
        said += " Over a floor that is a bound, a multiple is no less than over the exact one."
    if result.plan.shift is not None:
        said += f" {result.plan.shift}: {SHIFTS[result.plan.shift].says}."
    return said


def write_benchmark(result: BenchmarkResult) -> str:
    """The whole page."""
    plan, summaries = result.plan, list_summaries(result)
    body = render(
        "benchmark.html",
        plan=plan,
        summaries=summaries,
        errors=explain_errors(result),
        charts=list(draw_charts(result)),
        groups=[list_group(result, group) for group in dict.fromkeys(cell.group for cell in plan.cells)],
        readings=write_readings([*summaries, *list_rows(result, result.rows[:1])]),
        replayed={cell.group: describe_setting(cell.world.setting) for cell in plan.cells},
    )
    return write_document(f"{plan.name}: {format_count(len(plan.policies), 'policy', 'policies')} compared", body)


def list_group(result: BenchmarkResult, group: str) -> tuple[str, list[Column], list[bool]]:
    """One workload: every setting with every policy, and whether it is the cheapest of its setting."""
    rows = [row for row in result.rows if row.cell.group == group]
    least = {row.cell.size: min(r.cost.mean for r in rows if r.cell.size == row.cell.size) for row in rows}
    best = [len(result.plan.policies) > 1 and row.cost.mean == least[row.cell.size] for row in rows]
    return group, list_rows(result, rows), best


def draw_charts(result: BenchmarkResult) -> Iterator[tuple[str, Markup]]:
    """Multiples of the floor where there is any, else costs; of the last part too where the world changes."""
    shown = [("times_floor", "Multiple of the floor by policy and setting", 1.0)]
    if all(row.floor is None for row in result.rows):
        shown = [("cost", "Cost by policy and setting", 0.0)]
    elif result.plan.shift is not None:
        shown.append(("times_floor_after", f"The same from {SETTLING:,} slots after the change on", 1.0))
    for measure, title, least in shown:
        rows = {cell.name: [getattr(row, measure) for row in rows] for cell, rows in result.by_cell}
        known = {name: figures for name, figures in rows.items() if any(figures)}
        yield title, draw_dots(known, [*result.plan.policies], title, least)


def describe_setting(setting: Setting) -> str:
    """What stands behind a workload's name."""
    rates, w = setting.trace.rates, setting.weights
    operators = "; ".join(f"{o.name} {1.0 / o.moments.mean:.4g}/s" for o in setting.application.operators)
    return (
        f"{rates.size:,} slots of {setting.trace.step_s:g} s, mean rate {rates.mean():.4g}, greatest "
        f"{rates.max():.4g} per second; operators, on speedup 1: {operators}; response time at most "
        f"{1000.0 * setting.r_max:.4g} ms; weights of violations {w.performance:g}, reconfigurations "
        f"{w.reconfiguration:g}, resources {w.resources:g}; plant {setting.plant}"
    )


def describe_benchmark(result: BenchmarkResult) -> dict[str, Any]:
    """Cells with a row per policy, and a summary per policy."""
    plan = result.plan
    described: dict[str, Any] = to_finite(
        {
            "plan": plan.name,
            "seeds": plan.seeds,
            "shift": plan.shift,
            "shift_says": None if plan.shift is None else SHIFTS[plan.shift].says,
            "policies": list(map(asdict, result.summaries)),
            "cells": [describe_benchmark_cell(cell, rows) for cell, rows in result.by_cell],
        }
    )
    return described


def describe_known(value: Any) -> Any:
    """A figure's fields; None where it is not known."""
    if isinstance(value, Bound):
        return describe_floor(value)
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def describe_benchmark_cell(cell: BenchmarkCell, rows: tuple[PolicyRow, ...]) -> dict[str, Any]:
    return {
        "workload": cell.workload,
        "application": cell.application,
        "infrastructure": cell.infrastructure,
        "n_res": cell.n_res,
        "k_max": int(cell.k_max) if cell.k_max.isdigit() else cell.k_max,
        "slots": cell.world.setting.trace.rates.size,
        "floor": describe_known(rows[0].floor),
        "floor_after": describe_known(rows[0].floor_after),
        "published_best": describe_known(cell.published),
        "policies": [{name: describe_known(getattr(row, name)) for name in DESCRIBED} for row in rows],
    }
