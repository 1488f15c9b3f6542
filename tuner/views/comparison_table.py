"""A comparison in, the columns of its table as text out, each with the sentence that says how to read it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tuner.simulation.comparison import Comparison, Figure, Row


class Column(NamedTuple):
    """A head, one cell per policy, and how to read them."""

    head: str
    cells: tuple[str, ...]
    reading: str


def list_columns(comparison: Comparison) -> list[Column]:
    """All columns of the table but the policies' names."""
    bound = comparison.bound
    types = [node.name for node in comparison.scenario.settings[0].infrastructure.types]

    def column(head: str, cell: Callable[[Row], str], reading: str) -> Column:
        return Column(head, tuple(cell(row) for row in comparison.rows), reading)

    columns = [
        column(
            "cost",
            lambda row: format_figure(row.cost),
            "what a slot costs by the three weights, 0 to 1; less is better",
        ),
        column(
            "violated %",
            lambda row: f"{100 * row.violations.mean:.2f}",
            "share of the slots that answer later than R_max",
        ),
        column(
            "reconf. %",
            lambda row: f"{100 * row.reconfigurations.mean:.2f}",
            "share of the slots in which a replica is added or removed",
        ),
        column("resources", lambda row: f"{row.resources.mean:.2f}", "mean price per hour of the replicas that run"),
        *(column(name, partial(format_replicas, i), f"mean replicas on {name}") for i, name in enumerate(types)),
        column("memory", lambda row: format_bytes(row.policy_bytes), "what the policy holds in its tables at the end"),
        column("slots/s", lambda row: format_pace(row.slots_per_second), "slots simulated per second, all operators"),
    ]
    if bound is not None:
        multiples = column(
            "x floor",
            lambda row: f"{bound.multiple(row.cost.mean):.2f}",
            f"cost over {bound.lower:.4f}, {'the optimum' if bound.exact else 'below which none gets'} with the whole "
            "trace known beforehand",
        )
        columns.insert(1, multiples)
    return columns


def format_replicas(node_type: int, row: Row) -> str:
    """Mean replicas on a node type, over all operators."""
    return f"{row.replicas.sum(axis=0)[node_type]:.2f}"


def format_figure(figure: Figure) -> str:
    """A mean and its standard error, where there is one."""
    error = f"{figure.error:.4f}" if math.isfinite(figure.error) else "     -"
    return f"{figure.mean:.4f} ± {error}"


def format_bytes(size: float) -> str:
    """A size in the unit that leaves the fewest digits."""
    if size < 999.5:
        return f"{size:.0f} B"
    for unit in ("kB", "MB"):
        size /= 1000.0
        if size < 999.5:
            return f"{size:.0f} {unit}" if size >= 99.5 else f"{size:.1f} {unit}"
    return f"{size / 1000.0:.1f} GB"


def format_pace(slots_per_second: float) -> str:
    """Slots per second in three digits."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if slots_per_second >= 0.9995 * size:
            return f"{slots_per_second / size:.3g} {unit}"
    return f"{slots_per_second:.3g}"


def say_errors(comparison: Comparison) -> str:
    """What stands after the ±."""
    seeds = comparison.scenario.seeds
    if len(seeds) == 1:
        return f"± is one standard error, from the means of blocks of slots; seed {seeds[0]}."
    return f"Means over {len(seeds)} seeds; ± is one standard error over them (0: nothing is left to chance)."
