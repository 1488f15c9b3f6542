"""Recognise batches that warm up: classes are loaded, code is compiled, and new executors start their first tasks.

They are looked for where they can be, from the first batch and from each change of executors on, and known by what they
cost: seconds of the driver and of all slots beyond those of calm batches of their size. The first that costs no more
ends them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scaler.model.kernel import Floats
from tuner.what_if.recorded_query import RecordedQuery

VARIED = 0.15  # coefficient of variation of the batches' records, from which their slope can be seen
ODD = 4.0  # of the usual deviation, beyond which a batch says nothing of the slope
WARM = 3.0  # of it, beyond which a batch warms up
LEAST = 0.1  # of what a batch costs, below which more is no warm-up
NORMAL = 1.4826  # a standard deviation over a median deviation
FEWEST = 3  # batches from which anything is fitted


def fit_line(records: Floats, values: Floats, used: NDArray[np.bool_], fixed: float) -> tuple[float, float, bool]:
    """(a, g) of values = a + g records over the used ones but odd ones, and whether their slope could be seen.

    Where sizes hardly differ, or the line is impossible, all but `fixed` grows with the records.
    """
    seen = bool(records[used].std() > VARIED * records[used].mean())
    a, g = 0.0, 0.0
    for _ in range(3):
        if seen:
            g, a = (float(value) for value in np.polyfit(records[used], values[used], 1))
        if not seen or g < 0.0 or a < 0.0:
            a = min(fixed, float(np.median(values[used])))
            g = max(0.0, float(np.median(values[used] - a)) / float(np.median(records[used])))
        off = np.abs(values - a - g * records)
        inside = used & (off <= ODD * max(NORMAL * float(np.median(off[used])), 1e-3))
        if inside.sum() < FEWEST or (inside == used).all():
            break
        used = inside
    return a, g, seen


def find_calm(query: RecordedQuery) -> NDArray[np.bool_]:
    """Which batches do not warm up [batches]; all, where there are too few to tell."""
    batches = query.batches
    calm = np.ones(len(batches), bool)
    likely = np.array([not batch.disturbed for batch in batches])
    if likely.sum() < FEWEST:
        return calm
    records = np.array([batch.records for batch in batches])
    effort = np.array([batch.effort_s for batch in batches])
    fixed = float(np.median([batch.rest_s for batch in batches]))
    a, g, _ = fit_line(records, effort, likely, fixed)
    usual = a + g * records
    spread = NORMAL * float(np.median(np.abs(effort - usual)[likely]))
    warm = effort - usual > np.maximum(WARM * spread, LEAST * usual)
    follows = False
    for i, batch in enumerate(batches):
        follows = bool(warm[i]) and (follows or batch.disturbed)
        calm[i] = not follows
    return calm if calm.sum() >= FEWEST else np.ones(len(batches), bool)
