"""Lay runs, trials and objectives out as plain documents, named by the numbers that people see: no id of the database.

Trials and runs are numbered 1, 2, ... by application. A trial that was verified, and its verification, name each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.model.units import format_money
from scaler.model.wire import write_fields
from tuner.store.records import ObjectiveRecord, Trial, TuningRun
from tuner.store.runs import find_state
from tuner.store.trials import Repeats
from tuner.views.words import format_ordinal

RUN_IDS = ("id", "ordinal", "application_version_id", "owner", "fence")
TRIAL_IDS = ("id", "ordinal", "run_id", "number", "surrogate_id")
OBJECTIVE_IDS = ("id", "trial_id", "surrogate_id")
SETTINGS_IDS = ("surrogate_id", "earlier")
FIGURES = ("price", "violations", "reconfigurations", "feasible")


def lay_out_run(run: TuningRun, now: float) -> dict[str, Any]:
    """A run; without a living process it is interrupted, whatever it was when that died."""
    plain = {**write_fields(run, RUN_IDS), "state": find_state(run, now), "settings": hide_ids(run.settings)}
    return {"run": run.ordinal, **plain}


def hide_ids(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A run's settings; its surrogate is named by its number."""
    return {name: value for name, value in settings.items() if name not in SETTINGS_IDS}


def lay_out_trial(trial: Trial, run: TuningRun, repeats: Repeats) -> dict[str, Any]:
    """A trial; `detail.of` is the trial that it verifies, `verified` the figures of the one that verifies it."""
    detail = {name: value for name, value in trial.detail.items() if name != "of"}
    if (of := repeats.find_repeated(trial)) is not None:
        detail["of"] = of.ordinal
    by = repeats.find_verification(trial)
    return {
        "trial": trial.ordinal,
        "run": run.ordinal,
        **write_fields(trial, TRIAL_IDS),
        "detail": detail,
        "purpose": trial.about.purpose,
        "verified": None if by is None else {"trial": by.ordinal} | {name: getattr(by, name) for name in FIGURES},
    }


def describe_repeat(trial: Trial, repeats: Repeats) -> list[str]:
    """The sentence that leads from a trial to its verification, or back: one trial has two prices."""
    if (of := repeats.find_repeated(trial)) is not None:
        return [
            f"This verifies trial {format_ordinal(of)} on fresh seeds and on the held-out part of the trace; on the "
            f"slots of the search that one cost {format_money(of.price)} per hour (its searched price)."
        ]
    if (by := repeats.find_verification(trial)) is not None:
        number = format_ordinal(by)
        return [
            "This is its searched price; on fresh seeds and on the held-out part of the trace it costs "
            f"{format_money(by.price)} per hour (its verified price, which objectives show): trial {number}."
        ]
    return []


def lay_out_objective(one: ObjectiveRecord, trial: Trial | None, run: TuningRun | None) -> dict[str, Any]:
    """An objective, with the trial and the run that it was made of; its evidence has the verified price, as `cost`."""
    numbers = {"trial": trial and trial.ordinal, "run": run and run.ordinal}
    more = {"searched_price": trial and trial.price, "evidence": {**one.evidence, "run": numbers["run"]}}
    return {**write_fields(one, OBJECTIVE_IDS), **numbers, **more}
