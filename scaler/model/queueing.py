"""Response times of replicas as queues, in seconds, and the rate at which a backlog is to be worked off.

Notation (per replica): x arrivals per second, m mean and v variance of the service time at speedup 1, s speedup,
rho = x m / s. Sources: Pollaczek-Khinchine for M/G/1; Kingman's bound for G/G/1; Erlang C for M/M/k, with the
Allen-Cunneen factor for M/G/k.
"""

from __future__ import annotations

import math

from scaler.model.jit import jit


@jit
def mg1_response(x: float, m: float, v: float, s: float) -> float:
    """Mean response time of an M/G/1 queue; infinite at rho >= 1."""
    rho = x * m / s
    if rho >= 1.0:
        return math.inf
    return m / s + x * (v + m * m) / (s * s) / (2.0 * (1.0 - rho))


@jit
def response_at(utilisation: float, m: float, v: float, s: float) -> float:
    """Mean response time of an M/G/1 queue at a utilisation: the latency bound that a utilisation target amounts to."""
    return mg1_response(utilisation * s / m, m, v, s)


@jit
def gg1_response(x: float, m: float, v: float, s: float, arrival_scv: float) -> float:
    """Kingman's approximation: the M/M/1 wait scaled by the mean of the two squared coefficients of variation."""
    rho = x * m / s
    if rho >= 1.0:
        return math.inf
    if m == 0.0:
        return 0.0
    return m / s + rho / (1.0 - rho) * (arrival_scv + v / (m * m)) / 2.0 * m / s


@jit
def mg1_rate_within(bound: float, m: float, v: float, s: float) -> float:
    """The highest arrival rate of a replica whose M/G/1 response time stays within `bound`; 0 when none does.

    R = h + x e / (2 (1 - x h)) <= b, with h = m / s and e = (v + m^2) / s^2, solved for x.
    """
    h = m / s
    slack = bound - h
    if slack <= 0.0:
        return 0.0
    e = (v + m * m) / (s * s)
    return 2.0 * slack / (e + 2.0 * slack * h)


@jit
def mgk_response(x: float, m: float, v: float, s: float, k: int, arrival_scv: float) -> float:
    """Mean response time of k replicas with one shared queue (Erlang C times the Allen-Cunneen factor).

    Erlang B by its recursion, which neither overflows nor needs factorials.
    """
    h = m / s
    load = x * h
    if load >= k:
        return math.inf
    blocking = 1.0
    for i in range(1, k + 1):
        blocking = load * blocking / (i + load * blocking)
    rho = load / k
    waiting = blocking / (1.0 - rho * (1.0 - blocking))
    return h + waiting * h / (k - load) * (arrival_scv + v / (m * m)) / 2.0


CATCH_UP_SLOTS = 5.0  # in which a backlog is to be worked off


@jit
def catch_up_rate(backlog: float, slot_s: float) -> float:
    """Tuples per second to serve beside the arrivals.

    Waiting tuples are late for as long as they wait. A policy that saw arrivals alone would leave a backlog to whatever
    capacity is to spare; it sees both, as one rate.
    """
    return backlog / (CATCH_UP_SLOTS * slot_s)
