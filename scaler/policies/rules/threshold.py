"""Threshold policy (TB): scale out above a utilisation, in when one replica fewer would stay well below it.

The node choice is fixed beforehand: -C the cheapest type, -S the fastest, -O the one that meets the bound at the least
price when the operator runs on that type alone at the highest rate. The published rows use .75 (the text says .7).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from scaler.model.jit import jit
from scaler.model.kernel import Integers, KernelView, Problem
from scaler.model.task import Task
from scaler.policies.homogeneous import by_node, read_number
from scaler.policies.rules.static import learn_nothing

THRESHOLD = 0.75
SLACK = 0.75


class State(NamedTuple):
    node_type: int
    threshold: float


def prepare(task: Task, model: Task, seed: int, options: Mapping[str, Any], node_type: int) -> State:
    return State(node_type, read_number(options, "threshold", THRESHOLD, 0.01, 1.0))


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    types = p.radix.shape[0]
    if seen.utilisation > s.threshold and seen.count < p.k_max:
        return 1 + types + s.node_type
    if k[s.node_type] == 0 or seen.count == 1:
        return 0
    return 1 + s.node_type if seen.utilisation * seen.count / (seen.count - 1) < SLACK * s.threshold else 0


THRESHOLD_C, THRESHOLD_S, THRESHOLD_O = by_node("TB", prepare, decide, learn_nothing, options=("threshold",))
