"""Describe a tuning run as plain values for JSON; what is not finite is None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.views.plain import tame
from tuner.views.tuning import Figures, Tuning, rank
from tuner.views.tuning_summary import list_constraints, summarise


def describe_tuning(tuning: Tuning) -> dict[str, Any]:
    """As plain values for JSON."""
    run, chosen, objective = tuning.run, tuning.chosen, tuning.objective
    nearest = next(iter(rank(tuning.points)), None)
    described: dict[str, Any] = tame(
        {
            "application": tuning.application,
            "run": run.id,
            "state": run.state,
            "engine": run.engine,
            "seed": run.seed,
            "budget": run.budget,
            "trials": len(tuning.points),
            "qos": describe_limits(tuning),
            "says": summarise(tuning),
            "feasible": chosen is not None,
            "recommended": objective is not None,
            "trial": None if chosen is None else chosen.trial.number,
            "parameters": None if chosen is None else dict(chosen.trial.parameters),
            "nearest_trial": None if nearest is None or chosen is not None else nearest.trial.number,
            "objective": None if objective is None else {"version": objective.version, "state": objective.state},
            "evidence": None if objective is None else dict(objective.evidence),
            "slack": None if tuning.tuned is None else find_slack(tuning, tuning.tuned),
            "tuned": describe_figures(tuning.tuned),
            "baseline": describe_figures(tuning.baseline),
        }
    )
    return described


def find_slack(tuning: Tuning, figures: Figures) -> float | None:
    """The lesser of what both limits leave, as a part of them."""
    kept = [1.0 - v / limit for _, v, limit in list_constraints(tuning, figures) if v is not None and limit]
    return min(kept, default=None)


def describe_limits(tuning: Tuning) -> Mapping[str, Any]:
    limits = tuning.limits
    return {"r_max": limits.r_max, "eta_v": limits.eta_v, "eta_r": limits.eta_r}


def describe_figures(figures: Figures | None) -> dict[str, Any] | None:
    if figures is None:
        return None
    return {
        "cost": figures.cost,
        "cost_error": figures.cost_error,
        "violations": figures.violations,
        "reconfigurations": figures.reconfigurations,
        "replicas": {} if figures.replicas is None else {name: dict(by) for name, by in figures.replicas.items()},
    }
