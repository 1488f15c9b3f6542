"""Static pool: a fixed number of nodes, found sufficient beforehand."""

from __future__ import annotations

from typing import NamedTuple

from scaler.model.jit import jit
from scaler.model.pool import PoolKernel, PoolStart, PoolView, learn_no_pool
from scaler.policies.homogeneous import read_count


class State(NamedTuple):
    nodes: int


def prepare(start: PoolStart) -> State:
    most = start.region.most_nodes
    return State(min(most, read_count(start.options, "nodes", most)))


@jit
def decide(s: State, view: PoolView) -> int:
    return max(s.nodes - view.active - view.starting, -view.empty)


FIXED_NODES = PoolKernel("static", prepare, decide, learn_no_pool, ("nodes",))
