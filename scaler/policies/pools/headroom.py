"""Headroom: keep so many slots free, on whichever nodes.

As many slots as operators are likely to request while a node starts up: one where nodes start within a decision period
and operators add one replica at a time. Unlike empty nodes, free slots of used nodes count. Nodes are ordered until
enough are free or coming, and an empty one is released when enough are free without it.
"""

from __future__ import annotations

from typing import NamedTuple

from scaler.model.jit import jit
from scaler.model.pool import PoolKernel, PoolStart, PoolView, learn_no_pool
from scaler.policies.homogeneous import read_count

FREE_SLOTS = 1


class State(NamedTuple):
    free_slots: int


def prepare(start: PoolStart) -> State:
    return State(read_count(start.options, "free_slots", FREE_SLOTS))


@jit
def decide(s: State, view: PoolView) -> int:
    free = view.free + view.starting * view.slots
    if free < s.free_slots:
        needed = (s.free_slots - free + view.slots - 1) // view.slots
        return min(needed, view.most - view.active - view.starting)
    surplus = (free - s.free_slots) // view.slots
    return -min(surplus, view.empty)


HEADROOM = PoolKernel("headroom", prepare, decide, learn_no_pool, ("free_slots",))
