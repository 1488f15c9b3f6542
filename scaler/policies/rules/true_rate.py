"""True processing rate of a replica (DS2, Kalavri et al., OSDI 2018): its throughput were it never idle.

It is the observed rate over the share of time that was useful. Kernels see arrivals and utilisation, not tuples
processed, and these agree only where nothing waits. So three kinds of slot teach nothing about it, and the last known
rate stands: saturated ones (utilisation of exactly 1: replicas never rest, and no more is known), the first below that
(it catches up, and gets through more than arrives), and those within a warm-up after a change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView

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
def highest(w: RateWindow) -> float:
    """The largest of what is there; 0 when nothing is."""
    most = 0.0
    for i in range(w.place[1]):
        most = max(most, w.values[i])
    return most


class TrueRate(NamedTuple):
    share: RateWindow  # arrivals per second and replica
    busy: RateWindow  # utilisation
    each: Floats  # [1] tuples per second of a replica that never idles; 0 while unknown
    rest: Integers  # [1] slots of warm-up still to come
    warm_up: int


def make_true_rate(window: int, warm_up: int) -> TrueRate:
    return TrueRate(make_window(window), make_window(window), np.zeros(1), np.zeros(1, np.int64), warm_up)


@jit
def is_saturated(seen: KernelView) -> bool:
    """Whether utilisation is exactly 1. Above it says how much is missing."""
    return abs(seen.utilisation - 1.0) < SATURATION_ROUNDING


@jit
def gauge(t: TrueRate, before: KernelView, action: int, seen: KernelView) -> None:
    """Take one slot in."""
    if action != 0:
        t.rest[0] = t.warm_up
    if t.rest[0] > 0:
        t.rest[0] -= 1
        return
    catches_up = before.utilisation >= 1.0 - SATURATION_ROUNDING and seen.utilisation < 1.0
    if is_saturated(seen) or catches_up or seen.utilisation <= 0.0 or seen.rate <= 0.0:
        return
    push(t.share, seen.rate / seen.count)
    push(t.busy, seen.utilisation)
    t.each[0] = mean(t.share) / mean(t.busy)


@jit
def forget(t: TrueRate) -> None:
    """Start the window anew; the rate that is known stands until there is a better one."""
    clear(t.share)
    clear(t.busy)


@jit
def parallelism_for(t: TrueRate, before: KernelView, action: int, seen: KernelView, rate: float) -> float:
    """How many replicas this rate calls for, not rounded; one more than there are where these do not keep up."""
    exact = rate / t.each[0] if t.each[0] > 0.0 else float(seen.count)
    return max(exact, seen.count + 1.0) if falls_behind(t, before, action, seen) else exact


@jit
def falls_behind(t: TrueRate, before: KernelView, action: int, seen: KernelView) -> bool:
    """Whether what is known must be wrong: saturated, and the response time does not fall though nothing was changed.

    Replicas that catch up with a queue are saturated too, but enough.
    """
    if not is_saturated(seen):
        return False
    return t.each[0] == 0.0 or (action == 0 and seen.response >= before.response)
