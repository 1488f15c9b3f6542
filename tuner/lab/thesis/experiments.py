"""The nine experiments: what each run varies, what was published of it, how ours is replayed."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from scaler.model.kernel import Floats
from scaler.policies.learning.azimi import finish_training
from sim.compiler import start_compiling
from sim.operator_replay import OperatorReplay, begin_replay
from sim.replay import Record
from sim.setting import Setting, tasks
from sim.simulate import Timeline, empty_record
from tuner.lab.thesis.plant import (
    INTERVAL_S,
    LEAST,
    MOST,
    TARGET_S,
    WORKLOADS,
    bound_of,
    load_rates,
    make_setting,
    train_on,
)

MINUTE = 6  # slots
BASE: Mapping[str, Any] = {
    "strategy": "queue", "window": 2 * MINUTE, "interval": MINUTE, "granularity": 10.0, "alpha": 0.7, "clock": "batch",
}  # fmt: skip
STATIC: Mapping[str, Any] = {**BASE, "strategy": "static"}
UNSEEN = 0x7EA1  # of the seeds that learners train with
Key = tuple[str, str, str]  # experiment, workload, run


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a run is replayed; equal ones are the same run under several names."""

    workload: str
    policy: str = "azimi-c"
    options: tuple[tuple[str, Any], ...] = ()
    target_s: float = TARGET_S
    first: int = LEAST
    train: int = 0  # slots of the other workload
    depends_on_rate: bool = False


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """One run of the thesis, over 120 windows of 30 s."""

    experiment: str
    workload: str
    run: str
    latency_mean_s: float
    executors_mean: float
    share_of_windows_above_30_s: float
    executor_changes: int

    @property
    def key(self) -> Key:
        return self.experiment, self.workload, self.run


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed of a run came to."""

    latency_s: float  # mean of the windows, as they are reported: in whole seconds
    executors: float
    late: float  # share of the windows above 30 s
    missed: float  # share of the windows above the run's own target
    changes: int  # of the number of executors, from window to window
    cost: float
    response_s: float = field(default=0.0)  # mean of its records, which wait for their cut


def read_runs() -> list[PublishedRun]:
    """Every published run, in the order of the experiments."""
    text = files("tuner.lab.thesis").joinpath("runs.csv").read_text(encoding="utf-8")
    return [
        PublishedRun(
            row["experiment"],
            row["workload"],
            row["run"],
            float(row["latency_mean_s"]),
            float(row["executors_mean"]),
            float(row["share_of_windows_above_30_s"]),
            int(row["executor_changes"]),
        )
        for row in csv.DictReader(text.splitlines())
    ]


def pack(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(options.items()))


def list_variants() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Experiment, run and options of the learner's runs that differ by these alone."""
    for name, strategy in (("static", "static"), ("linear", "linear"), ("relative", "queue")):
        yield "e1", name, {"strategy": strategy}
    for minutes in (1, 2, 3):
        yield "e2", f"sliding{minutes}min", {"window": minutes * MINUTE}
        yield "e3", f"d{minutes}min", {"interval": minutes * MINUTE}
    yield "e4", "optimized", STATIC
    yield "e4", "zero", {**STATIC, "start": "zero", "choice": "epsilon", "epsilon": 0.2}
    yield "e4", "random", {**STATIC, "start": "random"}
    for name, alpha in (("0-7", 0.7), ("0-0-7", 0.07), ("0-0-0-7", 0.007)):
        yield "e5", name, {"alpha": alpha}
    for step in (5, 10, 15):
        yield "e6", f"{step}s", {"granularity": float(step)}


def list_recipes() -> dict[Key, Recipe]:
    """Every run of the thesis, but for those of policies that are not here."""
    found: dict[Key, Recipe] = {}
    for workload in WORKLOADS:
        base = Recipe(workload, options=pack(BASE))
        for experiment, run, options in list_variants():
            found[experiment, workload, run] = replace(base, options=pack({**BASE, **options}))
        for minutes in (5, 10, 20):
            learned = pack({**BASE, "start": "zero", "as_published": True})
            found["e7", workload, f"{minutes}min"] = replace(base, options=learned, train=minutes * MINUTE)
        seen = 3 if workload == "w1" else 2
        for target in (10, 20, 30):
            aimed = pack({**BASE, "window": seen * MINUTE})
            found["e8", workload, f"{target}s"] = replace(base, options=aimed, target_s=float(target))
        for many in (4, 8, 12, 24):
            found["final", workload, f"S{many}"] = Recipe(workload, "static", first=many)
        slow = pack({**BASE, "interval": 2 * MINUTE})
        found["final", workload, "QL"] = replace(base, options=slow) if workload == "w1" else base
        ratio = pack({"interval": MINUTE, "up": 0.6, "down": 0.3})
        found["final", workload, "SparkRM"] = Recipe(workload, "spark-ratio-c", ratio)
        found["final", workload, "OPO"] = Recipe(workload, "opo-c")
    return found


RIVALS = ("planner", "ds2-c", "flink-c", "pid-c", "threshold-p")


def list_rivals() -> dict[Key, Recipe]:
    """Other policies on the same job."""
    return {("rivals", workload, policy): Recipe(workload, policy) for policy in RIVALS for workload in WORKLOADS}


def setting_of(recipe: Recipe, folder: Path) -> Setting:
    """The recipe as a setting of the simulator."""
    setting = make_setting(recipe.workload, folder, recipe.first, recipe.depends_on_rate)
    return replace(setting, policy=recipe.policy, options=dict(recipe.options), r_max=bound_of(recipe.target_s))


def begin(setting: Setting, seed: int) -> OperatorReplay:
    return begin_replay(tasks(setting)[0], setting, setting.application.operators[0], seed)


def run_through(operation: OperatorReplay, rates: Floats) -> Record:
    """Replay all slots; what happened in each."""
    record = empty_record(len(rates))
    operation.advance(rates, len(rates), np.zeros((1, 4)), record)
    return record


def replay_run(recipe: Recipe, folder: Path, seed: int) -> Outcome:
    """One seed of a run; what it trains on comes first, on a plant of its own."""
    start_compiling()
    setting = setting_of(recipe, folder)
    operation = begin(setting, seed)
    if recipe.train > 0:
        other = next(name for name in WORKLOADS if name != recipe.workload)
        school = train_on(setting, load_rates(other, folder), 2 * recipe.train)
        school = replace(school, options={**setting.options, "train": recipe.train})
        learner = begin(school, seed ^ UNSEEN)
        run_through(learner, school.trace.rates)
        finish_training(learner.policy.state)
        operation.policy.state.q[:] = learner.policy.state.q
    start = operation.k.copy()
    record = run_through(operation, setting.trace.rates)
    return sum_up(setting, start, record, recipe.target_s)


def sum_up(setting: Setting, start: np.ndarray, record: Record, target_s: float) -> Outcome:
    """Means over 120 windows of 30 s, as the thesis reports them."""
    line = Timeline(setting.trace.rates, record.response[None], record.action[None], start[None], np.array([MOST + 1]))
    executors = line.replicas(0)[:, 0].reshape(-1, 3)
    latency = np.floor(np.maximum(0.0, record.response - INTERVAL_S / 2.0)).reshape(-1, 3).mean(axis=1)
    w = setting.weights
    return Outcome(
        latency_s=float(latency.mean()),
        executors=float(executors.mean()),
        late=float((latency > TARGET_S).mean()),
        missed=float((latency > target_s).mean()),
        changes=int(np.count_nonzero(np.diff(executors[:, -1]))),
        cost=float(
            w.performance * (record.response > setting.r_max).mean()
            + w.reconfiguration * (record.action != 0).mean()
            + w.resources * executors.mean() / MOST
        ),
        response_s=float(record.response.mean()),
    )
