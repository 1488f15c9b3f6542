"""Reduce a series of slots to the lowest, mean and highest value per chart column."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scaler.model.kernel import Floats, Integers

FEWEST_PER_CYCLE = 6


@dataclass(frozen=True, slots=True)
class Columns:
    """What the finite values of each column come to; NaN where it holds none."""

    low: Floats  # [C]
    mean: Floats  # [C]
    high: Floats  # [C]
    infinite: Integers  # [C] values that are not finite, counted


def settle(slots: int, columns: int, cycle: int) -> int:
    """At most so many columns, such that a cycle of so many slots fills several, or a column holds whole cycles.

    Between the two, means would swing with where in the cycle a column begins, and show a pattern that is not there.
    """
    each = slots / columns
    if each * FEWEST_PER_CYCLE <= cycle:
        return columns
    return math.ceil(slots / (math.ceil(each / cycle) * cycle))


def cut(slots: int, columns: int) -> Integers:
    """The first slot of each column; never more columns than slots."""
    wide = min(slots, columns)
    return np.arange(wide, dtype=np.int64) * slots // wide


def centres(slots: int, starts: Integers) -> Floats:
    """The middle from each start to the next, as a share of the width."""
    return (starts + np.append(starts[1:], slots)) / (2.0 * slots)


def gather(values: Floats, columns: int) -> Columns:
    """Reduce values [T] to columns."""
    starts = cut(len(values), columns)
    finite = np.isfinite(values)
    counts = np.add.reduceat(finite, starts, dtype=np.int64)
    sums = np.add.reduceat(np.where(finite, values, 0.0), starts)
    low = np.minimum.reduceat(np.where(finite, values, np.inf), starts)
    high = np.maximum.reduceat(np.where(finite, values, -np.inf), starts)
    there = counts > 0
    mean = np.divide(sums, counts, out=np.full(len(starts), np.nan), where=there)
    sizes = np.diff(np.append(starts, len(values)))
    return Columns(np.where(there, low, np.nan), mean, np.where(there, high, np.nan), sizes - counts)


def means(values: Floats | Integers, starts: Integers) -> Floats:
    """Mean of values [T] or [T, N] from each start to the next."""
    sizes = np.diff(np.append(starts, len(values)))
    sums = np.add.reduceat(values, starts, axis=0, dtype=np.float64)
    return sums / (sizes if values.ndim == 1 else sizes[:, None])
