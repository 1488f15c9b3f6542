"""Idle nodes: keep so many nodes empty and running (the "simple" policy of Russo Russo et al., 2018).

With fewer empty nodes one is ordered; the surplus of empty ones is released, which touches no application. The paper
prints no number; two reproduce its tables.
"""

from __future__ import annotations

from typing import NamedTuple

from scaler.model.jit import jit
from scaler.model.pool import PoolKernel, PoolStart, PoolView, learn_no_pool
from scaler.policies.homogeneous import read_count

IDLE = 2


class State(NamedTuple):
    idle: int


def prepare(start: PoolStart) -> State:
    return State(read_count(start.options, "idle", IDLE))


@jit
def decide(s: State, view: PoolView) -> int:
    idle = view.empty + view.starting
    if idle < s.idle:
        return 1 if view.active + view.starting < view.most else 0
    return max(s.idle - idle, -view.empty)


IDLE_NODES = PoolKernel("idle nodes", prepare, decide, learn_no_pool, ("idle",))
