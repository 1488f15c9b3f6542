"""Export tuning runs as studies to a journal file of Optuna's, which optuna-dashboard opens.

A run is a study and a trial a trial: its shares and weights are the parameters, its price the value, and violations and
reconfigurations less their limits Optuna's constraints (feasible: none above 0). `study.add_trials` takes as long
as one fsync for a trial in a journal; Optuna's SQLite storage takes 14 times as long, and longer the more trials it has
(tests/bench/bench_optuna_export.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaler.model.errors import BadInput
from scaler.model.files import check_place
from tuner.store.applications import load_application, load_version
from tuner.store.connection import Store
from tuner.store.export import being_written, tell_nobody
from tuner.store.optuna_trials import to_frozen
from tuner.store.records import ApplicationVersion, TuningRun
from tuner.store.runs import list_runs
from tuner.store.trials import load_history

if TYPE_CHECKING:
    from optuna.storages import JournalStorage

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
