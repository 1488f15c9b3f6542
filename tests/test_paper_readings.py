"""What the main paper's text says where the published program did otherwise: schedules, history, model errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scaler.model.policy import Start
from scaler.policies.learning.pds import PDS
from scaler.policies.learning.q_learning import Q_LEARNING
from scaler.policies.learning.q_values import cool_down, first_rates
from sim.graphs import single
from sim.infrastructure import find_infrastructure
from sim.operator_replay import read_history
from sim.setting import Setting, perturb_model, tasks
from sim.simulate import simulate
from sim.trace import Trace
from sim.trace_file import write_trace
from tests.examples import make_task

RATES = 200.0 + 150.0 * np.sin(np.arange(4_000) / 300.0)


def make_setting(policy: str, **options: object) -> Setting:
    trace = Trace(np.random.default_rng(0).poisson(RATES).astype(float))
    return Setting(single(180.0), find_infrastructure("A", 2), trace, policy, r_max=0.05, options=options)


def test_schedules_fall_without_a_floor_as_the_text_has_them() -> None:
    for floors, alpha, epsilon in ((True, 0.1, 0.01), (False, 0.98**200, 0.95**2000)):
        rates, clock = first_rates(), np.zeros(1, np.int64)
        for _ in range(2_000):
            cool_down(rates, clock, floors)
        assert rates == pytest.approx([alpha, epsilon])


@pytest.mark.parametrize("policy", ["ql", "ql-pds", "ql-pds-plus", "ql-fa"])
def test_the_switch_reaches_every_learner(policy: str) -> None:
    assert simulate(make_setting(policy, schedules_as_written=True)).cost != simulate(make_setting(policy)).cost


def test_floors_are_what_is_done_unless_told() -> None:
    task = make_task(types=2)
    for kernel in (Q_LEARNING, PDS):
        assert kernel.prepare(Start(task, task)).floors
        assert not kernel.prepare(Start(task, task, 0, {"schedules_as_written": True})).floors


def test_dynamic_programming_reads_the_history_month_from_a_file(tmp_path: Path) -> None:
    setting = make_setting("value-iteration")
    file = tmp_path / "month.txt.gz"
    write_trace(setting.trace, file)
    named = replace(setting, options={"history": str(file)})
    listed = replace(setting, options={"history": setting.trace.rates.tolist()})
    assert simulate(named).cost == simulate(listed).cost < simulate(setting).cost


def test_the_history_is_that_of_each_operator(tmp_path: Path) -> None:
    file = tmp_path / "month.txt"
    setting = replace(make_setting("value-iteration"), options={"history": str(file)}, highest_rate=400.0)
    write_trace(setting.trace, file)
    (task,) = tasks(setting)
    half = read_history(setting, replace(task, highest_rate=200.0))["history"]
    np.testing.assert_array_equal(half, setting.trace.rates / 2.0)


def test_the_models_rate_is_off_and_not_its_mean_where_asked() -> None:
    task = make_task(types=3)
    true = 1.0 / task.moments.mean
    off = np.array([1.0 / perturb_model(task, seed, of_rate=True).moments.mean / true - 1.0 for seed in range(400)])
    assert 0.05 <= np.abs(off).min() < 0.051
    assert 0.099 < np.abs(off).max() <= 0.1
    assert {-1.0, 1.0} == set(np.sign(off))
    means = np.array([perturb_model(task, seed).moments.mean * true - 1.0 for seed in range(400)])
    np.testing.assert_allclose(means, off, rtol=1e-9)
    setting = replace(make_setting("ql-pds-plus"), perturbed=True)
    assert simulate(setting).cost != simulate(replace(setting, perturbs_rate=True)).cost
