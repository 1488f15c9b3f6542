"""Reduce the time line of a replay to what charts can show.

Notation: T slots, C columns, D periods, N node types.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.model.kernel import Floats, Integers
from sim.application import paths
from sim.setting import Setting, gains, tasks
from sim.simulate import Run, Timeline

FEWEST_PER_CYCLE = 6


@dataclass(frozen=True, slots=True)
class Columns:
    """What the finite values of each column come to; NaN where it holds none."""

    low: Floats  # [C]
    mean: Floats  # [C]
    high: Floats  # [C]
    infinite: Integers  # [C] values that are not finite, counted


def choose_column_count(slots: int, columns: int, cycle: int) -> int:
    """At most so many columns, such that a cycle of so many slots fills several, or a column holds whole cycles.

    Between the two, means would swing with where in the cycle a column begins, and show a pattern that is not there.
    """
    each = slots / columns
    if each * FEWEST_PER_CYCLE <= cycle:
        return columns
    return math.ceil(slots / (math.ceil(each / cycle) * cycle))


def column_starts(slots: int, columns: int) -> Integers:
    """The first slot of each column; never more columns than slots."""
    wide = min(slots, columns)
    return np.arange(wide, dtype=np.int64) * slots // wide


def column_centres(slots: int, starts: Integers) -> Floats:
    """The middle from each start to the next, as a share of the width."""
    return (starts + np.append(starts[1:], slots)) / (2.0 * slots)


def reduce_columns(values: Floats, columns: int) -> Columns:
    """Reduce values [T] to columns."""
    starts = column_starts(len(values), columns)
    finite = np.isfinite(values)
    counts = np.add.reduceat(finite, starts, dtype=np.int64)
    sums = np.add.reduceat(np.where(finite, values, 0.0), starts)
    low = np.minimum.reduceat(np.where(finite, values, np.inf), starts)
    high = np.maximum.reduceat(np.where(finite, values, -np.inf), starts)
    there = counts > 0
    mean = np.divide(sums, counts, out=np.full(len(starts), np.nan), where=there)
    sizes = np.diff(np.append(starts, len(values)))
    return Columns(np.where(there, low, np.nan), mean, np.where(there, high, np.nan), sizes - counts)


def column_means(values: Floats | Integers, starts: Integers) -> Floats:
    """Mean of values [T] or [T, N] from each start to the next."""
    sizes = np.diff(np.append(starts, len(values)))
    sums = np.add.reduceat(values, starts, axis=0, dtype=np.float64)
    return sums / (sizes if values.ndim == 1 else sizes[:, None])


PERIODS = {"day": 86_400.0, "hour": 3_600.0}
FEWEST_PERIODS = 4


@dataclass(frozen=True, slots=True)
class OperatorCourse:
    """One operator; its arrivals are those that nothing upstream holds up."""

    name: str
    bound: float
    response: Columns
    replicas: Floats  # [C, N]
    arrivals: Columns


@dataclass(frozen=True, slots=True)
class ReplayCourse:
    """The whole application; its response time is that of its slowest path."""

    at: Floats  # [C] share of the width
    cost: Floats  # [D] mean of each period
    cost_at: Floats  # [D + 1] where the periods begin and the last one ends
    period: str
    running_cost: Floats  # [C] mean cost of all slots up to here
    response: Columns
    arrivals: Columns  # of the external stream
    operators: tuple[OperatorCourse, ...]


class SlotCosts(NamedTuple):
    """The application slot by slot [T]."""

    response: Floats  # of the slowest path
    violated: NDArray[np.bool_]
    moved: NDArray[np.bool_]
    resources: Floats
    cost: Floats


def make_course(setting: Setting, run: Run, columns: int) -> ReplayCourse:
    """The course of a recorded run."""
    line = run.timeline
    assert line is not None, "only a recorded run has a course"
    n = len(line.rates)
    slots = replay_costs(setting, line)
    columns = choose_column_count(n, columns, max(1, round(PERIODS["day"] / setting.trace.step_s)))
    starts = column_starts(n, columns)
    period, long = choose_period(n, setting.trace.step_s)
    periods = np.arange(0, n, long, dtype=np.int64)
    return ReplayCourse(
        at=column_centres(n, starts),
        cost=column_means(slots.cost, periods),
        cost_at=np.append(periods, n) / n,
        period=period,
        running_cost=column_means(np.cumsum(slots.cost) / np.arange(1, n + 1), starts),
        response=reduce_columns(slots.response, columns),
        arrivals=reduce_columns(line.rates, columns),
        operators=tuple(make_operator_course(setting, line, i, columns) for i in range(len(line.actions))),
    )


def choose_period(slots: int, step_s: float) -> tuple[str, int]:
    """What to average the cost over, and how many slots it has: the longest of which there are several."""
    for name, seconds in PERIODS.items():
        long = round(seconds / step_s)
        if long > 0 and slots >= FEWEST_PERIODS * long:
            return name, long
    return "slot", 1


def replay_costs(setting: Setting, line: Timeline) -> SlotCosts:
    """What each slot cost, put together from the time line as the replay does it."""
    w = setting.weights
    response = np.max([line.responses[list(path)].sum(axis=0) for path in paths(setting.application)], axis=0)
    prices = np.array([node.price for node in setting.infrastructure.types])
    resources = sum((line.replicas(i) @ prices for i in range(len(line.actions))), np.zeros(len(line.rates)))
    moved: NDArray[np.bool_] = (line.actions != 0).any(axis=0)
    dearest = sum(task.dearest for task in tasks(setting))
    violated = response > setting.r_max
    cost = w.performance * violated + w.reconfiguration * moved + w.resources * resources / dearest
    return SlotCosts(response, violated, moved, resources, cost)


def make_operator_course(setting: Setting, line: Timeline, i: int, columns: int) -> OperatorCourse:
    return OperatorCourse(
        name=setting.application.operators[i].name,
        bound=tasks(setting)[i].bound,
        response=reduce_columns(line.responses[i], columns),
        replicas=column_means(line.replicas(i), column_starts(len(line.rates), columns)),
        arrivals=reduce_columns(line.rates * gains(setting.application)[i], columns),
    )
