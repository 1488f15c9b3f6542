"""Sliding window of the last numbers of a series, and their mean; allocated once, written in place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers


class RateWindow(NamedTuple):
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
