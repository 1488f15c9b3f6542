"""A trial written as a scenario and simulated comes to the same figures, whatever it was made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scaler.model.sample import Sample
from sim.simulate import simulate
from tests.commands import succeed
from tests.search.runs import APP, add, put
from tests.search.runs import run as tune_app
from tests.search.test_tuning_surrogate import TestSurrogate
from tests.surrogate.worlds import batch_stream
from tuner.scenario.scenario import read_scenario
from tuner.search.tuning_run import TuningResult
from tuner.store.applications import save_surrogate
from tuner.store.connection import Store, open_store
from tuner.store.records import Trial
from tuner.store.samples import save_samples
from tuner.surrogate.fit import fit
from tuner.surrogate.surrogate import to_record


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tuner.db"
    monkeypatch.setenv("TUNER_STORE", str(path))
    return path


def replay(app: str, trial: Trial, folder: Path) -> tuple[float, float, float]:
    """What `tuner simulate` comes to with the file that `tuner trial --toml` writes."""
    file = folder / f"trial{trial.ordinal}.toml"
    succeed("trial", app, trial.ordinal, "--toml", file)
    shown = json.loads(succeed("simulate", file, "--no-floor", "--json"))["policies"][0]
    assert shown["resources"]["mean"] == pytest.approx(trial.price, rel=1e-12)
    scenario = read_scenario(file)
    runs = [simulate(scenario.settings[0], seed) for seed in scenario.seeds]
    figures = [(run.resources, run.violations, run.reconfigurations) for run in runs]
    price, violations, reconfigurations = (sum(column) / len(runs) for column in zip(*figures, strict=True))
    return price, violations, reconfigurations


def check_all(app: str, ended: TuningResult, folder: Path) -> None:
    """One of each kind: the baseline, a searched one, a verification."""
    for purpose in ("baseline", "search", "verify"):
        trial = next(one for one in ended.trials if one.about.purpose == purpose and one.state == "complete")
        expected = (trial.price, trial.violations, trial.reconfigurations)
        assert replay(app, trial, folder) == pytest.approx(expected, rel=1e-12, abs=1e-15), purpose


def monitor(store: Store, samples: list[Sample], document: Mapping[str, Any]) -> None:
    put(store, "shop", document)
    with store.begin() as session:
        save_samples(session, samples)
        save_surrogate(session, to_record(fit(samples, "shop"), 1.0))


def test_a_described_trial_is_replayed_to_the_digit(db: Path, tmp_path: Path) -> None:
    store = open_store(db)
    add(store)
    check_all(APP, tune_app(store, APP, engine="random", budget=6), tmp_path)
    store.close()


def test_a_monitored_trial_is_replayed_to_the_digit(db: Path, tmp_path: Path) -> None:
    store = open_store(db)
    monitor(store, TestSurrogate.monitored(), TestSurrogate.DOCUMENT)
    ended = tune_app(store, "shop", engine="random", budget=8, eps=0.05)
    check_all("shop", ended, tmp_path)
    store.close()


def test_a_trial_in_micro_batches_is_replayed_to_the_digit(db: Path, tmp_path: Path) -> None:
    store = open_store(db)
    shape = {"name": "shop", "operator": [{"name": "count", "service_time": 0.001, "scv": 1.0, "k_max": 6}]}
    qos = {"r_max": 40.0, "eta_v": 0.3, "eta_r": 0.9}
    node = [{"name": "plain", "speedup": 1.0, "price": 1.0}]
    monitor(store, batch_stream(200), {"application": shape, "qos": qos, "infrastructure": {"node": node}})
    check_all("shop", tune_app(store, "shop", engine="random", budget=6), tmp_path)
    store.close()


def test_the_bound_shown_is_the_bound_pushed(db: Path, tmp_path: Path) -> None:
    store = open_store(db)
    monitor(store, TestSurrogate.monitored(), TestSurrogate.DOCUMENT)
    ended = tune_app(store, "shop", engine="random", budget=8, eps=0.05)
    store.close()
    assert ended.objective is not None
    chosen = next(one.ordinal for one in ended.trials if one.id == ended.objective.trial_id)
    rows = [row.split() for row in succeed("trial", "shop", chosen).partition("weights:")[0].splitlines()]
    shown = {row[0]: row[2] for row in rows if len(row) == 3}
    page = tmp_path / "report.html"
    told = succeed("report", "shop", "--html", page)
    for name, bound in ended.objective.bounds.items():
        assert float(shown[name]) == pytest.approx(1000.0 * bound, rel=1e-3)
        assert f"{1000.0 * bound:.3g} ms" in page.read_text()
    assert "go to triggers and scheduling, and operators' bounds share" in " ".join(told.split())
