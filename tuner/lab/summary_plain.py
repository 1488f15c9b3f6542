"""Convert a benchmark result to plain values for JSON; what is not finite becomes None."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sim.floors.clairvoyant import Bound
from sim.run import MEASURES
from tuner.lab.plan import BenchmarkCell
from tuner.lab.policy_summary import BenchmarkResult, FloorMultiples, PolicyRow, PolicySummary
from tuner.lab.shifts import SHIFTS
from tuner.simulation.comparison import Figure
from tuner.views.comparison_report import describe_floor
from tuner.views.words import tame


def describe_benchmark(result: BenchmarkResult) -> dict[str, Any]:
    """Cells with a row per policy, and a summary per policy."""
    plan, many = result.plan, len(result.plan.policies)
    parts = [result.rows[i : i + many] for i in range(0, len(result.rows), many)]
    described: dict[str, Any] = tame(
        {
            "plan": plan.name,
            "seeds": plan.seeds,
            "shift": plan.shift,
            "shift_says": None if plan.shift is None else SHIFTS[plan.shift].says,
            "policies": [describe_summary(summary) for summary in result.summaries],
            "cells": [describe_cell(cell, rows) for cell, rows in zip(plan.cells, parts, strict=True)],
        }
    )
    return described


def describe_summary(summary: PolicySummary) -> dict[str, Any]:
    return {
        "policy": summary.policy,
        "title": summary.title,
        "cells_with_a_floor": summary.cells,
        "times_floor": describe_extent(summary.whole),
        "times_floor_after": describe_extent(summary.tail),
        "worst_violations": summary.worst_violations,
        "worst_reconfigurations": summary.worst_reconfigurations,
        "microseconds_per_decision": summary.microseconds,
        "cells_as_cheap_as_published": summary.as_published,
    }


def describe_extent(extent: FloorMultiples | None) -> dict[str, Any] | None:
    return None if extent is None else asdict(extent)


def describe_cell(cell: BenchmarkCell, rows: tuple[PolicyRow, ...]) -> dict[str, Any]:
    return {
        "workload": cell.workload,
        "application": cell.application,
        "infrastructure": cell.infrastructure,
        "n_res": cell.n_res,
        "k_max": int(cell.k_max) if cell.k_max.isdigit() else cell.k_max,
        "slots": cell.world.setting.trace.rates.size,
        "floor": describe_bound(rows[0].bound),
        "floor_after": describe_bound(rows[0].tail_bound),
        "published_best": None if cell.published is None else asdict(cell.published),
        "policies": [describe_row(row) for row in rows],
    }


def describe_bound(bound: Bound | None) -> dict[str, Any] | None:
    return None if bound is None else describe_floor(bound)


def describe_row(row: PolicyRow) -> dict[str, Any]:
    return {
        "policy": row.policy,
        "title": row.title,
        **{name: describe_figure(getattr(row, name)) for name in MEASURES},
        "times_floor": describe_figure(row.multiple),
        "cost_after": describe_figure(row.tail_cost),
        "times_floor_after": describe_figure(row.tail_multiple),
        "times_published_best": row.of_published,
        "microseconds_per_decision": describe_figure(row.microseconds),
    }


def describe_figure(figure: Figure | None) -> dict[str, Any] | None:
    return None if figure is None else asdict(figure)
