"""Work off what waits: whether an operator is behind, what waits, and for how long answers stay late."""

from __future__ import annotations

import math

from scaler.model.jit import jit
from scaler.model.kernel import KernelView, Problem

LONGEST_CATCH_UP = 100.0  # slots for which what waits is taken to last where nothing works it off
CATCH_UP_MARGIN = 1.3  # over the time that takes, in case more comes than now


@jit
def is_behind(seen: KernelView) -> bool:
    """Whether answers are late, tuples wait or replicas never rest, so that nothing is to be given away."""
    return seen.violated or seen.backlog > 0.0 or seen.utilisation >= 1.0


@jit
def count_waiting(seen: KernelView, arrivals: float, usual_s: float) -> float:
    """Tuples that wait: what was counted, or by Little's law what answers are later than usual."""
    waiting = 0.0
    if seen.backlog > 0.0:
        waiting = seen.backlog
    if math.isfinite(seen.response):
        waiting = max(waiting, arrivals * (seen.response - usual_s))
    return waiting


@jit
def catch_up_slots(p: Problem, waiting: float, arrivals: float, serves: float, will: float) -> float:
    """Slots until what waits is worked off: at so many a second in the next slot, at so many from then on.

    A slot in which that is not done is late as a whole, so that from then on they are whole slots.
    """
    left = waiting + (arrivals - serves) * p.slot_s
    if left <= 0.0:
        return waiting / ((serves - arrivals) * p.slot_s) if waiting > 0.0 else 0.0
    if not will > arrivals:
        return LONGEST_CATCH_UP
    lasts = left / ((will - arrivals) * p.slot_s)
    return min(LONGEST_CATCH_UP, 1.0 + math.ceil(CATCH_UP_MARGIN * lasts))
