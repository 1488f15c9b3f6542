"""DRS (Fu et al., ICDCS 2015) over a whole application: the least replicas whose total sojourn time meets R_max.

Operators form an open Jackson network of M/M/k queues (Allen and Cunneen's factor where service is not exponential),
with lambda_i what arrives at operator i, lambda_0 what comes from outside, and the mean sojourn time of a tuple with
all that derives from it E[T] = sum of lambda_i E[T_i] / lambda_0. Every operator gets the ceil(lambda_i m_i) replicas
that it needs to be stable; then the next one goes to the operator by which E[T] falls most, until E[T] <= R_max.

An operator that would be unstable with all the replicas it may have takes them, and counts in E[T] no more. Service
times are the model's, as slow as the slowest replica there (drs.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from scaler.model.kernel import Integers, KernelView, Problem
from scaler.model.queueing import mgk_response
from scaler.policies.coordinator import (
    CoordinatorStart,
    Dataflow,
    coordinate_by_node,
    external_rate,
    lay_out_dataflow,
    scale_all,
    sustained_rates,
)
from scaler.policies.homogeneous import whole
from scaler.policies.rules.drs import ARRIVAL_SCV, pace


class State(NamedTuple):
    kinds: tuple[int, ...]  # node type that comes and goes, by operator
    flow: Dataflow
    r_max: float


def prepare(start: CoordinatorStart, kinds: tuple[int, ...]) -> State:
    return State(kinds, lay_out_dataflow(start), start.r_max)


def decide(s: State, problems: Sequence[Problem], ks: Sequence[Integers], views: Sequence[KernelView]) -> list[int]:
    """Size all operators at once."""
    external = external_rate(s.flow, [seen.arrivals for seen in views])
    rates = sustained_rates(s.flow, external)
    speeds = [pace(p, seen, kind) for p, seen, kind in zip(problems, views, s.kinds, strict=True)]
    return scale_all(s.kinds, problems, ks, views, share_out(problems, rates, speeds, s.r_max * external))


def share_out(
    problems: Sequence[Problem], rates: Sequence[float], speeds: Sequence[float], sojourn: float
) -> list[int]:
    """The least replicas whose tuples within the operators, lambda_i E[T_i] in sum, are no more than `sojourn`."""

    def within(i: int, count: int) -> float:
        """Tuples at an operator, by Little's law."""
        p = problems[i]
        return rates[i] * mgk_response(rates[i], p.mean, p.variance, speeds[i], count, ARRIVAL_SCV)

    counts = [int(whole(p, rate * p.mean / speed)) for p, rate, speed in zip(problems, rates, speeds, strict=True)]
    stable = [i for i, p in enumerate(problems) if rates[i] > 0.0 and within(i, p.k_max) < math.inf]
    while math.fsum(within(i, counts[i]) for i in stable) > sojourn:
        falls = {i: within(i, counts[i]) - within(i, counts[i] + 1) for i in stable if counts[i] < problems[i].k_max}
        best = max(falls, key=falls.__getitem__, default=-1)
        if best < 0 or falls[best] <= 0.0:
            break  # no replica gets nearer to the bound
        counts[best] += 1
    return counts


DRS_GRAPH_C, DRS_GRAPH_S, DRS_GRAPH_O, DRS_GRAPH_P = coordinate_by_node("DRS graph", prepare, decide, ())
