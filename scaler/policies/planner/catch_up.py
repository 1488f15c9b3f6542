"""Work off what waits: nothing is given away meanwhile, and as many replicas are added as make that cheapest."""

from __future__ import annotations

import math

from scaler.model.jit import jit
from scaler.model.kernel import KernelView, Problem
from scaler.policies.planner.state import State

LONGEST_CATCH_UP = 100.0  # slots for which what waits is taken to last where nothing works it off


@jit
def is_behind(seen: KernelView) -> bool:
    """Whether answers are late, tuples wait or replicas never rest, so that nothing is to be given away."""
    return seen.violated or seen.backlog > 0.0 or seen.utilisation >= 1.0


@jit
def catch_up_count(p: Problem, s: State, i: int, count: int, seen: KernelView) -> int:
    """Replicas of type i, so many or more, with which catching up costs least; as many as there are if none is late."""
    best = count
    if not seen.violated:
        return best
    least = cost_to_catch_up(p, s, i, count, count, seen)
    for n in range(count + 1, p.k_max + 1):
        cost = cost_to_catch_up(p, s, i, count, n, seen)
        if cost < least:
            best, least = n, cost
    return best


@jit
def cost_to_catch_up(p: Problem, s: State, i: int, count: int, wanted: int, seen: KernelView) -> float:
    """Late slots and rent until what waits is worked off, and changes there and back.

    What waits is what was counted, or by Little's law what answers are later than usual, and what comes in the next
    slot beyond what is served in it.
    """
    service = s.capacity.service[i]
    waiting = 0.0
    if seen.backlog > 0.0:
        waiting = seen.backlog
    if math.isfinite(seen.response):
        waiting = max(waiting, seen.arrivals * (seen.response - s.usual[0]))
    waiting += max(0.0, seen.arrivals - count / service) * p.slot_s
    spare = wanted / service - seen.arrivals
    late = LONGEST_CATCH_UP
    if spare > 0.0:
        late = min(late, waiting / (spare * p.slot_s))
    cost = late * (p.w_perf + p.w_res * p.price[i] * wanted)
    return cost + (2.0 * p.w_rcf if wanted > count else 0.0)
