"""List the columns of a comparison of policies as text, each with how to read it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from scaler.model.units import format_bytes, format_percentage, format_rate
from tuner.simulation.comparison import ComparisonRow, Figure, PolicyComparison
from tuner.views.html_document import Column


def list_columns(comparison: PolicyComparison) -> list[Column]:
    """All columns of the table but the policies' names."""
    bound = comparison.bound
    types = [node.name for node in comparison.scenario.settings[0].infrastructure.types]

    def column(head: str, cell: Callable[[ComparisonRow], str], reading: str) -> Column:
        return Column(head, tuple(cell(row) for row in comparison.rows), reading)

    columns = [
        column(
            "cost",
            lambda row: format_figure(row.cost),
            "what a slot costs by the three weights, 0 to 1; less is better",
        ),
        column(
            "violated %",
            lambda row: format_percentage(row.violations.mean),
            "share of the slots that answer later than R_max",
        ),
        column(
            "reconf. %",
            lambda row: format_percentage(row.reconfigurations.mean),
            "share of the slots in which a replica is added or removed",
        ),
        column("resources", lambda row: f"{row.resources.mean:.2f}", "mean price per hour of the replicas that run"),
        *(column(name, partial(format_replicas, i), f"mean replicas on {name}") for i, name in enumerate(types)),
        column("memory", lambda row: format_bytes(row.policy_bytes), "what the policy holds in its tables at the end"),
        column("slots/s", lambda row: format_rate(row.slots_per_second), "slots simulated per second, all operators"),
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


def format_replicas(node_type: int, row: ComparisonRow) -> str:
    """Mean replicas on a node type, over all operators."""
    return f"{row.replicas.sum(axis=0)[node_type]:.2f}"


def format_figure(figure: Figure) -> str:
    """A mean and its standard error, where there is one."""
    error = f"{figure.error:.4f}" if math.isfinite(figure.error) else "     -"
    return f"{figure.mean:.4f} ± {error}"


def explain_errors(comparison: PolicyComparison) -> str:
    """What the figure after the ± is."""
    seeds = comparison.scenario.seeds
    if len(seeds) == 1:
        return f"± is one standard error, from the means of blocks of slots; seed {seeds[0]}."
    return f"Means over {len(seeds)} seeds; ± is one standard error over them (0: nothing is left to chance)."
