"""Grant every request; the nodes alone decide whether there is room."""

from __future__ import annotations

from scaler.model.jit import jit
from scaler.model.kernel import Integers
from scaler.model.pool import GRANTED, GrantKernel, OperatorCount, Requests, count_operators


@jit
def grant(s: OperatorCount, requests: Requests, reasons: Integers) -> None:
    reasons[:] = GRANTED


EVERY_REQUEST = GrantKernel("all", count_operators, grant)
