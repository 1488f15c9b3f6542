"""Years of control: the decision makers of the paper replayed on the same drawn levels, and what each year costs.

Every row is charged by the Application Manager's formula, decentralised ones too, as the printed counts show. Operator
Managers do not see each other: each one's year is replayed alone, and their deployments are put together afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scaler.model.kernel import Floats, Integers
from sim.compiler import start_compiling
from sim.level_chain import LevelChain, draw_levels
from tuner.lab.decentralised.chained_operators import (
    K_MAX,
    LIMIT_EACH_S,
    SERVICE_RATES,
    TABLE_LIMIT_S,
    YEAR,
    JointSpace,
    load_chain,
    make_joint_space,
    make_operator_space,
)
from tuner.lab.decentralised.control import KNOWN, LEARNED, PLANNED, control

TARGETS = (0.6, 0.7, 0.8)
DAYS = (1, 3, 7, 14, 30, 90, 365)
DAY_SLOTS = 1440
TABLE_OPERATORS = 3
CENTRAL, DECENTRAL = "central", "decentral"
Pipeline = tuple[int, float]  # how many operators, bound of the path
TABLE_PIPELINE: Pipeline = (TABLE_OPERATORS, TABLE_LIMIT_S)
PIPELINES: tuple[Pipeline, ...] = tuple((n, LIMIT_EACH_S * n) for n in range(1, len(SERVICE_RATES) + 1))


@dataclass(frozen=True, slots=True)
class ControlJob:
    """One decision maker (of each operator, if decentralised) over a year, on these pipelines."""

    folder: Path
    kind: str
    knows: int
    seed: int
    pipelines: tuple[Pipeline, ...]
    slots: int
    target: float = 0.0


@dataclass(frozen=True, slots=True)
class ControlYear:
    """What one year cost; counts are those of a whole year where the run is shorter."""

    cost: float
    violations: float
    reconfigurations: float
    instances: float
    course: tuple[float, ...]  # mean cost after each of DAYS


def list_control_jobs(folder: Path, seeds: int, slots: int) -> list[ControlJob]:
    """All that Table 1 and both figures need."""
    every, table = (TABLE_PIPELINE, *PIPELINES), (TABLE_PIPELINE,)
    jobs = []
    for seed in range(seeds):
        jobs += [
            ControlJob(folder, CENTRAL, knows, seed, every if knows == PLANNED else table, slots)
            for knows in (KNOWN, LEARNED, PLANNED)
        ]
        jobs += [
            ControlJob(folder, DECENTRAL, knows, seed, every, slots, target)
            for target in TARGETS
            for knows in (KNOWN, LEARNED)
        ]
    return jobs


def run_control(job: ControlJob) -> Mapping[Pipeline, ControlYear]:
    """The year on each pipeline."""
    start_compiling()
    chain = load_chain(job.folder)
    levels = draw_levels(chain, job.slots, job.seed)
    years = {}
    own: dict[float, Integers] = {}
    for pipeline in job.pipelines:
        rates = SERVICE_RATES[: pipeline[0]]
        space = make_joint_space(rates, pipeline[1], chain)
        if job.kind == CENTRAL:
            states = control(space, job.knows, chain, levels)
        else:
            states = control_apart(rates, space, job, chain, levels, own)
        years[pipeline] = charge(space, levels, states)
    return years


def control_apart(
    rates: tuple[float, ...],
    space: JointSpace,
    job: ControlJob,
    chain: LevelChain,
    levels: Integers,
    own: dict[float, Integers],
) -> Integers:
    """The joint states that Operator Managers lead to; the year of each service rate is replayed once."""
    for rate in rates:
        if rate not in own:
            own[rate] = control(make_operator_space(rate, job.target, chain), job.knows, chain, levels)
    joint = np.zeros(len(levels), np.int64)
    for rate, stride in zip(rates, space.choices.stride, strict=True):
        joint += own[rate] * stride
    return joint


def charge(space: JointSpace, levels: Integers, states: Integers) -> ControlYear:
    """Costs and counts of a course of joint states."""
    late = space.late[levels, states]
    moved = np.append(states[1:] != states[:-1], False)
    costs: Floats = space.rent[states] + space.w_late * late + space.w_rcf * moved
    share = YEAR / len(levels)
    whole = len(space.choices.stride) * K_MAX
    sums = costs.cumsum()
    ends = [min(len(costs), day * DAY_SLOTS) for day in DAYS]
    return ControlYear(
        cost=float(costs.mean()),
        violations=float(late.sum()) * share,
        reconfigurations=float(moved.sum()) * share,
        instances=float(space.rent[states].mean() / space.rent.max() * whole),
        course=tuple(float(sums[end - 1]) / end for end in ends),
    )
