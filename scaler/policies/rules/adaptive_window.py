"""Adaptive window (ADWIN, Bifet and Gavalda, SDM 2007): the recent rates that still resemble the present.

The window grows until the mean of its newer part differs from that of its older part, which is then dropped.

Deviations: cuts are looked at LEAST slots from the end and at twice, four times ... that, every 16 slots; neighbouring
slots go together, so that TOGETHER of them count as one independent sample; the window keeps LEAST slots.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers

LEAST = 240  # slots
EVERY = 16
TOGETHER = 15.0
DOUBT = math.log(2.0 / 0.002)  # at confidence .002

NEXT, LENGTH, SLOTS = range(3)


class AdaptiveWindow(NamedTuple):
    rates: Floats  # [H] ring
    place: Integers  # [3] where the next goes, the window's length, slots seen


def make_adaptive_window(longest: int) -> AdaptiveWindow:
    return AdaptiveWindow(np.zeros(longest), np.zeros(3, np.int64))


@jit
def remember(w: AdaptiveWindow, rate: float) -> None:
    """Take a rate in, and drop what it no longer resembles."""
    longest = w.rates.shape[0]
    w.rates[w.place[NEXT]] = rate
    w.place[NEXT] = (w.place[NEXT] + 1) % longest
    w.place[LENGTH] = min(w.place[LENGTH] + 1, longest)
    w.place[SLOTS] += 1
    if w.place[SLOTS] % EVERY == 0:
        w.place[LENGTH] = cut(w)


@jit
def past(w: AdaptiveWindow, age: int) -> float:
    """The rate of so many slots ago."""
    longest = w.rates.shape[0]
    return w.rates[(w.place[NEXT] - 1 - age + longest) % longest]


@jit
def cut(w: AdaptiveWindow) -> int:
    """The length that the window should have: up to the newest cut at which its parts differ, else all of it."""
    length = w.place[LENGTH]
    total = 0.0
    squares = 0.0
    for age in range(length):
        rate = past(w, age)
        total += rate
        squares += rate * rate
    average = total / length
    variance = max(0.0, squares / length - average * average)
    newer = 0.0
    edge = LEAST
    for age in range(length - LEAST + 1):
        if age == edge:
            older = length - age
            if abs(newer / age - (total - newer) / older) > tolerance(age, older, variance, average):
                return age
            edge *= 2
        newer += past(w, age)
    return length


@jit
def tolerance(newer: int, older: int, variance: float, scale: float) -> float:
    """How far two means of so many slots may lie apart by chance: their epsilon, with the mean for the rates' range."""
    samples = 1.0 / (TOGETHER / newer + TOGETHER / older)
    return math.sqrt(2.0 * variance * DOUBT / samples) + 2.0 * scale * DOUBT / (3.0 * samples)
