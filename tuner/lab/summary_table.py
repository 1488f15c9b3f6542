"""Columns of a benchmark result as text, each with a sentence that explains it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from scaler.model.units import NONE, format_fixed, format_number, format_percentage
from sim.floors.clairvoyant import Bound
from tuner.lab.policy_summary import BenchmarkResult, FloorMultiples, PolicyRow, PolicySummary
from tuner.lab.shifts import SETTLING, SHIFTS
from tuner.simulation.comparison import Figure
from tuner.views.html_document import Column

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


def say_errors(result: BenchmarkResult) -> str:
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
