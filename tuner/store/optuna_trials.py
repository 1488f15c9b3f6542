"""Convert trials of a tuning run to Optuna's frozen trials."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tuner.store.records import Trial, TuningRun

if TYPE_CHECKING:
    from optuna.distributions import FloatDistribution
    from optuna.trial import FrozenTrial

FIGURES = (
    *("seed", "violations", "reconfigurations"),
    *("price_error", "violations_error", "reconfigurations_error"),
    *("feasible", "slack", "slots", "seconds", "surrogate_id", "trace", "failure"),
)


def to_frozen(trials: Sequence[Trial], run: TuningRun) -> Iterator[FrozenTrial]:
    """In the order given; each has the ranges of all."""
    from optuna.trial import create_trial

    named = [list_parameters(trial) for trial in trials]
    ranges = find_ranges(named)
    for trial, parameters in zip(trials, named, strict=True):
        state = name_state(trial)
        frozen = create_trial(
            state=state,
            value=None if state.name == "FAIL" or trial.price is None else trial.price,
            params=parameters,
            distributions={name: ranges[name] for name in parameters},
            user_attrs=list_attributes(trial),
            system_attrs=list_constraints(trial, run),
        )
        frozen.datetime_start = datetime.fromtimestamp(trial.started)
        frozen.datetime_complete = datetime.fromtimestamp(trial.ended)
        yield frozen


def name_state(trial: Trial) -> Any:
    """Optuna's word for it; a complete trial must have a value."""
    from optuna.trial import TrialState

    if trial.state == "complete" and trial.price is None:
        return TrialState.FAIL
    return {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED}.get(trial.state, TrialState.FAIL)


def list_parameters(trial: Trial) -> dict[str, float]:
    shares, weights = trial.parameters.get("shares", {}), trial.parameters.get("weights", {})
    named = {f"share {name}": float(share) for name, share in shares.items()}
    return named | {f"weight {name}": float(weight) for name, weight in weights.items()}


def find_ranges(named: Sequence[dict[str, float]]) -> dict[str, FloatDistribution]:
    """From 0 to 1, or as far as any trial of the run went: Optuna wants the same of every trial."""
    from optuna.distributions import FloatDistribution

    highest: dict[str, float] = {}
    for parameters in named:
        for name, value in parameters.items():
            highest[name] = max(highest.get(name, 1.0), value)
    return {name: FloatDistribution(0.0, high) for name, high in highest.items()}


def list_attributes(trial: Trial) -> dict[str, Any]:
    """What is known of the trial besides, its id and number here included."""
    known = {name: getattr(trial, name) for name in FIGURES}
    detail = {key: trial.detail.get(key) for key in ("purpose", "of", "policy")}
    stated = {} if "shares" in trial.parameters else {"parameters": dict(trial.parameters)}
    told = {"trial": trial.id, "number": trial.number, **known, **detail, **stated}
    return {key: value for key, value in told.items() if value is not None}


def list_constraints(trial: Trial, run: TuningRun) -> dict[str, Any]:
    """In the form that every version of the dashboard reads; none where the trial has no figures."""
    qos = run.settings.get("qos", {})
    figures = ((trial.violations, qos.get("eta_v")), (trial.reconfigurations, qos.get("eta_r")))
    over = [value - limit for value, limit in figures if value is not None and limit is not None]
    return {"constraints": over} if len(over) == len(figures) and not any(map(math.isnan, over)) else {}
