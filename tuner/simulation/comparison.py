"""Compare policies over the runs of a scenario: one row per policy, each figure with its standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scaler.model.kernel import Floats
from sim.floor import Bound
from sim.setting import Setting
from sim.simulate import MEASURES, Run
from tuner.scenario.scenario import Scenario
from tuner.simulation.floor_cache import FloorQuery, load_or_compute, lone_task

QUICK_FLOOR = 100_000  # slots


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean and its standard error, NaN where there is none."""

    mean: float
    error: float


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One policy: the mean over its seeds."""

    policy: str  # as it is named on the command line
    title: str  # as the literature names it
    cost: Figure
    violations: Figure
    reconfigurations: Figure
    resources: Figure
    replicas: Floats  # [operators, N]
    policy_bytes: int
    slots_per_second: float
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """The rows, and the floor under their costs where one is known."""

    scenario: Scenario
    rows: tuple[ComparisonRow, ...]
    bound: Bound | None

    @property
    def best(self) -> ComparisonRow:
        return min(self.rows, key=lambda row: row.cost.mean)


def compare(scenario: Scenario, runs: Sequence[Run], with_floor: bool | None = None) -> PolicyComparison:
    """The runs in the order of the jobs: policy by policy, seed by seed; None: with a floor that takes no time."""
    seeds = len(scenario.seeds)
    parts = [tuple(runs[i : i + seeds]) for i in range(0, len(runs), seeds)]
    rows = tuple(make_row(policy, part) for policy, part in zip(scenario.policies, parts, strict=True))
    setting = scenario.settings[0]
    wanted = setting.trace.rates.size <= QUICK_FLOOR if with_floor is None else with_floor
    return PolicyComparison(scenario, rows, find_floor(setting) if wanted else None)


def make_row(policy: str, runs: tuple[Run, ...]) -> ComparisonRow:
    figures = {name: average(name, runs) for name in MEASURES}
    seconds = sum(run.seconds for run in runs)
    return ComparisonRow(
        policy=policy,
        title=runs[0].policy,
        replicas=np.mean([run.replicas for run in runs], axis=0),
        policy_bytes=round(sum(run.policy_bytes for run in runs) / len(runs)),
        slots_per_second=sum(run.slots for run in runs) / seconds if seconds > 0.0 else math.inf,
        runs=runs,
        **figures,
    )


def average(name: str, runs: tuple[Run, ...]) -> Figure:
    """Over seeds where there are several; the error of a single run is the one that it states itself."""
    found = spread([getattr(run, name) for run in runs])
    return found if len(runs) > 1 else Figure(found.mean, runs[0].errors[name])


def spread(values: Sequence[float]) -> Figure:
    """The mean over seeds and its standard error, NaN of a single one."""
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return Figure(float(np.mean(values)), float(error))


def find_floor(setting: Setting) -> Bound | None:
    """What no policy can beat: known for one operator that starts on the first type of a memoryless plant."""
    task = lone_task(setting)
    return None if task is None else load_or_compute(FloorQuery(task, setting.trace.rates)).whole
