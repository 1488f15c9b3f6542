"""The export of tuning runs as Optuna reads it, trial by trial."""

from __future__ import annotations

import math
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
import pytest
from click.testing import CliRunner
from optuna.distributions import FloatDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from scaler.model.errors import BadInput
from scaler.model.task import Weights
from tuner.cli import main
from tuner.store import export
from tuner.store.applications import add_application
from tuner.store.connection import Store
from tuner.store.export import ExportCounts, export_to_optuna
from tuner.store.objectives import add_objective
from tuner.store.records import ObjectiveRecord, Trial, TuningRun
from tuner.store.runs import start_run
from tuner.store.trials import TrialCounts, add_trial, count_trials_by_application, load_history

START = 1_777_636_800.25
QOS = {"r_max": 0.05, "eta_v": 0.05, "eta_r": 0.1, "paths": {}}
FIGURES: dict[str, Any] = {
    "price": 9.5,
    "violations": 0.03,
    "reconfigurations": 0.02,
    "price_error": 0.25,
    "feasible": True,
    "slack": 0.4,
    "slots": 40_000,
    "seconds": 0.3125,
}


def make_parameters(i: int) -> dict[str, Any]:
    share = (i + 1) / 32
    weights = {"perf": 0.5 + i / 64, "rcf": 0.25, "res": 0.25 - i / 64}
    return {"shares": {"parse": share, "count": 1.03 - share}, "weights": weights}


def make_trials(run: TuningRun) -> list[Trial]:
    """Feasible, infeasible, given up, failed, infinitely late, of another program, and with a share above 1."""

    def make(i: int, state: str = "complete", parameters: dict[str, Any] | None = None, **figures: Any) -> Trial:
        given = parameters or make_parameters(i)
        return Trial(run.id or 0, i, given, state, 100 + i, START + i, START + i + 0.5, **figures)

    return [
        make(0, **FIGURES, detail={"purpose": "search", "policy": "ql", "note": {"x": 1.0}}),
        make(1, **FIGURES | {"violations": 0.08, "feasible": False, "slack": -0.6}),
        make(2, "pruned", **FIGURES | {"price": 30.0, "slots": 1_000}),
        make(4, "failed", failure="no core left"),
        make(5, **FIGURES | {"price": math.inf, "slack": -math.inf}, detail={"purpose": "verify", "of": 0}),
        make(6, parameters={"x": [0.25]}, price=0.5, feasible=True),
        make(7, parameters={"shares": {"parse": 1.25}, "weights": {}}, **FIGURES),
        make(8),  # complete, as it says, and without a cost
    ]


@pytest.fixture
def runs(store: Store) -> dict[str, list[TuningRun]]:
    """Two applications, one with two runs of which one has no trials."""
    made: dict[str, list[TuningRun]] = {}
    with store.begin() as session:
        for name, count in (("shop", 2), ("clicks", 1)):
            version = add_application(session, name, {}, START)
            settings = {"qos": QOS, "policy": "ql"} if name == "shop" else {}
            asked = TuningRun(version.id or 0, "gp", 7, 60, START, settings)
            made[name] = [start_run(session, asked, "me", START) for _ in range(count)]
            for trial in make_trials(made[name][0]):
                add_trial(session, made[name][0], trial, START)
    return made


def open_storage(path: Path) -> JournalStorage:
    return JournalStorage(JournalFileBackend(str(path)))


def load(path: Path, name: str) -> optuna.Study:
    return optuna.load_study(study_name=name, storage=open_storage(path))


@pytest.fixture
def exported(store: Store, runs: dict[str, list[TuningRun]], tmp_path: Path) -> Path:
    path = tmp_path / "studies.log"
    assert export_to_optuna(store, None, path) == ExportCounts(3, 16)
    return path


def test_every_trial_is_as_it_was(exported: Path, runs: dict[str, list[TuningRun]]) -> None:
    run = runs["shop"][0]
    study = load(exported, f"shop, run {run.ordinal}")
    assert study.user_attrs["qos"] == QOS
    assert (study.user_attrs["engine"], study.user_attrs["policy"], study.user_attrs["version"]) == ("gp", "ql", 1)
    made = make_trials(run)
    assert [trial.user_attrs["trial"] for trial in study.trials] == list(range(1, len(made) + 1))
    assert [trial.number for trial in study.trials] == list(range(len(made)))
    for there, trial in zip(study.trials, made, strict=True):
        check_trial(there, trial)


def check_trial(there: FrozenTrial, trial: Trial) -> None:
    failed = trial.state == "failed" or trial.price is None
    states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED}
    assert there.state == (TrialState.FAIL if failed else states[trial.state])
    assert there.value == (None if failed else trial.price)
    shares, weights = trial.parameters.get("shares", {}), trial.parameters.get("weights", {})
    assert there.params == {
        **{f"share {name}": share for name, share in shares.items()},
        **{f"weight {name}": weight for name, weight in weights.items()},
    }
    for name, distribution in there.distributions.items():
        assert distribution == FloatDistribution(0.0, 1.25 if name == "share parse" else 1.0)
    limits = [] if trial.violations is None else [trial.violations - 0.05, (trial.reconfigurations or 0.0) - 0.1]
    assert list(there.constraints.values()) == limits
    assert there.datetime_start == datetime.fromtimestamp(trial.started)
    assert there.datetime_complete == datetime.fromtimestamp(trial.ended)
    kept = there.user_attrs
    for name in ("number", "seed", "violations", "price_error", "feasible", "slack", "slots", "seconds", "failure"):
        assert kept.get(name) == getattr(trial, name)
    for name in ("purpose", "of", "policy"):
        assert kept.get(name) == trial.detail.get(name)
    assert kept.get("parameters") == (None if shares else trial.parameters)


def test_optuna_finds_the_best_of_the_feasible_trials(exported: Path, runs: dict[str, list[TuningRun]]) -> None:
    study = load(exported, f"shop, run {runs['shop'][0].ordinal}")
    with_figures = [trial for trial in study.get_trials(states=(TrialState.COMPLETE,)) if trial.constraints]
    assert [trial.number for trial in with_figures if all(c <= 0.0 for c in trial.constraints.values())] == [0, 4, 6]


def test_a_run_that_says_nothing_of_its_limits_has_no_constraints(
    exported: Path, runs: dict[str, list[TuningRun]]
) -> None:
    study = load(exported, f"clicks, run {runs['clicks'][0].ordinal}")
    assert len(study.trials) == 8
    assert all(not trial.constraints for trial in study.trials)
    assert load(exported, f"shop, run {runs['shop'][1].ordinal}").trials == []


def test_one_can_go_on_adding_to_it_with_optuna(exported: Path, runs: dict[str, list[TuningRun]]) -> None:
    study = load(exported, f"shop, run {runs['shop'][0].ordinal}")
    study.add_trial(optuna.create_trial(value=1.0))
    assert [trial.number for trial in study.trials] == list(range(9))
    assert len(load(exported, f"clicks, run {runs['clicks'][0].ordinal}").trials) == 8


def test_more_trials_than_are_written_at_once_keep_their_order(
    store: Store, runs: dict[str, list[TuningRun]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "TRIAL_BATCH", 3)
    told: list[int] = []
    assert export_to_optuna(store, "clicks", tmp_path / "c.db", told.append) == ExportCounts(1, 8)
    assert told == [3, 6, 8]
    written = load(tmp_path / "c.db", f"clicks, run {runs['clicks'][0].ordinal}").trials
    numbers = [trial.user_attrs["number"] for trial in written]
    assert numbers == [0, 1, 2, 4, 5, 6, 7, 8]


def test_the_command_tells_what_it_wrote_and_how_to_look_at_it(
    store: Store, runs: dict[str, list[TuningRun]], tmp_path: Path
) -> None:
    path = tmp_path / "studies.log"
    address = store.engine.url.render_as_string(hide_password=False).replace("+psycopg", "").replace("+pysqlite", "")
    result = CliRunner().invoke(main, ["db", "optuna", str(path), "--app", "shop", "--store", address])
    assert result.exit_code == 0, (result.output, result.exception)
    assert result.stdout == f"optuna-dashboard {path}\n"
    assert result.stderr.startswith(f"{path} has 2 runs and 8 trials.\n")
    assert [child.name for child in tmp_path.iterdir() if "studies" in child.name] == ["studies.log"]


def test_what_cannot_be_written_is_refused_and_leaves_nothing(
    store: Store, runs: dict[str, list[TuningRun]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there.db"
    there.write_text("mine")
    before = sorted(tmp_path.iterdir())
    for path, application, said in (
        (there, None, "is there already; name a new file"),
        (tmp_path / "no" / "x.db", None, "there is no folder"),
        (tmp_path / "x.db", "shap", "there is no application 'shap'; did you mean 'shop'?"),
    ):
        with pytest.raises(BadInput, match=said):
            export_to_optuna(store, application, path)
    monkeypatch.setattr(optuna, "__version__", "4.9.0")
    with pytest.raises(BadInput, match=r"optuna 4\.9\.0 is too old; install one with: pip install 'optuna>=5'"):
        export_to_optuna(store, None, tmp_path / "x.db")
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(BadInput, match="this needs the package optuna; install it with"):
        export_to_optuna(store, None, tmp_path / "x.db")
    assert sorted(tmp_path.iterdir()) == before
    assert there.read_text() == "mine"


def test_it_leaves_optuna_s_own_talk_as_it_was(exported: Path) -> None:
    assert optuna.logging.get_verbosity() == optuna.logging.INFO


def test_applications_are_tallied_over_all_their_runs(store: Store, runs: dict[str, list[TuningRun]]) -> None:
    with store.read() as session:
        tallies = count_trials_by_application(session)
        assert count_trials_by_application(session, "clicks") == {"clicks": tallies["clicks"]}
        assert count_trials_by_application(session, "shap") == {}
    assert tallies == {
        "shop": TrialCounts(2, 8, 0.5, START + 8.5),
        "clicks": TrialCounts(1, 8, 0.5, START + 8.5),
    }


def test_the_recommended_trial_and_the_measure_are_named(
    store: Store, runs: dict[str, list[TuningRun]], tmp_path: Path
) -> None:
    run = runs["shop"][0]
    with store.begin() as session:
        chosen = load_history(session, run.id or 0)[1]
        bounds = {"parse": 0.01, "count": 0.02}
        add_objective(
            session,
            ObjectiveRecord("shop", Weights(), bounds, START, trial_id=chosen.id, evidence={"run": run.id}),
        )
    export_to_optuna(store, "shop", tmp_path / "one.log")
    study = load(tmp_path / "one.log", f"shop, run {run.ordinal}")
    assert study.metric_names == ["price per hour"]
    assert [trial.user_attrs["number"] for trial in study.trials if trial.user_attrs.get("recommended")] == [1]
