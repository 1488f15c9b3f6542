"""True processing rate of replicas (DS2, Kalavri et al., OSDI 2018): their throughput were they never idle.

It is the observed rate over the share of time that was useful, instance by instance. Kernels see one utilisation, the
slowest replica's; the other types' rates are in proportion to their speeds, and an operator's rate is their sum over
its replicas. Kernels see arrivals, not tuples processed, and these agree only where nothing waits. So three kinds of
slot teach nothing, and the last known rate stands: saturated ones (utilisation of exactly 1: replicas never rest, and
no more is known, but for what they got through as long as nothing better is), the first below that (it catches up, and
gets through more than arrives), and those within a warm-up after a change, which has to cover start-ups.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem
from scaler.model.queueing import CATCH_UP_SLOTS

SATURATION_ROUNDING = 1e-6


class RateWindow(NamedTuple):
    """The last numbers of a series; allocated once, written in place."""

    values: Floats  # [W]
    place: Integers  # [2] where the next goes, how many there are


def make_window(slots: int) -> RateWindow:
    return RateWindow(np.zeros(slots), np.zeros(2, np.int64))


@jit
def push(w: RateWindow, value: float) -> None:
    """Take a number in; the oldest goes once the window is full."""
    size = w.values.shape[0]
    w.values[w.place[0]] = value
    w.place[0] = (w.place[0] + 1) % size
    w.place[1] = min(w.place[1] + 1, size)


@jit
def clear(w: RateWindow) -> None:
    w.place[0] = 0
    w.place[1] = 0


@jit
def is_full(w: RateWindow) -> bool:
    return w.place[1] == w.values.shape[0]


@jit
def mean(w: RateWindow) -> float:
    """The mean of what is there, summed anew so that no rounding gathers; 0 when nothing is."""
    total = 0.0
    for i in range(w.place[1]):
        total += w.values[i]
    return total / w.place[1] if w.place[1] > 0 else 0.0


@jit
def latest(w: RateWindow) -> float:
    """The newest number."""
    return w.values[w.place[0] - 1]  # a window's last place follows its first


@jit
def median(w: RateWindow) -> float:
    """The upper median of what is there; 0 when nothing is."""
    many = w.place[1]
    for i in range(many):
        smaller, equal = 0, 0
        for j in range(many):
            smaller += w.values[j] < w.values[i]
            equal += w.values[j] == w.values[i]
        if smaller <= many // 2 < smaller + equal:
            return w.values[i]
    return 0.0


@jit
def highest(w: RateWindow) -> float:
    """The largest of what is there; 0 when nothing is."""
    most = 0.0
    for i in range(w.place[1]):
        most = max(most, w.values[i])
    return most


class TrueRate(NamedTuple):
    share: RateWindow  # tuples per second and replica, on speed 1
    busy: RateWindow  # utilisation
    each: Floats  # [1] tuples per second of a replica of speed 1 that never idles; 0 while unknown
    rest: Integers  # [1] slots of warm-up still to come
    warm_up: int


def make_true_rate(window: int, warm_up: int) -> TrueRate:
    return TrueRate(make_window(window), make_window(window), np.zeros(1), np.zeros(1, np.int64), warm_up)


@jit
def is_saturated(seen: KernelView) -> bool:
    """Whether utilisation is exactly 1. Above it says how much is missing."""
    return abs(seen.utilisation - 1.0) < SATURATION_ROUNDING


@jit
def throughput(before: KernelView, seen: KernelView) -> float:
    """Tuples per second that a slot got through: arrivals, and what the backlog fell by."""
    grown = CATCH_UP_SLOTS * ((seen.rate - seen.arrivals) - (before.rate - before.arrivals))
    return max(0.0, seen.arrivals - grown)


@jit
def gauge(p: Problem, t: TrueRate, before: KernelView, action: int, seen: KernelView) -> bool:
    """Take one slot in; whether it is one past the warm-up."""
    if action != 0:
        t.rest[0] = t.warm_up
    if t.rest[0] > 0:
        t.rest[0] -= 1
        return False
    saturated = is_saturated(seen)
    catches_up = before.utilisation >= 1.0 - SATURATION_ROUNDING and seen.utilisation < 1.0
    if (saturated and t.each[0] > 0.0) or catches_up or seen.utilisation <= 0.0 or seen.rate <= 0.0:
        return True
    share = (throughput(before, seen) if saturated else seen.rate) / (seen.count * p.speedup[p.order[seen.slowest]])
    if share > 0.0 and not saturated:
        push(t.share, share)
        push(t.busy, seen.utilisation)
        t.each[0] = mean(t.share) / mean(t.busy)
    elif share > 0.0:
        t.each[0] = share  # stands until there is better
    return True


@jit
def forget(t: TrueRate) -> None:
    """Start the window anew; the rate that is known stands until there is a better one."""
    clear(t.share)
    clear(t.busy)


@jit
def total_rate(p: Problem, t: TrueRate, k: Integers) -> float:
    """The true rates of a deployment's replicas in sum; 0 while unknown."""
    speed = 0.0
    for i in range(k.shape[0]):
        speed += k[i] * p.speedup[i]
    return t.each[0] * speed


@jit
def parallelism_for(p: Problem, t: TrueRate, k: Integers, rate: float) -> float:
    """How many replicas, as fast as those there are on average, this rate calls for, not rounded."""
    total = total_rate(p, t, k)
    return rate * k.sum() / total if total > 0.0 else float(k.sum())
