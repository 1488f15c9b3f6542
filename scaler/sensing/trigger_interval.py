"""Estimate the interval of a query's trigger from when its batches began.

Spark starts a batch at a multiple of the interval since 1970, or at once where the batch before overran. So of two
batches in a row that both waited, the starts are a whole number of intervals apart. A query without an interval, whose
batches wait for data, starts them at no multiples.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from scaler.model.spark_progress import Trigger

RECENT = 100  # batches that are looked at
FOLLOWS_S = 0.05  # after a batch, within which the next one did not wait
LATE_S = 0.02  # by which a start may miss its multiple
ALIGNED = 0.9  # share of the starts that must lie at multiples


def estimate_trigger_interval(triggers: Sequence[Trigger]) -> float | None:
    """Seconds; None where none shows, as in a query that never waited since it is watched."""
    waited = [
        later.time
        if earlier.run == later.run and later.time - earlier.done > FOLLOWS_S and later.batch == earlier.batch + 1
        else None
        for earlier, later in pairwise([one for one in triggers if one.executed][-RECENT:])
    ]
    pairs = [(a, b) for a, b in pairwise(waited) if a is not None and b is not None]
    if not pairs:
        return None
    shortest = min(b - a for a, b in pairs)
    usual = median(b - a for a, b in pairs if b - a < 1.5 * shortest)
    starts = [a for a, _ in pairs] + [pairs[-1][1]]
    rounded = (round(usual, digits) for digits in range(4))
    return next((one for one in rounded if one > 0.0 and are_multiples(starts, one)), None)


def are_multiples(starts: Sequence[float], interval: float) -> bool:
    return sum(start % interval <= LATE_S for start in starts) >= ALIGNED * len(starts)
