"""Reduce the time line of a replay to what charts can show.

Notation: T slots, C columns, D periods, N node types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.model.kernel import Floats
from sim.application import paths
from sim.run import Run, Timeline
from sim.setting import Setting, gains, tasks
from tuner.simulation.columns import Columns, centres, cut, gather, means, settle

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
    """The application slot by slot."""

    response: Floats  # [T] of the slowest path
    cost: Floats  # [T]


def follow(setting: Setting, run: Run, columns: int) -> ReplayCourse:
    """The course of a recorded run."""
    line = run.timeline
    assert line is not None, "only a recorded run has a course"
    n = len(line.rates)
    slots = replay_costs(setting, line)
    columns = settle(n, columns, max(1, round(PERIODS["day"] / setting.trace.step_s)))
    starts = cut(n, columns)
    period, long = choose_period(n, setting.trace.step_s)
    periods = np.arange(0, n, long, dtype=np.int64)
    return ReplayCourse(
        at=centres(n, starts),
        cost=means(slots.cost, periods),
        cost_at=np.append(periods, n) / n,
        period=period,
        running_cost=means(np.cumsum(slots.cost) / np.arange(1, n + 1), starts),
        response=gather(slots.response, columns),
        arrivals=gather(line.rates, columns),
        operators=tuple(follow_operator(setting, line, i, columns) for i in range(len(line.actions))),
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
    cost = w.performance * (response > setting.r_max) + w.reconfiguration * moved + w.resources * resources / dearest
    return SlotCosts(response, cost)


def follow_operator(setting: Setting, line: Timeline, i: int, columns: int) -> OperatorCourse:
    return OperatorCourse(
        name=setting.application.operators[i].name,
        bound=tasks(setting)[i].bound,
        response=gather(line.responses[i], columns),
        replicas=means(line.replicas(i), cut(len(line.rates), columns)),
        arrivals=gather(line.rates * gains(setting.application)[i], columns),
    )
