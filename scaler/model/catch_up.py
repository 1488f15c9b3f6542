"""What waits in; the rate at which it has to be worked off, beside what comes, out.

Tuples that wait are late for as long as they do. A policy that saw arrivals alone would leave a backlog to whatever
replicas have to spare; it is shown both, as one rate that asks to be served.
"""

from __future__ import annotations

from scaler.model.jit import jit

SLOTS = 5.0  # in which what waits is to be worked off


@jit
def catch_up(waiting: float, slot_s: float) -> float:
    """Tuples per second."""
    return waiting / (SLOTS * slot_s)
