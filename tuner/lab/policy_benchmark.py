"""Benchmark policies: replay every policy of a plan in every cell with every seed, and compute the floors.

Every floor is loaded or computed once, all in the pool of workers that does the replays: floors first, because they
take longest, then seed by seed with the policies in turn, so that two workers seldom compile the same one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from sim.floor import Bound, guess_seconds
from sim.simulate import MEASURES
from tuner.lab.plan import BenchmarkCell, BenchmarkPlan
from tuner.lab.shifts import ShiftedWorld
from tuner.simulation.comparison import Figure, average, spread
from tuner.simulation.floor_cache import (
    Floor,
    FloorQuery,
    Solve,
    ask_floor,
    compute_floor,
    find_folder,
    load_floor,
    lone_task,
    name_query,
    save_floor,
)
from tuner.simulation.runner import OnShare, Replay, ReplayJob, estimate_seconds, replay, run_jobs


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One policy in one cell: means over seeds, and the floor under them where one is known."""

    cell: BenchmarkCell
    floor: Bound | None
    floor_after: Bound | None  # of the last part, where the world changes
    policy: str  # as it is named on the command line
    title: str  # as the literature names it
    cost: Figure
    violations: Figure
    reconfigurations: Figure
    resources: Figure
    times_floor: Figure | None
    cost_after: Figure | None
    times_floor_after: Figure | None
    times_published_best: float | None
    microseconds_per_decision: Figure  # planning included


@dataclass(frozen=True, slots=True)
class FloorMultiples:
    """A policy's multiples of the floor over the cells that have one."""

    geometric_mean: float
    worst: float
    where: str


@dataclass(frozen=True, slots=True)
class PolicySummary:
    """One policy over all cells."""

    policy: str
    title: str
    cells_with_a_floor: int
    times_floor: FloorMultiples | None
    times_floor_after: FloorMultiples | None
    worst_violations: float
    worst_reconfigurations: float
    microseconds_per_decision: float  # mean over cells
    cells_as_cheap_as_published: int  # to the four decimals to which the best published cost is known


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """Result of a policy benchmark."""

    plan: BenchmarkPlan
    rows: tuple[PolicyRow, ...]  # cell by cell, policies in the order asked for
    summaries: tuple[PolicySummary, ...]

    @property
    def by_cell(self) -> list[tuple[BenchmarkCell, tuple[PolicyRow, ...]]]:
        """The cells, each with its rows."""
        many = len(self.plan.policies)
        return [(cell, self.rows[i * many : (i + 1) * many]) for i, cell in enumerate(self.plan.cells)]


def summarise_benchmark(
    plan: BenchmarkPlan, answers: Sequence[Floor | None], replays: Sequence[Replay]
) -> BenchmarkResult:
    """The replays in the order of the jobs: cell by cell, seed by seed, policy by policy."""
    seeds, policies = len(plan.seeds), len(plan.policies)
    rows = []
    for i, cell in enumerate(plan.cells):
        for j, policy in enumerate(plan.policies):
            first = i * seeds * policies + j
            rows.append(make_row(cell, policy, answers[i], replays[first : first + seeds * policies : policies]))
    summaries = tuple(summarise_policy([row for row in rows if row.policy == policy]) for policy in plan.policies)
    return BenchmarkResult(plan, tuple(rows), summaries)


def make_row(cell: BenchmarkCell, policy: str, answer: Floor | None, replays: Sequence[Replay]) -> PolicyRow:
    runs = tuple(replay.run for replay in replays)
    figures = {name: average(name, runs) for name in MEASURES}
    operators = len(cell.world.setting.application.operators)
    late = [replay.tail_cost for replay in replays if replay.tail_cost is not None]
    cost_after = spread(late) if late else None
    floor, floor_after = (None, None) if answer is None else (answer.whole, answer.tail)
    return PolicyRow(
        cell=cell,
        floor=floor,
        floor_after=floor_after,
        policy=policy,
        title=runs[0].policy,
        times_floor=scale(figures["cost"], floor),
        cost_after=cost_after,
        times_floor_after=scale(cost_after, floor_after),
        times_published_best=None if cell.published is None else figures["cost"].mean / cell.published.cost,
        microseconds_per_decision=spread([1e6 * run.seconds / (run.slots * operators) for run in runs]),
        **figures,
    )


def scale(cost: Figure | None, floor: Bound | None) -> Figure | None:
    """A cost as a multiple of the floor, where both are known."""
    return None if cost is None or floor is None else Figure(floor.multiple(cost.mean), floor.multiple(cost.error))


def summarise_policy(rows: Sequence[PolicyRow]) -> PolicySummary:
    """One policy's rows."""
    published = [(row.cost.mean, row.cell.published.cost) for row in rows if row.cell.published is not None]
    return PolicySummary(
        policy=rows[0].policy,
        title=rows[0].title,
        cells_with_a_floor=sum(row.floor is not None for row in rows),
        times_floor=measure_multiples([(row.times_floor, row.cell.name) for row in rows]),
        times_floor_after=measure_multiples([(row.times_floor_after, row.cell.name) for row in rows]),
        worst_violations=max(row.violations.mean for row in rows),
        worst_reconfigurations=max(row.reconfigurations.mean for row in rows),
        microseconds_per_decision=float(np.mean([row.microseconds_per_decision.mean for row in rows])),
        cells_as_cheap_as_published=sum(cost <= best + HALF_DIGIT for cost, best in published),
    )


def measure_multiples(multiples: Sequence[tuple[Figure | None, str]]) -> FloorMultiples | None:
    """Geometric mean and worst, of what is known."""
    known = [(figure.mean, where) for figure, where in multiples if figure is not None]
    if not known:
        return None
    worst, where = max(known)
    return FloorMultiples(math.exp(math.fsum(math.log(value) for value, _ in known) / len(known)), worst, where)


HALF_DIGIT = 0.00005  # published costs are rounded to four decimals


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
    for cell, seed, (policy, options) in product(plan.cells, plan.seeds, plan.policies.items()):
        setting = replace(cell.world.setting, policy=policy, options=options)
        jobs.append(ReplayJob(setting, seed, shift=cell.world.shift, tail=cell.world.tail))

    def on_done(i: int, result: Floor | Replay) -> None:
        if isinstance(result, Floor):
            answers[missing[i]] = result
            save_floor(folder, missing[i], result)

    results = run_jobs(partial(run_job, solve), jobs, [estimate_job(job) for job in jobs], on_share, on_done)
    replays = [result for result in results if isinstance(result, Replay)]
    return summarise_benchmark(plan, [None if name is None else answers[name] for name in names], replays)


def make_query(world: ShiftedWorld) -> FloorQuery | None:
    """What the floor of a world depends on; None where none is known."""
    if world.shift is None and world.tail is None:
        return ask_floor(world.setting)
    task, rates = lone_task(world.setting), world.setting.trace.rates
    if task is None:
        return None
    if world.shift is None:
        return FloorQuery(task, rates, tail=world.tail)
    return FloorQuery(task, rates, lone_task(world.shift.setting), world.shift.at, world.tail)


def run_job(compute: Solve, job: FloorQuery | ReplayJob, on_share: OnShare | None = None) -> Floor | Replay:
    return compute(job) if isinstance(job, FloorQuery) else replay(job, on_share)


def estimate_job(job: FloorQuery | ReplayJob) -> float:
    """Seconds that a job will take, roughly."""
    return guess_seconds(job.task, job.rates.size) if isinstance(job, FloorQuery) else estimate_seconds(job)
