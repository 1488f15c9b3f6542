"""Gather a trial with its run and the objectives made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.store.applications import load_version
from tuner.store.connection import Session
from tuner.store.objectives import list_objectives
from tuner.store.records import ObjectiveRecord, Trial, TuningRun
from tuner.store.runs import load_run
from tuner.store.trials import load_trial
from tuner.views.tuning import numbers, table

MEASURES = ("price", "violations", "reconfigurations")


@dataclass(frozen=True, slots=True)
class TrialView:
    application: str
    run: TuningRun
    trial: Trial
    figures: Sequence[tuple[str, float | None, float | None]]  # name, mean, standard error
    shares: Sequence[tuple[str, Any]]
    weights: Sequence[tuple[str, Any]]
    other: Mapping[str, Any]  # parameters of another kind
    replicas: Mapping[str, Mapping[str, Any]]
    objectives: Sequence[ObjectiveRecord]  # made of it


def gather_trial(session: Session, trial_id: int) -> TrialView:

    trial = load_trial(session, trial_id)
    run = load_run(session, trial.run_id)
    app = load_version(session, run.application_version_id).application
    used = table(trial.detail, "replicas")
    return TrialView(
        app,
        run,
        trial,
        [(name, getattr(trial, name), getattr(trial, f"{name}_error")) for name in MEASURES],
        list(numbers(trial.parameters, "shares").items()),
        list(numbers(trial.parameters, "weights").items()),
        {key: value for key, value in trial.parameters.items() if key not in ("shares", "weights")},
        {name: numbers(used, name) for name in used},
        [o for o in list_objectives(session, app) if o.trial_id == trial_id],
    )
