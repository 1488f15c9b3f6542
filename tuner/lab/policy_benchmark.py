"""A plan in; every floor and every replay, put together as standings, out.

Every floor is looked up or computed once, all in the pool of workers that does the replays: floors first, because they
take longest, then seed by seed with the policies in turn, so that two workers seldom compile the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from scaler.model.policy import Kernel
from scaler.policies import find_policy
from sim.compiler import is_compiling
from sim.floors.shifted import guess_seconds
from sim.graphs import single
from sim.infrastructure import find_infrastructure
from sim.setting import Setting
from sim.simulate import simulate
from sim.trace import Trace
from tuner.lab.plan import BenchmarkPlan
from tuner.lab.policy_summary import BenchmarkResult, ReplayOutcome, summarise_benchmark
from tuner.lab.shifts import ShiftedWorld
from tuner.scenario.policy_check import warm_up
from tuner.simulation.course import replay_costs
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
from tuner.simulation.parallel import run_all

PATIENCE_S = 3.0  # starting workers costs a second or two
COMPILED_PACE, INTERPRETED_PACE = 3e5, 2e4  # slots per second and operator, roughly

ENOUGH_TO_GROW = 4096  # slots

OnShare = Callable[[float], None]


@dataclass(frozen=True, slots=True, eq=False)
class ReplayJob:
    """One policy in one world with one seed: to be done."""

    world: ShiftedWorld
    seed: int


def run_benchmark(
    plan: BenchmarkPlan, on_share: OnShare, folder: Path | None = None, solve: Solve = compute_floor
) -> BenchmarkResult:
    """Replay everything; `on_share` hears which share of the work is done."""
    folder = folder if folder is not None else find_folder()
    questions = [make_query(cell.world) for cell in plan.cells]
    names = [None if question is None else name_query(question) for question in questions]
    asked = {name: question for name, question in zip(names, questions, strict=True) if name and question}
    answers = {name: answer for name in asked if (answer := load_floor(folder, name)) is not None}
    missing = sorted((name for name in asked if name not in answers), key=lambda name: -estimate_seconds(asked[name]))
    jobs: list[FloorQuery | ReplayJob] = [asked[name] for name in missing]
    jobs += [
        ReplayJob(with_policy(cell.world, policy, plan), seed)
        for cell in plan.cells
        for seed in plan.seeds
        for policy in plan.policies
    ]

    def on_done(i: int, result: Floor | ReplayOutcome) -> None:
        if isinstance(result, Floor):
            answers[missing[i]] = result
            save_floor(folder, missing[i], result)

    results = run_jobs(partial(run_job, solve), jobs, on_done, on_share)
    outcomes = [result for result in results if isinstance(result, ReplayOutcome)]
    return summarise_benchmark(plan, [None if name is None else answers[name] for name in names], outcomes)


def make_query(world: ShiftedWorld) -> FloorQuery | None:
    """What the floor of a world depends on; None where none is known."""
    task = lone_task(world.setting)
    if task is None:
        return None
    rates = world.setting.trace.rates
    if world.shift is None:
        return FloorQuery(task, rates, tail=world.tail)
    return FloorQuery(task, rates, lone_task(world.shift.setting), world.shift.at, world.tail)


def with_policy(world: ShiftedWorld, policy: str, plan: BenchmarkPlan) -> ShiftedWorld:
    """The world with this policy in it."""
    return replace(world, setting=replace(world.setting, policy=policy, options=plan.policies[policy]))


def run_job(solve: Solve, job: FloorQuery | ReplayJob) -> Floor | ReplayOutcome:
    return solve(job) if isinstance(job, FloorQuery) else replay(job)


def replay(job: ReplayJob) -> ReplayOutcome:
    """One run; compiling is done before, so that it is not taken for deciding."""
    world, setting = job.world, job.world.setting
    record = world.tail is not None
    operators = setting.application.operators
    longest = max(operator.k_max for operator in operators)
    warm_up_size(
        setting.policy, setting.plant, record or len(operators) > 1, len(setting.infrastructure.types), longest
    )
    shifts = () if world.shift is None else (world.shift,)
    run = simulate(setting, job.seed, record=record, shifts=shifts)
    if run.timeline is None:
        return ReplayOutcome(run)
    late = replay_costs(world.late, run.timeline).cost[world.tail :]
    return ReplayOutcome(replace(run, timeline=None), float(late.mean()))


@cache
def warm_up_size(policy: str, plant: str, record: bool, types: int, k_max: int) -> None:
    """Compile or load all that a problem of this size needs: a policy's tables may grow, and then by other kernels."""
    warm_up(policy, plant, record)
    if is_compiling() and isinstance(find_policy(policy), Kernel):
        rates = np.random.default_rng(0).uniform(0.0, 600.0, ENOUGH_TO_GROW)
        nodes = find_infrastructure("A")
        few = replace(nodes, types=nodes.types[:types])
        simulate(Setting(single(180.0, k_max), few, Trace(rates), policy, 0.05, plant=plant), record=record)


def run_jobs(
    function: Callable[[FloorQuery | ReplayJob], Floor | ReplayOutcome],
    jobs: Sequence[FloorQuery | ReplayJob],
    on_done: Callable[[int, Floor | ReplayOutcome], None],
    on_share: OnShare,
) -> list[Floor | ReplayOutcome]:
    """On all cores, or here where there is too little to do for starting workers."""
    shares = np.array([estimate_seconds(job) for job in jobs])
    done = 0.0

    def tell(i: int, result: Floor | ReplayOutcome) -> None:
        nonlocal done
        done += float(shares[i])
        on_done(i, result)
        on_share(done / float(shares.sum()))

    return run_all(function, jobs, tell, workers=1 if shares.sum() <= PATIENCE_S else None)


def estimate_seconds(job: FloorQuery | ReplayJob) -> float:
    """Seconds that a job will take, roughly."""
    if isinstance(job, FloorQuery):
        return guess_seconds(job.task, job.rates.size)
    setting = job.world.setting
    compiled = is_compiling() and isinstance(find_policy(setting.policy), Kernel)
    pace = COMPILED_PACE if compiled else INTERPRETED_PACE
    return setting.trace.rates.size * len(setting.application.operators) / pace
