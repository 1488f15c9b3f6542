"""Applications to tune, whole runs of them, and what two runs that should be the same have to have alike."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # linear_operator is behind PyTorch's latest
    import gpytorch  # noqa: F401

from tuner.description import read_description
from tuner.search.brief import Wanted
from tuner.search.tuning import Ended, resume_tuning, start_tuning, tune
from tuner.store.applications import add_application
from tuner.store.connection import Store, open_store
from tuner.store.objectives import list_objectives
from tuner.store.records import Objective, Trial, TuningRun
from tuner.store.runs import list_runs
from tuner.store.trials import load_history

DEMO = Path(str(files("tuner.example").joinpath("demo.toml")))
APP = "clicks"
POLICY = "ql-pds-plus"
CHANGING = ("id", "run_id", "started", "ended", "seconds")  # of a trial, with the database and the clock


@dataclass
class Stop(Exception):
    """What ends a tuning in the middle."""

    after: int


def describe(name: str = APP, slots: int = 3000, **tables: Mapping[str, Any]) -> dict[str, Any]:
    """The bundled example, shortened and with a policy that takes little time, and these tables over its own."""
    flags = {"trace": {"slots": slots}, "policy": {"name": POLICY}, **tables}
    return read_description(DEMO, name, flags)


def add(store: Store, name: str = APP, **described: Any) -> None:
    put(store, name, describe(name, **described))


def put(store: Store, name: str, document: Mapping[str, Any]) -> None:
    with store.begin() as session:
        add_application(session, name, document, 0.0)


def run(store: Store, app: str = APP, flags: Mapping[str, Any] | None = None, **wanted: Any) -> Ended:
    """A tuning from its start to its end."""
    return tune(store, app, start_tuning(store, app, flags or {}, Wanted(**wanted)))


def stop_after(count: int) -> Callable[[Trial, Sequence[Trial]], None]:
    """Raises as soon as so many trials are kept."""

    def look(_: Trial, trials: Sequence[Trial]) -> None:
        if len(trials) >= count:
            raise Stop(count)

    return look


def run_in_pieces(store: Store, pieces: Sequence[int], app: str = APP, **wanted: Any) -> Ended:
    """A tuning that is stopped whenever it has kept so many trials, and resumed."""
    held = start_tuning(store, app, {}, Wanted(**wanted))
    for count in pieces:
        try:
            return tune(store, app, held, stop_after(count))
        except Stop:
            held = resume_tuning(store, app)
    return tune(store, app, held)


def figures(trial: Trial) -> dict[str, Any]:
    """All of a trial that does not depend on when and where it was made."""
    return {key: value for key, value in asdict(trial).items() if key not in CHANGING}


def all_figures(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    return [figures(trial) for trial in trials]


def recommended(objective: Objective | None) -> dict[str, Any] | None:
    """An objective, without what names this database's run and when."""
    if objective is None:
        return None
    evidence = {key: value for key, value in objective.evidence.items() if key != "run"}
    number = objective.provenance.split()[1]
    return {"weights": objective.weights, "bounds": dict(objective.bounds), "trial": number, "evidence": evidence}


def read_run(store: Store, run_id: int) -> list[Trial]:
    with store.read() as session:
        return load_history(session, run_id)


def read_objectives(store: Store, app: str = APP) -> list[Objective]:
    with store.read() as session:
        return list_objectives(session, app)


def read_runs(store: Store, app: str | None = None) -> list[TuningRun]:
    """The newest first."""
    with store.read() as session:
        return list_runs(session, app)


def run_anew(path: Path, pieces: Sequence[int] = (), **wanted: Any) -> Ended:
    """A tuning of the example in a database of its own."""
    with closing(open_store(path)) as store:
        add(store)
        return run_in_pieces(store, pieces, **wanted)
