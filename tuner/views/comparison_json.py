"""Describe a comparison of policies as plain values for JSON; what is not finite is None."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sim.floors.clairvoyant import Bound
from sim.run import MEASURES, Run
from tuner.simulation.comparison import ComparisonRow, PolicyComparison
from tuner.views.plain import tame


def describe(comparison: PolicyComparison) -> dict[str, Any]:
    """The comparison as plain values for JSON; what is not finite is None."""
    setting = comparison.scenario.settings[0]
    return tame(
        {
            "scenario": comparison.scenario.document,
            "slots": setting.trace.rates.size,
            "seeds": comparison.scenario.seeds,
            "node_types": [asdict(node) for node in setting.infrastructure.types],
            "operators": [operator.name for operator in setting.application.operators],
            "floor": None if comparison.bound is None else describe_floor(comparison.bound),
            "policies": [describe_row(row, comparison.bound) for row in comparison.rows],
        }
    )


def describe_floor(bound: Bound) -> dict[str, Any]:
    return {"cost": bound.lower, "exact": bound.exact}


def describe_row(row: ComparisonRow, bound: Bound | None) -> dict[str, Any]:
    figures = {name: asdict(getattr(row, name)) for name in MEASURES}
    return {
        "policy": row.policy,
        "title": row.title,
        **figures,
        "times_floor": None if bound is None else bound.multiple(row.cost.mean),
        "replicas": row.replicas.tolist(),
        "policy_bytes": row.policy_bytes,
        "slots_per_second": row.slots_per_second,
        "runs": [describe_run(run) for run in row.runs],
    }


def describe_run(run: Run) -> dict[str, Any]:
    figures = {name: getattr(run, name) for name in MEASURES}
    return {"seed": run.seed, **figures, "errors": run.errors, "seconds": run.seconds}
