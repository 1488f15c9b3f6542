"""Batches of evaluations on Spark come to the same as here, and no task is too small to be worth sending."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sim.arrivals import generate
from sim.graphs import find_application
from sim.infrastructure import find_infrastructure
from sim.setting import Setting
from tuner.scenario.layout import QoS
from tuner.search.evaluation import Evaluation, EvaluationSpec, SparkPool, count_tasks, evaluate_locally
from tuner.search.space.space import from_cube, make_space

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def make_exam() -> EvaluationSpec:
    trace = generate("diurnal", low=50.0, high=500.0, slots=3000, seed=1)
    setting = Setting(find_application("diamond"), find_infrastructure("A", 2), trace, "ql-pds-plus", 0.05)
    return EvaluationSpec(setting, QoS(0.05), (0, 1, 2), 500)


def plain(result: Evaluation) -> dict[str, Any]:
    """What is the same wherever it is computed."""
    kept = asdict(replace(result, seconds=0.0, replicas=np.zeros(0)))
    return kept | {"replicas": result.replicas.tolist()}


def test_results_from_spark_equal_those_from_here(spark: SparkSession) -> None:
    spec = make_exam()
    space = make_space(spec.setting.application, spec.setting.infrastructure, spec.qos)
    points = from_cube(space, np.random.default_rng(3).uniform(size=(7, space.size)))
    here = [plain(result) for result in evaluate_locally(spec, points, 30.0)]
    there = [plain(result) for result in SparkPool(spark).spread(spec, points, 30.0)]
    assert repr(there) == repr(here)  # NaN is not equal to itself, but its text is


def test_a_task_has_a_second_of_work() -> None:
    assert count_tasks(10, 0.05) == 1
    assert count_tasks(40, 0.1) == 4
    assert count_tasks(8, 3.0) == 8
    assert count_tasks(1, 0.001) == 1
