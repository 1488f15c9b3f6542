"""Export the database as JSON lines, as a SQLite copy, or its runs as Optuna's studies.

For Optuna, a run is a study and a trial a trial: its shares and weights are the parameters, its price the value, and
violations and reconfigurations less their limits the constraints (feasible: none above 0). The file is a journal, which
optuna-dashboard opens: `study.add_trials` takes as long as one fsync for a trial in it; Optuna's SQLite storage takes
14 times as long, and longer the more trials it has (tests/bench/bench_optuna_export.py).
"""

from __future__ import annotations

import math
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from scaler.model.errors import BadInput
from scaler.model.files import check_place, replacing
from tuner.store.applications import load_application, load_version
from tuner.store.connection import Store, check_all_known, open_store
from tuner.store.json_fields import write_json
from tuner.store.objectives import list_objectives
from tuner.store.records import ApplicationVersion, Trial, TuningRun
from tuner.store.runs import list_runs
from tuner.store.schema_version import HEAD
from tuner.store.tables import BATCH, METADATA, names_of
from tuner.store.trials import load_history

if TYPE_CHECKING:
    from optuna.distributions import FloatDistribution
    from optuna.storages import JournalStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial

COPIES = (".db", ".sqlite", ".sqlite3")
LINES = (".jsonl", ".ndjson")
OnProgress = Callable[[int], None]  # how many rows, or trials, are done


def count_rows(session: Session) -> dict[str, int]:
    """How many rows each table has."""
    return {
        name: session.scalar(select(func.count()).select_from(table)) or 0 for name, table in METADATA.tables.items()
    }


def check_target(store: Store, path: Path) -> None:
    """Refuse, before the work, a file that cannot be written or whose ending says nothing known."""
    check_place(path)
    if path.suffix.lower() not in (*LINES, *COPIES):
        known = ", ".join((*LINES, *COPIES))
        raise BadInput(f"{path} ends in {path.suffix or 'nothing'}; end it in one of {known}, which says what to write")
    check_not_itself(store, path)


def check_not_itself(store: Store, path: Path) -> None:
    if store.address.path is not None and path.resolve() == store.address.path.resolve():
        raise BadInput(f"{path} is the database itself; name another file")


def tell_nobody(done: int) -> None:
    pass


def export_store(store: Store, path: Path, tell: OnProgress = tell_nobody) -> None:
    """JSON lines or a SQLite copy, as the file's ending says; one state of the database, others go on writing."""
    check_target(store, path)
    with being_written(path) as part:
        if path.suffix.lower() in LINES:
            write_lines(store, part, tell)
        elif store.address.path is not None:
            copy_file(store, part)
        else:
            check_all_known(store, "a copy")
            copy_rows(store, part, tell)


@contextmanager
def being_written(path: Path) -> Iterator[Path]:
    """A file beside `path` that takes its place when the block ends, and is gone when it raises."""
    try:
        with replacing(path) as part:
            try:
                yield part
            finally:
                for suffix in ("-wal", "-shm", "-journal"):
                    part.with_name(part.name + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}); name another file") from error


def write_lines(store: Store, path: Path, tell: OnProgress) -> None:
    """First a line that names the schema, then one per row: the table's name and its columns."""
    check_all_known(store, "an export")
    with path.open("w", encoding="utf-8") as file, store.read() as session:
        file.write(write_json({"table": "tuner_schema", "version_num": HEAD}) + "\n")
        done = 0
        for name, rows in read_tables(session):
            file.writelines(write_json({"table": name, **row}) + "\n" for row in rows)
            tell(done := done + len(rows))


def read_tables(session: Session) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Rows in batches in the order of their keys, of each table after those that it refers to."""
    for name, table in METADATA.tables.items():
        query = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=BATCH)
        for part in session.execute(query).mappings().partitions():
            yield name, [dict(row) for row in part]


def copy_file(store: Store, path: Path) -> None:
    """SQLite's own copy, without the space that deleted rows left."""
    raw = store.engine.raw_connection()
    try:
        raw.cursor().execute("VACUUM INTO ?", (str(path),))
    except sqlite3.Error as error:
        raise BadInput(f"{path} cannot be written ({error}); name another file") from error
    finally:
        raw.close()


def copy_rows(store: Store, path: Path, tell: OnProgress) -> None:
    """A new SQLite database with the same rows, ids included."""
    done = 0
    with closing(open_store(path)) as target:
        with store.read() as session, target.begin() as written:
            for name, rows in read_tables(session):
                columns = METADATA.tables[name].c
                keyed = [{column.key: row[column.name] for column in columns} for row in rows]
                written.connection().execute(insert(METADATA.tables[name]), keyed)
                tell(done := done + len(rows))
        raw = target.engine.raw_connection()
        raw.cursor().execute("PRAGMA journal_mode = DELETE")  # brings the write-ahead log into the file, kept alone
        raw.close()


OURS = ("id", "run_id", "ordinal")  # which Optuna has no use for
STATED = (*OURS, "parameters", "state", "started", "ended", "price", "detail")  # the others in Optuna's own words


METRIC = "price per hour"


def name_metric(study: Study) -> None:
    """Say what the objective value is; Optuna calls this call experimental, and the dashboard shows it."""
    from optuna.exceptions import ExperimentalWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        study.set_metric_names([METRIC])


def find_recommended(session: Session, version: ApplicationVersion, run: TuningRun) -> int | None:
    """The id of the trial that the run's objective was made of; the dashboard's best one may break the limits."""
    made = (one for one in list_objectives(session, version.application) if one.evidence.get("run") == run.id)
    return next((one.trial_id for one in made), None)


def to_frozen(trials: Sequence[Trial], run: TuningRun, recommended: int | None) -> Iterator[FrozenTrial]:
    """In the order given; each has the ranges of all, and the recommended one says so."""
    from optuna.trial import create_trial

    named = [
        {
            f"{kind} {name}": float(value)
            for kind in ("share", "weight")
            for name, value in trial.parameters.get(f"{kind}s", {}).items()
        }
        for trial in trials
    ]
    ranges = find_ranges(named)
    for trial, parameters in zip(trials, named, strict=True):
        state = name_state(trial)
        frozen = create_trial(
            state=state,
            value=None if state.name == "FAIL" or trial.price is None else trial.price,
            params=parameters,
            distributions={name: ranges[name] for name in parameters},
            user_attrs=list_attributes(trial) | ({"recommended": True} if trial.id == recommended else {}),
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


def find_ranges(named: Sequence[dict[str, float]]) -> dict[str, FloatDistribution]:
    """From 0 to 1, or as far as any trial of the run went: Optuna wants the same of every trial."""
    from optuna.distributions import FloatDistribution

    highest: dict[str, float] = {}
    for parameters in named:
        for name, value in parameters.items():
            highest[name] = max(highest.get(name, 1.0), value)
    return {name: FloatDistribution(0.0, high) for name, high in highest.items()}


def list_attributes(trial: Trial) -> dict[str, Any]:
    """What is known of the trial besides, first of all the number that people see; Optuna counts each study from 0."""
    known = {name: getattr(trial, name) for name in names_of(Trial, without=STATED)}
    detail = {key: trial.detail.get(key) for key in ("purpose", "of", "policy")}
    stated = {} if "shares" in trial.parameters else {"parameters": dict(trial.parameters)}
    told = {"trial": trial.ordinal, **known, **detail, **stated}
    return {key: value for key, value in told.items() if value is not None}


def list_constraints(trial: Trial, run: TuningRun) -> dict[str, Any]:
    """In the form that every version of the dashboard reads; none where the trial has no figures."""
    qos = run.settings.get("qos", {})
    figures = ((trial.violations, qos.get("eta_v")), (trial.reconfigurations, qos.get("eta_r")))
    over = [value - limit for value, limit in figures if value is not None and limit is not None]
    return {"constraints": over} if len(over) == len(figures) and not any(map(math.isnan, over)) else {}


OLDEST_VERSION = 5  # of Optuna; those before stored local times
TRIAL_BATCH = 500  # trials


@dataclass(frozen=True, slots=True)
class ExportCounts:
    """How many studies and trials the file has."""

    studies: int
    trials: int


def export_to_optuna(store: Store, application: str | None, path: Path, tell: OnProgress = tell_nobody) -> ExportCounts:
    """Write a study per run of the application, or of all; the file is there when it is whole."""
    check_optuna_target(path)
    import optuna

    studies = trials = 0
    with store.read() as session, being_written(path) as part, open_journal(part) as storage:
        if application is not None:
            load_application(session, application)
        for run in reversed(list_runs(session, application)):
            version = load_version(session, run.application_version_id)
            study = optuna.create_study(storage=storage, study_name=f"{version.application}, run {run.ordinal}")
            for name, value in list_study_attributes(version, run).items():
                study.set_user_attr(name, value)
            studies += 1
            name_metric(study)
            frozen = to_frozen(load_history(session, run.id or 0), run, find_recommended(session, version, run))
            while batch := list(islice(frozen, TRIAL_BATCH)):
                study.add_trials(batch)
                trials += len(batch)
                tell(trials)
    return ExportCounts(studies, trials)


def check_optuna_target(path: Path) -> None:
    """Refuse, before the work, where Optuna is missing or old, or the file there already."""
    try:
        import optuna
    except ImportError:
        raise BadInput("this needs the package optuna; install it with: pip install 'optuna>=5'") from None
    if int(optuna.__version__.partition(".")[0]) < OLDEST_VERSION:
        raise BadInput(
            f"optuna {optuna.__version__} is too old; install one with: pip install 'optuna>={OLDEST_VERSION}'"
        )
    check_place(path)
    if path.exists():
        raise BadInput(f"{path} is there already; name a new file")


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
    """Return the run's attributes of a study, without those that are unknown."""
    known = {
        "application": version.application,
        "version": version.number,
        **{name: getattr(run, name) for name in ("engine", "seed", "budget", "state")},
        **{name: run.settings.get(name) for name in ("qos", "policy")},
    }
    return {name: value for name, value in known.items() if value is not None}
