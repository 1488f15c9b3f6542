"""Which node type to use, and how to move to it.

For each type a shadow runs the same rules on the rates really seen, and keeps account of what it would have paid. The
type in use is left for one whose shadow has been cheaper by more than moving costs. A type never seen at work is taken
for a little better than the model says, so that it is tried out if that might pay. One replica at a time, the first
shows what it can do, and the move waits for evidence; on the way the old type goes only when the new one surely
suffices.
"""

from __future__ import annotations

from scaler.model.jit import jit
from scaler.model.kernel import Integers, KernelView, Problem
from scaler.policies.planner.capacity import cautious_capacity, optimistic_capacity
from scaler.policies.planner.state import State, choose_count, price_beyond, price_in, price_out

MIGRATION_GAIN_FACTOR = 2.0  # times the price of moving by which another type must have been cheaper
MAX_LAG_FACTOR = 10.0  # times that price by which another type is behind at most, lest the past bar the way back
MIGRATION_MARGIN = 1.1  # over the recent peak, before the last of the old type may go


@jit
def migrate(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    """One step from a mixed deployment to the type in use: add it until one of another can go without harm."""
    types = k.shape[0]
    kind = s.kind[0]
    leaving = -1
    slowest = types
    for r in range(types):
        i = p.order[r]
        if leaving < 0 and i != kind and k[i] > 0:
            leaving = i
        if slowest == types and k[i] > (1 if i == leaving else 0):
            slowest = r
    enough = (
        slowest < types
        and (seen.count - 1) * cautious_capacity(s.capacity, int(p.order[slowest])) >= MIGRATION_MARGIN * s.peak[0]
    )
    ready = k[kind] >= s.shadow[kind] and s.capacity.sights[kind] > 0
    if seen.count > 1 and (enough or ready or seen.count >= p.k_max):
        return 1 + leaving
    return 1 + kind + types


@jit
def follow_shadow(p: Problem, s: State, i: int, rate: float, memory: float) -> None:
    """One slot of a type's shadow: pay for it, then change as the rules say."""
    count = s.shadow[i]
    cost = p.w_res * p.price[i] * count
    if rate > count * optimistic_capacity(s.capacity, i):
        cost += p.w_perf
    wanted = choose_count(p, s, i, count)
    if wanted > count:
        cost += price_out(p, s, i, count + 1)
    elif wanted < count:
        cost += price_in(p, s, i, count)
    s.shadow[i] = wanted
    s.paid[i] = memory * s.paid[i] + cost


@jit
def reconsider(s: State, k: Integers, seen: KernelView, first: int) -> None:
    """A type was seen at work for the first time: what its shadow paid was guesswork, so it starts level.

    If it is the one to move to, and only its first replicas have come, the move is called off until evidence is in.
    """
    moving = first == s.kind[0]
    s.paid[first] = s.paid[s.kind[1] if moving else s.kind[0]]
    if moving and k[first] < seen.count:
        s.kind[0] = s.kind[1]


@jit
def choose_type(p: Problem, s: State) -> None:
    """Move to the type whose shadow paid least, once that is worth the way."""
    kind = s.kind[0]
    best = kind
    most = 0.0
    for i in range(s.paid.shape[0]):
        moving = p.w_rcf * (s.shadow[i] + s.shadow[kind])
        moving += s.shadow[i] * price_beyond(p, s, i, s.shadow[i], True)
        moving += s.shadow[kind] * price_beyond(p, s, kind, s.shadow[kind], False)
        s.paid[i] = min(s.paid[i], s.paid[kind] + MAX_LAG_FACTOR * moving)
        gain = s.paid[kind] - s.paid[i] - MIGRATION_GAIN_FACTOR * moving
        if gain > most:
            most = gain
            best = i
    if best != kind:
        s.kind[1] = kind
        s.kind[0] = best
