"""What a load does around a threshold: arrival rates in; how often, from each situation, it goes where, out.

Actions do not change arrivals, so every slot teaches about every threshold, whatever is deployed. Thresholds are the
rates that so many replicas of a node type just answer. A situation says, relative to the threshold, how long ago the
rate was last above it (age) and how high the smoothed rate stands (height). What happens at thresholds with little
evidence is filled in from all thresholds together, and before any evidence from Laplace's rule of succession: what has
not happened for g slots happens in the next with probability 1 / (g + 2).

Notation: B thresholds, Y ages, X heights, F = Y X situations; from a situation the next slot is above the threshold
(outcome 0), or below and in the same age class (1), or below and in the next (2), each with a new height.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.jit import jit
from scaler.problem import Floats, Integers

AGES = (0, 1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90, 135, 200, 300, 450, 700, 1000, 1500, 2200, 3300, 5000, 8000, 12000)
HEIGHTS = (0.2, 0.4, 0.55, 0.65, 0.72, 0.78, 0.83, 0.87, 0.9, 0.93, 0.96, 0.98, 1.0, 1.03, 1.07)
Y, X = len(AGES), len(HEIGHTS) + 1
OUTCOMES = 3
SMOOTHING = 1.0 / 3.0
FULL = 1 << 13  # at so many visits a situation's counts are halved: what was seen long ago fades
POOL_FULL = 1 << 20


class Workload(NamedTuple):
    level: Floats  # [1] smoothed rate
    age: Integers  # [B] slots since the rate was last above
    age_class: Integers  # [B]
    situation: Integers  # [B] now
    counts: NDArray[np.int32]  # [B, F, OUTCOMES X]
    visits: NDArray[np.int32]  # [B, F]
    ages: Integers  # [B, Y, OUTCOMES] the same whatever the height
    age_pool: Integers  # [Y, OUTCOMES]
    pool: Integers  # [F, OUTCOMES X] over all thresholds
    pool_visits: Integers  # [F]
    hazard: Floats  # [F] chance to be above in the next slot, before any evidence
    age_edges: Integers  # [Y]
    width: Integers  # [Y] slots that an age class lasts
    height_edges: Floats  # [X - 1]


def make_workload(thresholds: int) -> Workload:
    """Nothing seen yet: every threshold is taken to be high above the load for long."""
    return Workload(
        level=np.zeros(1),
        age=np.full(thresholds, AGES[-1], np.int64),
        age_class=np.full(thresholds, Y - 1, np.int64),
        situation=np.full(thresholds, (Y - 1) * X, np.int64),
        counts=np.zeros((thresholds, Y * X, OUTCOMES * X), np.int32),
        visits=np.zeros((thresholds, Y * X), np.int32),
        ages=np.zeros((thresholds, Y, OUTCOMES), np.int64),
        age_pool=np.zeros((Y, OUTCOMES), np.int64),
        pool=np.zeros((Y * X, OUTCOMES * X), np.int64),
        pool_visits=np.zeros(Y * X, np.int64),
        hazard=first_hazard(),
        age_edges=np.array(AGES, np.int64),
        width=np.diff((*AGES, 2 * AGES[-1])),
        height_edges=np.array(HEIGHTS),
    )


def first_hazard() -> Floats:
    """Laplace's rule by age; and the nearer the smoothed rate to the threshold, the likelier."""
    by_age = 1.0 / (np.array(AGES) + 2.0)
    heights = np.array((0.0, *HEIGHTS))
    by_height = np.select([heights >= 1.0, heights >= 0.9, heights >= 0.8], [0.5, 0.1, 0.02], 0.0)
    return np.maximum(by_age[:, None], by_height).ravel()


@jit
def observe(w: Workload, b: int, threshold: float, rate: float) -> None:
    """Take one slot's rate in at one threshold; the smoothed rate has been brought up to date."""
    height = 0
    for edge in w.height_edges:
        if w.level[0] >= edge * threshold:
            height += 1
    came_from = w.situation[b]
    age_from = w.age_class[b]
    outcome = 1
    if rate > threshold:
        outcome = 0
        w.age[b] = 0
        w.age_class[b] = 0
    else:
        w.age[b] += 1
        if w.age_class[b] + 1 < w.age_edges.shape[0] and w.age[b] >= w.age_edges[w.age_class[b] + 1]:
            outcome = 2
            w.age_class[b] += 1
    heights = w.height_edges.shape[0] + 1
    w.situation[b] = w.age_class[b] * heights + height
    to = outcome * heights + height
    w.ages[b, age_from, outcome] += 1
    w.age_pool[age_from, outcome] += 1
    w.counts[b, came_from, to] += 1
    w.visits[b, came_from] += 1
    w.pool[came_from, to] += 1
    w.pool_visits[came_from] += 1
    if w.visits[b, came_from] >= FULL:
        w.visits[b, came_from] = fade(w.counts[b, came_from])
    if w.pool_visits[came_from] >= POOL_FULL:
        w.pool_visits[came_from] = fade(w.pool[came_from])


@jit
def fade(row: Integers) -> int:
    """Halve the counts; what is left of them."""
    left = 0
    for i in range(row.shape[0]):
        row[i] = row[i] // 2
        left += row[i]
    return left
