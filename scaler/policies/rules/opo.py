"""OPO as Kielbowicz made it for Spark: the fewest executors on which the recent batches would seldom have been delayed.

It keeps the last 1,024 batches, and an adaptive window (ADWIN, Bifet and Gavalda, SDM 2007, confidence .5) of those
whose records resemble the newest ones'. The longer that is, the more delayed batches it tolerates in it: 2 to 128 in
steps of 4. Bisection finds the least number of executors on which the window's batches, played again, keep to that; a
batch is delayed where the ones before it and its own duration are more than the interval. It goes half the way there,
and nowhere from where it stood when it last went.

It is not the algorithm of Heinze et al. 2015 (threshold_search.py). Deviations: batches, not tasks, are played again: a
batch on k executors takes what it took, and what the batch model says that k make of it; slots tell of their batches'
mean. Where an operator has no batches it does nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem
from scaler.model.micro_batches import tuple_seconds
from scaler.model.policy import Start
from scaler.policies.homogeneous import by_node, read_count, scale_to

KEPT = 1024
LEAST_BREACHES, MOST_BREACHES, BREACHES_STEP = 2, 128, 4
WARM_UP = max(LEAST_BREACHES + 2 * BREACHES_STEP, 16)  # batches
CONFIDENCE = 0.5
CHECK_EVERY = math.ceil(0.01 * KEPT)  # batches
NEXT, SEEN, LENGTH, COUNT, OPTIMUM, WANTED = range(6)


class State(NamedTuple):
    kind: int
    step: int
    trigger: float  # 0: no batches
    overhead: Floats  # [K + 1] seconds by executors
    each: Floats  # [K + 1] seconds a tuple
    durations: Floats  # [KEPT] ring
    tuples: Floats  # [KEPT]
    executors: Integers  # [KEPT] on which each ran
    course: Integers  # [6] next place, batches seen, window, executors and optimum of the last change, total wanted


def prepare(start: Start, node_type: int) -> State:
    task, k = start.task, start.task.k_max
    overhead, each = np.zeros(k + 1), np.zeros(k + 1)
    b = task.batches
    for count in range(1, k + 1) if b is not None else ():
        assert b is not None
        curve = b.overhead_curve_s
        overhead[count] = curve[min(count, len(curve)) - 1] if curve else b.overhead_s
        each[count] = tuple_seconds(task.moments.mean, b.work, b.partitions, task.types[node_type].speedup, count)
    return State(
        kind=node_type,
        step=read_count(start.options, "step", 1),
        trigger=0.0 if b is None else b.trigger_s,
        overhead=overhead,
        each=each,
        durations=np.zeros(KEPT),
        tuples=np.zeros(KEPT),
        executors=np.ones(KEPT, np.int64),
        course=np.zeros(6, np.int64),
    )


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    return 0 if s.course[WANTED] == 0 else scale_to(p, k, seen.count, s.kind, s.course[WANTED])


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    c = s.course
    c[WANTED] = 0
    if s.trigger <= 0.0 or not (seen.batch_ratio > 0.0 and seen.arrivals > 0.0):
        return
    keep(s, seen.batch_ratio * s.trigger, seen.arrivals * s.trigger, before.count)
    if c[SEEN] <= WARM_UP:
        return
    optimum = least_executors(p, s)
    if optimum == seen.count or (seen.count == c[COUNT] and optimum == c[OPTIMUM]):
        return
    c[COUNT], c[OPTIMUM] = seen.count, optimum
    c[WANTED] = seen.count + half_way(optimum - seen.count, s.step)


@jit
def half_way(difference: int, step: int) -> int:
    """Half the way, in whole steps; a way down that is shorter than a step is none."""
    far = abs(difference) - (step - 1 if difference < 0 else 0)
    steps = -(-max(0, (far + 1) // 2) // step) * step
    return steps if difference > 0 else -steps


@jit
def keep(s: State, duration: float, tuples: float, executors: int) -> None:
    """Keep a batch, and from time to time cut the window."""
    c = s.course
    s.durations[c[NEXT]] = duration
    s.tuples[c[NEXT]] = tuples
    s.executors[c[NEXT]] = executors
    c[NEXT] = (c[NEXT] + 1) % KEPT
    c[SEEN] += 1
    c[LENGTH] = min(c[LENGTH] + 1, KEPT)
    if c[SEEN] % CHECK_EVERY == 0:
        c[LENGTH] = adapt_window(s)


@jit
def place_of(s: State, age: int) -> int:
    """Where the batch of so many batches ago is."""
    return (s.course[NEXT] - 1 - age + KEPT) % KEPT


@jit
def adapt_window(s: State) -> int:
    """The length up to the newest cut at which the tuples of the window's two parts differ; else all of it."""
    length, most, total, squares = s.course[LENGTH], 0.0, 0.0, 0.0
    for age in range(length):
        tuples = s.tuples[place_of(s, age)]
        most = max(most, tuples)
        total += tuples
        squares += tuples * tuples
    variance = max(0.0, squares / length - (total / length) ** 2) / (most * most)
    log_confidence = math.log(2.0 * math.log(max(length, 3)) / CONFIDENCE)
    newer = 0.0
    for age in range(length - 1):
        newer += s.tuples[place_of(s, age)]
        many, rest = age + 1, length - age - 1
        samples = 1.0 / (1.0 / many + 1.0 / rest)
        apart = math.sqrt(2.0 * variance * log_confidence / samples) + 2.0 * log_confidence / (3.0 * samples)
        if abs(newer / many - (total - newer) / rest) / most > apart:
            return many
    return length


@jit
def tolerated(s: State) -> int:
    """Delayed batches that the window may have."""
    steps = (MOST_BREACHES - LEAST_BREACHES) // BREACHES_STEP + 1
    return LEAST_BREACHES + s.course[LENGTH] * steps // KEPT * BREACHES_STEP


@jit
def count_delayed(s: State, executors: int) -> int:
    """Batches of the window that would have been delayed on so many executors."""
    delay, delayed = 0.0, 0
    for age in range(s.course[LENGTH] - 1, -1, -1):
        i = place_of(s, age)
        then, tuples = s.executors[i], s.tuples[i]
        gained = s.overhead[executors] - s.overhead[then] + (s.each[executors] - s.each[then]) * tuples
        delay = max(0.0, delay + max(0.0, s.durations[i] + gained) - s.trigger)
        if delay > 0.0:
            delayed += 1
    return delayed


@jit
def least_executors(p: Problem, s: State) -> int:
    """The fewest executors within the limits that keep delays within what is tolerated; the most where none do."""
    low, high, limit = p.k_min, p.k_max, tolerated(s)
    while low < high:
        middle = (low + high) // 2
        if count_delayed(s, middle) <= limit:
            high = middle
        else:
            low = middle + 1
    return low


OPO_C, OPO_S, OPO_O, OPO_P = by_node("OPO", prepare, decide, learn, options=("step",), any_size=True)
