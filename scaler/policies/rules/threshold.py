"""Threshold policy (TB): scale out above a utilisation, in when one replica fewer would stay well below it.

The node choice is fixed beforehand: homogeneous.py lists the four. The published rows use .75 (the text says .7).
"""

from __future__ import annotations

from typing import NamedTuple

from scaler.model.jit import jit
from scaler.model.kernel import Integers, KernelView, Problem
from scaler.model.policy import Start
from scaler.policies.homogeneous import by_node, read_number, scale_to
from scaler.policies.rules.static import learn_nothing

THRESHOLD = 0.75
SLACK = 0.75


class State(NamedTuple):
    node_type: int
    threshold: float


def prepare(start: Start, node_type: int) -> State:
    return State(node_type, read_number(start.options, "threshold", THRESHOLD, 0.01, 1.0))


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    wanted = seen.count
    if seen.utilisation > s.threshold:
        wanted += 1
    elif seen.count > 1 and seen.utilisation * seen.count / (seen.count - 1) < SLACK * s.threshold:
        wanted -= 1
    return scale_to(p, k, seen.count, s.node_type, wanted)


THRESHOLD_C, THRESHOLD_S, THRESHOLD_O, THRESHOLD_P = by_node(
    "TB", prepare, decide, learn_nothing, options=("threshold",), any_size=True
)
