"""A store in; its tuning runs as studies in a file of Optuna's own, which optuna-dashboard opens, out.

A run is a study and a trial a trial: its shares and weights are the parameters, its cost the value, and what it broke
of its constraints, in the order of violations and reconfigurations, Optuna's constraints (feasible: none above 0).
Optuna's `add_trials` commits each by itself, after counting those before it; here its own tables are filled at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, insert

from scaler.model.errors import BadInput
from scaler.model.files import check_place
from tuner.store.applications import load_application, load_version
from tuner.store.connection import Store
from tuner.store.export import being_written, tell_nobody
from tuner.store.optuna_trials import to_frozen
from tuner.store.records import ApplicationVersion, TuningRun
from tuner.store.rows import BATCH
from tuner.store.runs import list_runs
from tuner.store.trials import load_history

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial

OLDEST = 5  # of Optuna; those before kept local times
SPECIAL = "?#%{}"  # in a path, to a URL or to Optuna's templates of URLs
Tell = Callable[[int], None]  # how many trials are done


@dataclass(frozen=True, slots=True)
class ExportCounts:
    """How much went into the file."""

    studies: int
    trials: int


def export_to_optuna(store: Store, application: str | None, path: Path, tell: Tell = tell_nobody) -> ExportCounts:
    """A study per run of the application, or of all; the file is there when it is whole."""
    check_target(path)
    studies = trials = 0
    with store.read() as session, being_written(path) as part, opened(part) as storage:
        if application is not None:
            load_application(session, application)
        with storage.engine.begin() as connection:  # one commit, for each waits for the disk
            for run in reversed(list_runs(session, application)):
                found = load_history(session, run.id or 0)
                version = load_version(session, run.application_version_id)
                studies += 1
                write_study(connection, studies, version, run)
                write_trials(connection, studies, to_frozen(found, run), first=trials + 1)
                trials += len(found)
                tell(trials)
    return ExportCounts(studies, trials)


def check_target(path: Path) -> None:
    check_optuna()
    check_place(path)
    if path.exists():
        raise BadInput(f"{path} is there already; name a new file")
    if any(letter in str(path) for letter in SPECIAL):
        raise BadInput(f"{path} has one of {' '.join(SPECIAL)} in it, which mean something in a URL; name another file")


def check_optuna() -> None:
    try:
        import optuna
    except ImportError:
        raise BadInput("this needs the package optuna; install it with: pip install 'optuna>=5'") from None
    if int(optuna.__version__.partition(".")[0]) < OLDEST:
        raise BadInput(f"optuna {optuna.__version__} is too old; install one with: pip install 'optuna>={OLDEST}'")


@contextmanager
def opened(path: Path) -> Iterator[RDBStorage]:
    """Optuna's storage in a new file, without what it tells of every study."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()
        optuna.logging.set_verbosity(before)


def write_study(connection: Connection, key: int, version: ApplicationVersion, run: TuningRun) -> None:
    """A study without trials."""
    from optuna.storages._rdb import models
    from optuna.study import StudyDirection

    told = {
        "application": version.application,
        "version": version.number,
        **{name: getattr(run, name) for name in ("engine", "seed", "budget", "state")},
        **{name: run.settings.get(name) for name in ("qos", "policy")},
    }
    kept = [(name, json.dumps(value)) for name, value in told.items() if value is not None]
    tables: tuple[tuple[Any, list[dict[str, Any]]], ...] = (
        (models.StudyModel, [{"study_id": key, "study_name": name_study(version.application, run)}]),
        (models.StudyDirectionModel, [{"study_id": key, "direction": StudyDirection.MINIMIZE, "objective": 0}]),
        (models.StudyUserAttributeModel, [{"study_id": key, "key": name, "value_json": text} for name, text in kept]),
    )
    for table, rows in tables:
        connection.execute(insert(table.__table__), rows)


def name_study(application: str, run: TuningRun) -> str:
    return f"{application}, run {run.id}"


def write_trials(connection: Connection, study: int, trials: Iterator[FrozenTrial], first: int) -> None:
    """Fill Optuna's tables; its trials get ids from `first` on and their places in the study as numbers."""
    from optuna.storages._rdb import models

    numbers = count()
    tables: tuple[Any, ...] = (
        models.TrialModel,
        models.TrialValueModel,
        models.TrialParamModel,
        models.TrialUserAttributeModel,
        models.TrialSystemAttributeModel,
    )
    while batch := list(islice(trials, BATCH)):
        rows = [list_rows(trial, study, n, first + n) for trial, n in zip(batch, numbers, strict=False)]
        for table, part in zip(tables, zip(*rows, strict=True), strict=True):
            if flat := [row for rows in part for row in rows]:
                connection.execute(insert(table.__table__), flat)


def list_rows(trial: FrozenTrial, study: int, number: int, key: int) -> tuple[list[dict[str, Any]], ...]:
    """Its rows in the tables of trials, values, parameters, and both kinds of attributes."""
    from optuna.storages._rdb.models import TrialValueModel

    stored, kind = TrialValueModel.value_to_stored_repr(trial.value) if trial.value is not None else (None, None)
    return (
        [
            {
                "trial_id": key,
                "number": number,
                "study_id": study,
                "state": trial.state,
                "datetime_start": to_utc(trial.datetime_start),
                "datetime_complete": to_utc(trial.datetime_complete),
            }
        ],
        [] if kind is None else [{"trial_id": key, "objective": 0, "value": stored, "value_type": kind}],
        [
            {
                "trial_id": key,
                "param_name": name,
                "param_value": value,
                "distribution_json": write_range(trial.distributions[name]),
            }
            for name, value in trial.params.items()
        ],
        [{"trial_id": key, "key": name, "value_json": json.dumps(value)} for name, value in trial.user_attrs.items()],
        [{"trial_id": key, "key": name, "value_json": json.dumps(value)} for name, value in trial.system_attrs.items()],
    )


@lru_cache(1024)  # of a run, all trials have the same
def write_range(distribution: BaseDistribution) -> str:
    from optuna.distributions import distribution_to_json

    return distribution_to_json(distribution)


def to_utc(local: datetime | None) -> datetime | None:
    """As Optuna stores what it shows in local time."""
    return None if local is None else local.astimezone(UTC).replace(tzinfo=None)
