"""Transition counts of the load around each threshold, and the priors where evidence is thin.

Actions do not change arrivals, so every slot teaches about every threshold, whatever is deployed. Thresholds are the
rates that so many replicas of a node type just answer. A situation says, relative to the threshold, how long ago the
rate was last above it (age) and how high the load stands (height), which there are two views of: the smoothed rate, and
where its trend will have led in a few slots (Holt's method). What happens at thresholds with little evidence is filled
in from all thresholds together, and before any evidence from Laplace's rule of succession: what has not happened for g
slots happens in the next with probability 1 / (g + 2).

Notation: B thresholds, V views, Y ages, X heights, F = Y X situations; from a situation the next slot is above the
threshold (outcome 0), or below and in the same age class (1), or below and in the next (2), each with a new height.
"""

from __future__ import annotations

import copy
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers

AGES = (0, 1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90, 135, 200, 300, 450, 700, 1000, 1500, 2200, 3300, 5000, 8000, 12000)
HEIGHTS = (0.2, 0.4, 0.55, 0.65, 0.72, 0.78, 0.83, 0.87, 0.9, 0.93, 0.96, 0.98, 1.0, 1.03, 1.07)
Y, X = len(AGES), len(HEIGHTS) + 1
OUTCOMES = 3
SMOOTHED, FORECAST = 0, 1  # the views
V = 2
SMOOTHING = 1.0 / 3.0
LEVEL_GAIN, TREND_GAIN, FORECAST_SLOTS = 0.2, 0.01, 8.0  # of the forecast, so many slots ahead
VISITS_TO_HALVE = 1 << 13  # at so many visits a situation's counts are halved: what was seen long ago fades
POOL_VISITS_TO_HALVE = 1 << 20
NEAR_RATE_FACTOR = 1.25  # between two thresholds' rates, beyond which the one says nothing of the other


class Workload(NamedTuple):
    load: Floats  # [V] the load as each view has it
    trend: Floats  # [2] level and trend of the forecast
    age: Integers  # [B] slots since the rate was last above
    age_class: Integers  # [B]
    situation: Integers  # [V, B] now
    counts: NDArray[np.int32]  # [V, B, F, OUTCOMES X]
    visits: NDArray[np.int32]  # [V, B, F]
    ages: Integers  # [B, Y, OUTCOMES] the same whatever the height
    age_pool: Integers  # [Y, OUTCOMES]
    pool: Integers  # [V, F, OUTCOMES X] over all thresholds
    pool_visits: Integers  # [V, F]
    known: NDArray[np.int8]  # [V, F, OUTCOMES X] the first so many: outcomes that were ever seen there, rising
    many: Integers  # [V, F] how many
    hazard: Floats  # [F] chance to be above in the next slot, before any evidence
    age_edges: Integers  # [Y]
    width: Integers  # [Y] slots that an age class lasts
    height_edges: Floats  # [X - 1]


def make_workload(thresholds: int) -> Workload:
    """Nothing seen yet: every threshold is taken to be high above the load for long."""
    return Workload(
        load=np.zeros(V),
        trend=np.zeros(2),
        age=np.full(thresholds, AGES[-1], np.int64),
        age_class=np.full(thresholds, Y - 1, np.int64),
        situation=np.full((V, thresholds), (Y - 1) * X, np.int64),
        counts=np.zeros((V, thresholds, Y * X, OUTCOMES * X), np.int32),
        visits=np.zeros((V, thresholds, Y * X), np.int32),
        ages=np.zeros((thresholds, Y, OUTCOMES), np.int64),
        age_pool=np.zeros((Y, OUTCOMES), np.int64),
        pool=np.zeros((V, Y * X, OUTCOMES * X), np.int64),
        pool_visits=np.zeros((V, Y * X), np.int64),
        known=np.zeros((V, Y * X, OUTCOMES * X), np.int8),
        many=np.zeros((V, Y * X), np.int64),
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
def begin(w: Workload, rate: float) -> None:
    """The first rate is where the load is taken to have stood."""
    w.trend[0] = rate
    for v in range(w.load.shape[0]):
        w.load[v] = rate


@jit
def advance(w: Workload, rate: float) -> None:
    """Take one slot's rate in, whatever the threshold."""
    w.load[SMOOTHED] += SMOOTHING * (rate - w.load[SMOOTHED])
    off = rate - w.trend[0] - w.trend[1]
    w.trend[0] += w.trend[1] + LEVEL_GAIN * off
    w.trend[1] += TREND_GAIN * off
    w.load[FORECAST] = w.trend[0] + FORECAST_SLOTS * w.trend[1]


@jit
def observe(w: Workload, b: int, threshold: float, rate: float) -> None:
    """Take the same slot's rate in at one threshold."""
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
    w.ages[b, age_from, outcome] += 1
    w.age_pool[age_from, outcome] += 1
    for v in range(w.load.shape[0]):
        count(w, v, b, outcome, find_height(w.height_edges, w.load[v], threshold, int(w.situation[v, b] % X)))


@jit
def find_height(edges: Floats, load: float, threshold: float, height: int) -> int:
    """How many of the edges the load is at or above, in shares of the threshold; looked for from a height on."""
    while height < edges.shape[0] and load >= edges[height] * threshold:
        height += 1
    while height > 0 and load < edges[height - 1] * threshold:
        height -= 1
    return height


@jit
def count(w: Workload, v: int, b: int, outcome: int, height: int) -> None:
    """One step from the situation of the slot before to that of this one."""
    came_from, to = w.situation[v, b], outcome * X + height
    w.situation[v, b] = w.age_class[b] * X + height
    counts, pool = w.counts[v, b, came_from], w.pool[v, came_from]
    if pool[to] == 0:
        note_outcome(w, v, came_from, to)
    counts[to] += 1
    pool[to] += 1
    visits, pool_visits = w.visits[v, b, came_from] + 1, w.pool_visits[v, came_from] + 1
    w.visits[v, b, came_from] = fade(counts) if visits >= VISITS_TO_HALVE else visits
    w.pool_visits[v, came_from] = fade(pool) if pool_visits >= POOL_VISITS_TO_HALVE else pool_visits


@jit
def note_outcome(w: Workload, v: int, f: int, to: int) -> None:
    """List an outcome of a situation, unless it is listed: few are ever seen, and none but these is planned with."""
    place = w.many[v, f]
    while place > 0 and w.known[v, f, place - 1] >= to:
        place -= 1
    if place < w.many[v, f] and w.known[v, f, place] == to:
        return
    for later in range(w.many[v, f], place, -1):
        w.known[v, f, later] = w.known[v, f, later - 1]
    w.known[v, f, place] = to
    w.many[v, f] += 1


def list_outcomes(w: Workload) -> None:
    """List the outcomes that the counts show."""
    for v, f in np.argwhere(w.pool_visits > 0).tolist():
        seen = np.flatnonzero((w.pool[v, f] > 0) | (w.counts[v, :, f] > 0).any(axis=0))
        w.known[v, f, : seen.size], w.many[v, f] = seen, seen.size


@jit
def fade(row: Integers) -> int:
    """Halve the counts; what is left of them."""
    left = 0
    for i in range(row.shape[0]):
        row[i] = row[i] // 2
        left += row[i]
    return left


def inherit_workload(own: Workload, before: Workload, rates: Floats, rates_before: Floats) -> Workload:
    """Hand evidence over to a task with other thresholds, whose rates now and before are given.

    What is known at a threshold is known of its rate, whatever replicas of whatever type that is the capacity of: each
    threshold inherits from the one whose rate is nearest. What is known of all thresholds together stays as it is.
    """
    workload = copy.deepcopy(own)
    for name in ("load", "trend", "age_pool", "pool", "pool_visits"):
        getattr(workload, name)[...] = getattr(before, name)
    with np.errstate(divide="ignore"):  # a type that cannot meet the bound has no rate
        heights, heights_before = np.log(rates), np.log(rates_before)
    for b in np.flatnonzero(np.isfinite(heights)).tolist():
        distance = np.abs(heights_before - heights[b])
        nearest = int(np.argmin(distance))
        if distance[nearest] > math.log(NEAR_RATE_FACTOR):
            continue
        for name in ("age", "age_class", "ages"):
            getattr(workload, name)[b] = getattr(before, name)[nearest]
        for name in ("situation", "counts", "visits"):
            getattr(workload, name)[:, b] = getattr(before, name)[:, nearest]
    list_outcomes(workload)
    return workload
