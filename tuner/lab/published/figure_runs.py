"""Runs behind the figures of one operator: settings, averages over seeds, the course of a run in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.kernel import Floats
from sim.setting import Setting, Shift
from sim.simulate import simulate
from tuner.lab.published.tables import load_workload, make_published_setting
from tuner.simulation.course import replay_costs

RULES = ("threshold", "drs", "lohrmann", "heinze")
LEARNERS = ("QL", "QL+PDS", "QL+PDS+")
NOT_RUN = "Not run: {} (minutes a cell; --deep runs them)."
ACCEPTABLE = 2.0  # times the cheapest


@dataclass(frozen=True, slots=True)
class RunJob:
    """One row of a figure: a setting, its seeds, and in how many parts the run is averaged."""

    label: tuple[object, ...]
    setting: Setting
    seeds: tuple[int, ...]
    parts: int = 1
    shift: Shift | None = None


def make_taxi_setting(folder: Path, policy: str, infrastructure: str = "A", n_res: int = 3) -> Setting:
    """The paper's single operator under the taxi trace, K_max 10; "DP" plans with the history month."""
    trace = load_workload("taxi", folder)
    if policy != "DP":
        return make_published_setting("taxi", infrastructure, n_res, 10, trace, policy)
    month = folder / "taxi_history.txt.gz"
    if not month.exists():
        raise BadInput(f"{month} is not there; DP plans with this history; --traces names the folder that holds it")
    setting = make_published_setting("taxi", infrastructure, n_res, 10, trace, "value-iteration")
    return replace(setting, options={"history": str(month)})


def average_runs(job: RunJob) -> Floats:
    """Mean cost, violations, reconfigurations and resources over seeds [parts, 4]."""
    shifts = () if job.shift is None else (job.shift,)
    if job.parts == 1:
        runs = [simulate(job.setting, seed, shifts=shifts) for seed in job.seeds]
        return np.array([[[r.cost, r.violations, r.reconfigurations, r.resources] for r in runs]]).mean(axis=1)
    return np.asarray(np.mean([average_parts(job, seed, shifts) for seed in job.seeds], axis=0))


def average_parts(job: RunJob, seed: int, shifts: Sequence[Shift]) -> Floats:
    """The four measures in consecutive parts of one run [parts, 4]; one operator."""
    line = simulate(job.setting, seed, record=True, shifts=shifts).timeline
    assert line is not None
    worlds = [replay_costs(setting, line) for setting in (job.setting, *(shift.setting for shift in shifts))]
    bounds = [0, *(shift.at for shift in shifts), len(line.rates)]
    stretches = [slice(*ends) for ends in pairwise(bounds)]
    parts = []
    for name in ("cost", "violated", "moved", "resources"):
        values = [getattr(world, name)[stretch] for world, stretch in zip(worlds, stretches, strict=True)]
        parts.append([part.mean() for part in np.array_split(np.concatenate(values), job.parts)])
    return np.array(parts).T
