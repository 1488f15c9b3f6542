"""Estimate what other days like those replayed would change: a block bootstrap whose blocks are days.

Seeds vary what chance does on the same arrivals. Days differ by their arrivals, too, and neighbouring slots of one day
do not: thus whole days are drawn anew, with replacement, as often as there are days.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scaler.model.kernel import Floats
from sim.simulate import Run

ENOUGH_DAYS = 7  # each day of the week once
DAY_S = 86_400.0
DRAWS, SEED = 1000, 20_261_119


class DayErrors(NamedTuple):
    """Standard errors, over days, of the shares of slots that are counted."""

    violations: float
    reconfigurations: float


def count_days(slots: int, slot_s: float) -> float:
    """Days in so many slots, to a minute."""
    return round(slots * slot_s / DAY_S, 3)


def bootstrap_days(runs: Sequence[Run], slot_s: float) -> DayErrors | None:
    """Errors of the mean over the runs; None where there are too few days. Blocks count to the day of their middle."""
    slots = runs[0].blocks["slots"]
    if count_days(int(slots.sum()), slot_s) < ENOUGH_DAYS:
        return None
    middle = np.cumsum(slots) - slots / 2.0
    _, day = np.unique(np.floor(middle * slot_s / DAY_S), return_inverse=True)
    long = np.bincount(day, slots)
    drawn = np.random.default_rng(SEED).integers(0, long.size, (DRAWS, long.size))

    def spread(name: str) -> float:
        mean: Floats = np.mean([run.blocks[name] for run in runs], axis=0)
        counted = np.bincount(day, mean * slots)
        return float((counted[drawn].sum(axis=1) / long[drawn].sum(axis=1)).std())

    return DayErrors(spread("violations"), spread("reconfigurations"))
