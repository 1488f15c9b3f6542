"""A micro-batch stream event by event: tuples wait for the next trigger, then for the end of their batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass
class Batch:
    start: float
    end: float
    tuples: int
    arrivals: Floats


def run_batches(
    arrivals: Floats,
    trigger: float,
    overhead: Callable[[], float],
    service: Callable[[int], Floats],
    replicas: Callable[[float], int],
) -> list[Batch]:
    """Batches until all has arrived: each takes what came before its start, split in turn among the replicas.

    The next one starts at the next multiple of the trigger, or at once when that has passed, as Spark does it.
    """
    batches, now, taken = [], float(arrivals[0]) if trigger == 0.0 else 0.0, 0
    while taken < arrivals.size:
        upto = int(np.searchsorted(arrivals, now, side="right"))
        due = (np.floor(now / trigger) + 1.0) * trigger if trigger > 0.0 else now
        if upto > taken:
            k = replicas(now)
            times = service(upto - taken)
            longest = max(float(times[i::k].sum()) for i in range(k))
            end = now + overhead() + longest
            batches.append(Batch(now, end, upto - taken, arrivals[taken:upto]))
            taken = upto
            now = max(end, due)
        else:
            now = max(due, float(arrivals[taken]) if trigger == 0.0 else due)
    return batches
