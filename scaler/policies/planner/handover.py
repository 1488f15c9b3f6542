"""Carry what a planner learned of the workload and of the node types over to a task with another objective.

Capacities are of a node type, known by its name. What is known of the load at a threshold is known of that rate,
whatever number of replicas of whatever type it is the threshold of: with another bound, limit or set of types each
threshold takes over from the one whose rate is nearest. What is known of all thresholds together stays as it is.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import numpy as np

from scaler.model.kernel import Floats, Problem
from scaler.model.task import Task
from scaler.policies.planner.capacity import Capacity, refresh
from scaler.policies.planner.workload import Workload

NEAR = 1.25  # factor between the rates of two thresholds, beyond which the one says nothing of the other


def find_places(task: Task, earlier: Task) -> list[int]:
    """Of each node type of the task in the earlier one; -1 where it is new."""
    names = [node.name for node in earlier.types]
    return [names.index(node.name) if node.name in names else -1 for node in task.types]


def inherit_capacity(p: Problem, own: Capacity, before: Capacity, places: Sequence[int]) -> Capacity:
    """Service times as they were seen; those of types that were never seen stay as the task's model has them."""
    capacity = copy.deepcopy(own)
    if before.sights[-1] > 0:
        capacity.scv[0] = before.scv[0]
        capacity.sights[-1] = before.sights[-1]
    for i, place in enumerate(places):
        if place >= 0 and before.sights[place] > 0:
            capacity.service[i] = before.service[place]
            capacity.sights[i] = before.sights[place]
        refresh(p, capacity, i)
    return capacity


def inherit_workload(own: Workload, before: Workload, rates: Floats, rates_before: Floats) -> Workload:
    """`rates`: of the thresholds, now and before."""
    workload = copy.deepcopy(own)
    for name in ("load", "trend", "age_pool", "pool", "pool_visits"):
        getattr(workload, name)[...] = getattr(before, name)
    with np.errstate(divide="ignore"):  # a type that cannot meet the bound has no rate
        heights, heights_before = np.log(rates), np.log(rates_before)
    for b in np.flatnonzero(np.isfinite(heights)).tolist():
        distance = np.abs(heights_before - heights[b])
        nearest = int(np.argmin(distance))
        if distance[nearest] > math.log(NEAR):
            continue
        for name in ("age", "age_class", "ages"):
            getattr(workload, name)[b] = getattr(before, name)[nearest]
        for name in ("situation", "counts", "visits"):
            getattr(workload, name)[:, b] = getattr(before, name)[:, nearest]
    return workload
