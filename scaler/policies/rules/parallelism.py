"""Turn the parallelism that a rule wants into the one replica that a slot may change.

The rules of the literature set a parallelism at once; a Reconfiguration moves one replica, so they are followed one
replica a slot. Only replicas of the rule's own node type come and go: a first replica of another type stays.
"""

from __future__ import annotations

import math

from scaler.model.jit import jit
from scaler.model.kernel import Integers, Problem

ROUNDING = 1e-9  # a product that is whole but for its last bits needs no further replica


@jit
def whole(p: Problem, exact: float) -> int:
    """The fewest replicas, from 1 to K, that are no less than this; K for what is no number."""
    if not exact < p.k_max:
        return p.k_max
    return max(1, math.ceil(exact - ROUNDING))


@jit
def head_for(p: Problem, k: Integers, count: int, kind: int, wanted: int) -> int:
    """The action that brings the parallelism one replica nearer to `wanted`."""
    if wanted > count and count < p.k_max:
        return 1 + p.radix.shape[0] + kind
    if wanted < count and count > 1 and k[kind] > 0:
        return 1 + kind
    return 0
