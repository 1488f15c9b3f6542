"""Applications to tune, whole runs of them, and what two runs that should be the same have to have alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from sim.setting import Setting
from sim.simulate import simulate
from tuner.scenario.description import read_description, scenario_of
from tuner.search.search_plan import TuneOptions, load_plan
from tuner.search.space.space import Parameters
from tuner.search.tuning_run import TuningResult, resume_tuning, start_tuning, tune
from tuner.store.applications import add_application
from tuner.store.connection import Store, open_store
from tuner.store.objectives import list_objectives
from tuner.store.records import ObjectiveRecord, Trial, TuningRun
from tuner.store.runs import list_runs
from tuner.store.trials import load_history

DEMO = Path(str(files("tuner.demo").joinpath("demo.toml")))
APP = "clicks"
POLICY = "ql-pds-plus"
OPERATORS = ("parse", "enrich", "count")
CHANGING = ("id", "ordinal", "run_id", "started", "ended", "seconds")  # of a trial, with the database and the clock


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


def run(store: Store, app: str = APP, flags: Mapping[str, Any] | None = None, **wanted: Any) -> TuningResult:
    """A tuning from its start to its end."""
    return tune(store, app, start_tuning(store, app, flags or {}, TuneOptions(**wanted)))


def stop_after(count: int) -> Callable[[Trial, Sequence[Trial]], None]:
    """Raises as soon as so many trials are kept."""

    def look(_: Trial, trials: Sequence[Trial]) -> None:
        if len(trials) >= count:
            raise Stop(count)

    return look


def run_in_pieces(store: Store, pieces: Sequence[int], app: str = APP, **wanted: Any) -> TuningResult:
    """A tuning that is stopped whenever it has kept so many trials, and resumed."""
    held = start_tuning(store, app, {}, TuneOptions(**wanted))
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


def recommended(objective: ObjectiveRecord | None) -> dict[str, Any] | None:
    """An objective, without what names this database's run and trial: a commit that is repeated uses up a number."""
    if objective is None:
        return None
    evidence = {key: value for key, value in objective.evidence.items() if key != "run"}
    return {"weights": objective.weights, "bounds": dict(objective.bounds), "evidence": evidence}


def read_run(store: Store, run_id: int) -> list[Trial]:
    with store.read() as session:
        return load_history(session, run_id)


def read_objectives(store: Store, app: str = APP) -> list[ObjectiveRecord]:
    with store.read() as session:
        return list_objectives(session, app)


def read_runs(store: Store, app: str | None = None) -> list[TuningRun]:
    """The newest first."""
    with store.read() as session:
        return list_runs(session, app)


def run_anew(path: Path, pieces: Sequence[int] = (), **wanted: Any) -> TuningResult:
    """A tuning of the example in a database of its own."""
    with closing(open_store(path)) as store:
        add(store)
        return run_in_pieces(store, pieces, **wanted)


def of(ended: TuningResult, purpose: str) -> list[Trial]:
    return [trial for trial in ended.trials if trial.detail["purpose"] == purpose]


def setting_of(ended: TuningResult, parameters: Parameters, r_max: float) -> Setting:
    """The setting in which a trial was replayed, from the run's document and the simulator's own words alone."""
    document = ended.run.settings["document"]
    setting = scenario_of(document).settings[0]
    bounds = {name: share * r_max for name, share in zip(OPERATORS, parameters.shares, strict=True)}
    highest = float(setting.trace.rates.max())
    return replace(setting, r_max=r_max, bounds=bounds, weights=parameters.weights, highest_rate=highest)


def replay(setting: Setting, seeds: Sequence[int]) -> tuple[float, float, float]:
    """Cost, violations and reconfigurations, as means over seeds."""
    runs = [simulate(setting, seed) for seed in seeds]
    means = np.mean([(r.resources, r.violations, r.reconfigurations) for r in runs], axis=0)
    return float(means[0]), float(means[1]), float(means[2])


def read_brief_of(store: Store, app: str = APP, flags: Mapping[str, Any] | None = None, **wanted: Any) -> Any:
    held = start_tuning(store, app, flags or {}, TuneOptions(**wanted))
    with store.read() as session:
        return load_plan(session, app, held)
