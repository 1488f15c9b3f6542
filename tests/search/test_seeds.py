"""Seeds of a replay that leaves nothing to chance are not replayed again; the figures are the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scaler.model.micro_batches import MicroBatches
from sim.setting import Setting
from sim.simulate import Run, simulate
from sim.trace import Trace
from tuner.scenario.scenario import make_toy
from tuner.search import evaluation

SEEDS = range(5)


def make_setting(policy: str, plant: str = "memoryless") -> Setting:
    rates = np.random.default_rng(0).uniform(20.0, 180.0, 300)
    return replace(make_toy(policy, plant), trace=Trace(rates))


def replay(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Run], list[int]]:
    """The runs, and the seeds that were really replayed."""
    replayed: list[int] = []

    def count(setting: Setting, seed: int, cores: int = 1) -> Run:
        replayed.append(seed)
        return simulate(setting, seed, cores=cores)

    monkeypatch.setattr(evaluation, "simulate", count)
    return evaluation.replay_seeds(setting, SEEDS), sorted(replayed)


@pytest.mark.parametrize(("policy", "wanted"), [("planner", [0]), ("threshold-c", [0]), ("ql", [*SEEDS])])
def test_runs_are_those_of_each_seed(policy: str, wanted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    setting = make_setting(policy)
    runs, replayed = replay(setting, monkeypatch)
    assert replayed == wanted
    for seed, run in zip(SEEDS, runs, strict=True):
        one = simulate(setting, seed)
        assert (run.seed, run.cost, run.violations, run.resources) == (seed, one.cost, one.violations, one.resources)
    assert evaluation.count_replayed(runs) == 300 * len(wanted)


def test_where_time_has_a_part_every_seed_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = make_setting("static", "batches")
    (operator,) = setting.application.operators
    quiet = replace(operator, batches=MicroBatches(noise_s=0.0))
    setting = replace(setting, application=replace(setting.application, operators=(quiet,)))
    assert replay(setting, monkeypatch)[1] == [*SEEDS]
