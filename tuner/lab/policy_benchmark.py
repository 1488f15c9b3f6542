"""Benchmark policies: replay every policy of a plan in every cell with every seed, and compute the floors.

Every floor is loaded or computed once, all in the pool of workers that does the replays: floors first, because they
take longest, then seed by seed with the policies in turn, so that two workers seldom compile the same one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from sim.floors.shifted import guess_seconds
from tuner.lab.plan import BenchmarkPlan
from tuner.lab.policy_summary import BenchmarkResult, summarise_benchmark
from tuner.lab.shifts import ShiftedWorld
from tuner.simulation.floor_cache import (
    Floor,
    FloorQuery,
    Solve,
    compute_floor,
    find_folder,
    load_floor,
    lone_task,
    name_query,
    save_floor,
)
from tuner.simulation.runner import OnShare, Replay, ReplayJob, estimate_seconds, replay, run_jobs


def run_benchmark(
    plan: BenchmarkPlan, on_share: OnShare, folder: Path | None = None, solve: Solve = compute_floor
) -> BenchmarkResult:
    """Replay everything; `on_share` is called with the share of the work that is done."""
    folder = folder if folder is not None else find_folder()
    queries = [make_query(cell.world) for cell in plan.cells]
    names = [None if query is None else name_query(query) for query in queries]
    asked = {name: query for name, query in zip(names, queries, strict=True) if name and query}
    answers = {name: answer for name in asked if (answer := load_floor(folder, name)) is not None}
    missing = sorted((name for name in asked if name not in answers), key=lambda name: -estimate_job(asked[name]))
    jobs: list[FloorQuery | ReplayJob] = [asked[name] for name in missing]
    jobs += [
        make_job(cell.world, policy, plan, seed)
        for cell in plan.cells
        for seed in plan.seeds
        for policy in plan.policies
    ]

    def on_done(i: int, result: Floor | Replay) -> None:
        if isinstance(result, Floor):
            answers[missing[i]] = result
            save_floor(folder, missing[i], result)

    results = run_jobs(partial(run_job, solve), jobs, [estimate_job(job) for job in jobs], on_share, on_done)
    replays = [result for result in results if isinstance(result, Replay)]
    return summarise_benchmark(plan, [None if name is None else answers[name] for name in names], replays)


def make_query(world: ShiftedWorld) -> FloorQuery | None:
    """What the floor of a world depends on; None where none is known."""
    task = lone_task(world.setting)
    if task is None:
        return None
    rates = world.setting.trace.rates
    if world.shift is None:
        return FloorQuery(task, rates, tail=world.tail)
    return FloorQuery(task, rates, lone_task(world.shift.setting), world.shift.at, world.tail)


def make_job(world: ShiftedWorld, policy: str, plan: BenchmarkPlan, seed: int) -> ReplayJob:
    """The replay of a world under this policy."""
    setting = replace(world.setting, policy=policy, options=plan.policies[policy])
    return ReplayJob(setting, seed, shift=world.shift, tail=world.tail)


def run_job(compute: Solve, job: FloorQuery | ReplayJob, on_share: OnShare | None = None) -> Floor | Replay:
    return compute(job) if isinstance(job, FloorQuery) else replay(job, on_share)


def estimate_job(job: FloorQuery | ReplayJob) -> float:
    """Seconds that a job will take, roughly."""
    return guess_seconds(job.task, job.rates.size) if isinstance(job, FloorQuery) else estimate_seconds(job)
