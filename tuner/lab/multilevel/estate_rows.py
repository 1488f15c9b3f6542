"""Rows of the tables, and those beside them, replayed over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim.estate_replay import EstateRun, replay_estate
from tuner.lab.multilevel.printed_tables import SIMPLE, read_tables
from tuner.lab.multilevel.wordcount import APPLICATION_POLICIES, PoolChoice, load_rates, make_estate_setting
from tuner.lab.published.tables import run_jobs
from tuner.simulation.runner import OnShare

DAY_SLOTS = 1440
HEADROOM = PoolChoice("headroom", (("free_slots", 1),))
ONE_IDLE = PoolChoice("idle-nodes", (("idle", 1),))


@dataclass(frozen=True, slots=True)
class EstateRow:
    """Who decides on replicas and on nodes, and which replica goes."""

    application: str
    choice: PoolChoice
    empties: bool = False


@dataclass(frozen=True, slots=True)
class EstateJob:
    """One replay of a row."""

    folder: Path
    row: EstateRow
    seed: int
    slots: int


Runs = Mapping[EstateRow, Sequence[EstateRun]]


def list_rows() -> list[EstateRow]:
    """Every printed row once; beside them headroom and fewer idle nodes, and scale-in that empties nodes."""
    printed = [EstateRow(one.application, one.choice) for one in read_tables()]
    beside = [EstateRow(application, choice) for application in APPLICATION_POLICIES for choice in (HEADROOM, ONE_IDLE)]
    random = dict.fromkeys([*printed, *beside])
    sized = [row for row in random if row.choice.pool != "static"]
    return [*random, *(EstateRow(row.application, row.choice, empties=True) for row in sized)]


def run_rows(folder: Path, seeds: int, slots: int, on_share: OnShare) -> Runs:
    """Runs of every row; nothing is random where scale-in empties nodes, or with a static pool."""
    jobs = [
        EstateJob(folder, row, seed, slots)
        for row in list_rows()
        for seed in range(1 if row.empties or row.choice.pool == "static" else seeds)
    ]
    runs: dict[EstateRow, list[EstateRun]] = {}
    for job, run in zip(jobs, run_jobs(run_row, jobs, on_share), strict=True):
        runs.setdefault(job.row, []).append(run)
    return runs


def run_row(job: EstateJob) -> EstateRun:
    trace = load_rates(job.folder, job.slots)
    stated = make_estate_setting(trace, job.row.application, job.row.choice, job.row.empties)
    return replay_estate(stated, job.seed, DAY_SLOTS)


def simple_row(application: str) -> EstateRow:
    return EstateRow(application, SIMPLE)
