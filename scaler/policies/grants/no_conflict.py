"""Refuse a request for a slot that another operator requested first in the same decision period.

Each operator requests the slot that it would get were it alone. Two that request the last slot of a node conflict: the
first, upstream first, is granted, and the other requests again in the next period.
"""

from __future__ import annotations

from scaler.model.jit import jit
from scaler.model.kernel import Integers
from scaler.model.pool import CONFLICT, GRANTED, GrantKernel, OperatorCount, Requests, count_operators


@jit
def grant(s: OperatorCount, requests: Requests, reasons: Integers) -> None:
    for o in range(s.operators):
        reasons[o] = GRANTED
        if requests.delta[o] <= 0 or requests.node[o] < 0:
            continue
        taken = 0
        for other in range(o):
            same = requests.node[other] == requests.node[o]
            if same and requests.delta[other] > 0 and reasons[other] == GRANTED:
                taken += requests.delta[other]
        if taken + requests.delta[o] > requests.room[o]:
            reasons[o] = CONFLICT


NO_CONFLICT = GrantKernel("no conflict", count_operators, grant)
