"""Export tuning runs as studies to a journal file of Optuna's, which optuna-dashboard opens.

A run is a study and a trial a trial: its shares and weights are the parameters, its price the value, and violations and
reconfigurations less their limits Optuna's constraints (feasible: none above 0). `study.add_trials` takes as long
as one fsync for a trial in a journal; Optuna's SQLite storage takes 14 times as long, and longer the more trials it has
(tests/bench/bench_optuna_export.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaler.model.errors import BadInput
from scaler.model.files import check_place
from tuner.store.applications import load_application, load_version
from tuner.store.connection import Store
from tuner.store.export import being_written, tell_nobody
from tuner.store.records import ApplicationVersion, Trial, TuningRun
from tuner.store.runs import list_runs
from tuner.store.trials import load_history

if TYPE_CHECKING:
    from optuna.storages import JournalStorage
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


OLDEST_VERSION = 5  # of Optuna; those before stored local times
BATCH = 500  # trials
OnProgress = Callable[[int], None]  # how many trials are done


@dataclass(frozen=True, slots=True)
class ExportCounts:
    """How many studies and trials the file has."""

    studies: int
    trials: int


def export_to_optuna(store: Store, application: str | None, path: Path, tell: OnProgress = tell_nobody) -> ExportCounts:
    """Write a study per run of the application, or of all; the file is there when it is whole."""
    check_target(path)
    import optuna

    studies = trials = 0
    with store.read() as session, being_written(path) as part, open_journal(part) as storage:
        if application is not None:
            load_application(session, application)
        for run in reversed(list_runs(session, application)):
            version = load_version(session, run.application_version_id)
            study = optuna.create_study(storage=storage, study_name=name_study(version.application, run))
            for name, value in list_study_attributes(version, run).items():
                study.set_user_attr(name, value)
            studies += 1
            frozen = to_frozen(load_history(session, run.id or 0), run)
            while batch := list(islice(frozen, BATCH)):
                study.add_trials(batch)
                trials += len(batch)
                tell(trials)
    return ExportCounts(studies, trials)


def check_target(path: Path) -> None:
    check_optuna()
    check_place(path)
    if path.exists():
        raise BadInput(f"{path} is there already; name a new file")


def check_optuna() -> None:
    try:
        import optuna
    except ImportError:
        raise BadInput("this needs the package optuna; install it with: pip install 'optuna>=5'") from None
    if int(optuna.__version__.partition(".")[0]) < OLDEST_VERSION:
        raise BadInput(
            f"optuna {optuna.__version__} is too old; install one with: pip install 'optuna>={OLDEST_VERSION}'"
        )


@contextmanager
def open_journal(path: Path) -> Iterator[JournalStorage]:
    """Open Optuna's storage in a file, without its log line for every study."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    finally:
        optuna.logging.set_verbosity(before)


def list_study_attributes(version: ApplicationVersion, run: TuningRun) -> dict[str, Any]:
    """Return what the study says of its run, without what is not known."""
    known = {
        "application": version.application,
        "version": version.number,
        **{name: getattr(run, name) for name in ("engine", "seed", "budget", "state")},
        **{name: run.settings.get(name) for name in ("qos", "policy")},
    }
    return {name: value for name, value in known.items() if value is not None}


def name_study(application: str, run: TuningRun) -> str:
    return f"{application}, run {run.id}"
