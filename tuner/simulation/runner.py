"""Run replays and other jobs, here or on all cores when that pays; results come in the jobs' order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Protocol, TypeVar

import numpy as np

from scaler.policies import COORDINATORS, find_policy
from sim.compiler import is_compiling
from sim.graphs import single
from sim.infrastructure import find_infrastructure
from sim.setting import Setting, Shift
from sim.simulate import Run, simulate
from sim.trace import Trace
from tuner.scenario.scenario import Scenario, make_toy, on_plant
from tuner.simulation.course import ReplayCourse, make_course, replay_costs
from tuner.simulation.workers import Job, Result, run_all

PATIENCE_S = 2.0  # starting workers takes about a second
COMPILED_PACE, INTERPRETED_PACE = 1e6, 2e4  # slots per second and operator, roughly
GROWING_SLOTS = 4096  # in which a policy's tables grow

OnShare = Callable[[float], None]  # is called with the share of the work that is done
JobIn = TypeVar("JobIn", contravariant=True)
ResultOut = TypeVar("ResultOut", covariant=True)


class Work(Protocol[JobIn, ResultOut]):
    """What is done with a job; picklable, and able to say how far it is where it runs in this process."""

    def __call__(self, job: JobIn, on_share: OnShare | None = None) -> ResultOut: ...


@dataclass(frozen=True, slots=True, eq=False)
class ReplayJob:
    """One replay of a setting, which `shift` may change on the way."""

    setting: Setting
    seed: int
    columns: int = 0  # width of its charts; 0: none are drawn
    shift: Shift | None = None
    tail: int | None = None  # first slot of the last part, whose mean cost is wanted too


@dataclass(frozen=True, slots=True)
class Replay:
    """A finished replay; of its time line only what charts and the last part need."""

    run: Run
    course: ReplayCourse | None = None
    tail_cost: float | None = None


def list_jobs(scenario: Scenario, columns: int = 0) -> list[ReplayJob]:
    """Every policy with every seed; charts show the first seed of each policy."""
    return [
        ReplayJob(setting, seed, columns if seed == scenario.seeds[0] else 0)
        for setting in scenario.settings
        for seed in scenario.seeds
    ]


def replay(job: ReplayJob, on_share: OnShare | None = None) -> Replay:
    """Run one job; compile before, so that this does not count as deciding."""
    setting, operators, slots = job.setting, job.setting.application.operators, job.setting.trace.rates.size
    record = job.columns > 0 or job.tail is not None
    longest = max(operator.k_max for operator in operators)
    types = len(setting.infrastructure.types)
    warm_up(setting.policy, setting.plant, record or len(operators) > 1, types, longest)
    shifts = () if job.shift is None else (job.shift,)
    progress = None if on_share is None else lambda done: on_share(done / slots)
    run = simulate(setting, job.seed, record=record, progress=progress, shifts=shifts)
    if run.timeline is None:
        return Replay(run)
    course = make_course(setting, run, job.columns) if job.columns > 0 else None
    if job.tail is None:
        return Replay(replace(run, timeline=None), course)
    late = setting if job.shift is None else job.shift.setting
    cost = replay_costs(late, run.timeline).cost[job.tail :]
    return Replay(replace(run, timeline=None), course, float(cost.mean()))


@cache
def warm_up(policy: str, plant: str, record: bool, types: int, k_max: int) -> None:
    """Compile or load all that a problem of this size needs: a policy's tables may grow, and then by other kernels."""
    simulate(make_toy(policy, plant), record=record)
    if is_compiled(policy):
        rates = np.random.default_rng(0).uniform(0.0, 600.0, GROWING_SLOTS)
        nodes = find_infrastructure("A")
        few = replace(nodes, types=nodes.types[:types])
        application = on_plant(single(180.0, k_max), plant)
        simulate(Setting(application, few, Trace(rates), policy, 0.05, plant=plant), record=record)


def is_compiled(policy: str) -> bool:
    return is_compiling() and policy not in COORDINATORS and find_policy(policy).compiles


def estimate_seconds(job: ReplayJob) -> float:
    """Seconds that a replay will take, roughly."""
    setting = job.setting
    pace = COMPILED_PACE if is_compiled(setting.policy) else INTERPRETED_PACE
    return setting.trace.rates.size * len(setting.application.operators) / pace


def run_replays(jobs: Sequence[ReplayJob], on_share: OnShare) -> list[Replay]:
    """All replays, in the order of the jobs."""
    return run_jobs(replay, jobs, [estimate_seconds(job) for job in jobs], on_share)


def run_jobs(
    work: Work[Job, Result],
    jobs: Sequence[Job],
    seconds: Sequence[float],
    on_share: OnShare,
    on_done: Callable[[int, Result], None] | None = None,
) -> list[Result]:
    """Do all jobs, in their order; `seconds` are estimates.

    They run here one after another until one has taken long, and on all cores from the start where they are expected to
    take long in all. Compiling does not count, because workers on an empty cache would all compile the same.
    """
    here: list[Result] = []
    total, done = sum(seconds) or 1.0, 0.0

    def finish(i: int, result: Result) -> None:
        nonlocal done
        done += seconds[i]
        if on_done is not None:
            on_done(i, result)
        on_share(min(1.0, done / total))

    def report_share(before: float, own: float, share: float) -> None:
        on_share((before + share * own) / total)

    slow = sum(seconds) > PATIENCE_S
    while len(here) < len(jobs) and not (slow and len(jobs) - len(here) > 1):
        i = len(here)
        here.append(work(jobs[i], partial(report_share, done, seconds[i])))
        finish(i, here[-1])
        slow = isinstance(here[-1], Replay) and here[-1].run.seconds > PATIENCE_S
    first = len(here)
    return here + run_all(work, jobs[first:], lambda i, result: finish(first + i, result))
