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
from tuner.simulation.floor_cache import ask_floor, load_or_compute

QUICK_FLOOR = 100_000  # slots
HOLDS = ("held_seconds", "moved_bytes", "peak_extra_bytes")


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
    holds: dict[str, float]  # seconds held, bytes moved, most bytes beside the usual
    refused: Floats | None  # [operators] replicas a slot that were asked for and not to be had; None: without end
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


def is_hold_modelled(scenario: Scenario) -> bool:
    """Whether reconfigurations hold what they move, rather than all of them alike."""
    setting = scenario.settings[0]
    measured = any(operator.hold is not None for operator in setting.application.operators)
    return setting.plant != "memoryless" and (measured or setting.migration.kind != "none")


def compare(scenario: Scenario, runs: Sequence[Run], with_floor: bool | None = None) -> PolicyComparison:
    """The runs in the order of the jobs: policy by policy, seed by seed; None: with a floor that takes no time."""
    seeds = len(scenario.seeds)
    parts = [tuple(runs[i : i + seeds]) for i in range(0, len(runs), seeds)]
    rows = tuple(make_row(policy, part) for policy, part in zip(scenario.policies, parts, strict=True))
    setting = scenario.settings[0]
    quick = setting.trace.rates.size <= QUICK_FLOOR and len(setting.application.operators) == 1
    wanted = quick if with_floor is None else with_floor
    return PolicyComparison(scenario, rows, find_floor(setting) if wanted else None)


def make_row(policy: str, runs: tuple[Run, ...]) -> ComparisonRow:
    figures = {name: average(name, runs) for name in MEASURES}
    seconds = sum(run.seconds for run in runs)
    return ComparisonRow(
        policy=policy,
        title=runs[0].policy,
        replicas=np.mean([run.replicas for run in runs], axis=0),
        policy_bytes=round(sum(run.policy_bytes for run in runs) / len(runs)),
        holds={name: float(np.mean([getattr(run, name) for run in runs])) for name in HOLDS},
        refused=average_refused(runs),
        slots_per_second=sum(run.slots for run in runs) / seconds if seconds > 0.0 else math.inf,
        runs=runs,
        **figures,
    )


def average_refused(runs: tuple[Run, ...]) -> Floats | None:
    known = [run.refused for run in runs if run.refused is not None]
    return np.mean(known, axis=0) if known else None


def average(name: str, runs: tuple[Run, ...]) -> Figure:
    """Over seeds where there are several; the error of a single run is the one that it states itself."""
    found = spread([getattr(run, name) for run in runs])
    return found if len(runs) > 1 else Figure(found.mean, runs[0].errors[name])


def spread(values: Sequence[float]) -> Figure:
    """The mean over seeds and its standard error, NaN of a single one."""
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return Figure(float(np.mean(values)), float(error))


def find_floor(setting: Setting) -> Bound | None:
    """What no policy can beat, or a lower bound of it: None where neither is known (`ask_floor`)."""
    question = ask_floor(setting)
    return None if question is None else load_or_compute(question).whole
