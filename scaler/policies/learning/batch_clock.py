"""Batches as a listener hears of them: each at its end, of a stream whose slots each cut one batch.

Slots say how long the batches took that began in them. Which those were, and when each ends, follows: batches are
served in the order in which they were cut, none before the one ahead of it has ended. A batch without records takes no
time and is not heard of.

Notation: times in units of a slot, from the first slot's start; batch c is cut at time c and has the tuples of slot
c - 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers

SLOT, NEXT, FLYING = range(3)
REMEMBERED = 4096  # slots


class ServedBatches(NamedTuple):
    """What is under way."""

    came: Floats  # [REMEMBERED] ring of the slots' tuples per second
    end: Floats  # [1] of the last batch that began
    order: Integers  # [3] slots so far, the next batch to begin, the one under way (-1: none)


class Heard(NamedTuple):
    """A batch that ended."""

    cut: int  # -1: none
    latency: float  # from its cut to its end
    rate: float  # tuples per second of its slot
    queue: float  # batches cut by its end and not served


def fresh_clock() -> ServedBatches:
    """Before the first slot."""
    return ServedBatches(np.zeros(REMEMBERED), np.zeros(1), np.array([0, 0, -1], np.int64))


@jit
def pass_slot(c: ServedBatches, rate: float) -> None:
    """Take a slot's arrivals in."""
    c.came[c.order[SLOT] % c.came.shape[0]] = rate
    c.order[SLOT] += 1


@jit
def hear(c: ServedBatches, lasts: float) -> Heard:
    """The next batch that has ended by now, those that began in the last slot having taken so many slots each."""
    now = float(c.order[SLOT])
    while True:
        if c.order[FLYING] < 0 and not begin_next(c, now, lasts):
            return Heard(-1, 0.0, 0.0, 0.0)
        if c.end[0] > now:
            return Heard(-1, 0.0, 0.0, 0.0)
        cut = c.order[FLYING]
        c.order[FLYING] = -1
        rate = rate_of(c, cut)
        if rate > 0.0:
            return Heard(cut, c.end[0] - cut, rate, float(math.floor(c.end[0]) - cut))


@jit
def begin_next(c: ServedBatches, now: float, lasts: float) -> bool:
    """Let the next batch begin if it does before now."""
    start = max(c.end[0], float(c.order[NEXT]))
    if start >= now:
        return False
    c.order[FLYING] = c.order[NEXT]
    c.order[NEXT] += 1
    c.end[0] = start + (lasts if rate_of(c, c.order[FLYING]) > 0.0 else 0.0)
    return True


@jit
def rate_of(c: ServedBatches, cut: int) -> float:
    """The rate at which a batch's tuples came."""
    return c.came[(cut - 1) % c.came.shape[0]] if cut > 0 else 0.0
