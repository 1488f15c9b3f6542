"""Response-time quantiles of a replica as an M/G/1 queue with gamma service, tabulated over load.

Notation: q quantile, x arrivals per second, h mean service time on the replica, c squared coefficient of variation of
service (0 constant, 1 exponential), rho = x h, T response time in units of h, t_q its quantile. The table holds
z = (1 - rho) t_q at STEPS + 1 even steps of u = sqrt(rho): z is smooth, and known in the limit of heavy traffic,
-ln(1 - q) (1 + c) / 2 (Kingman). Between steps z is linear in u.

Sources: Pollaczek-Khinchine's transform, inverted by Euler summation (Abate and Whitt 1995) for c > 0; Erlang's series
for constant service with the exponential asymptote beyond ASYMPTOTIC service times.

Error: z at a step is within 1e-6; between steps t_q is within .3 % for c up to 10, and within 2.5 % where service
hardly varies (c < .01) while the load is near 1 - q, below which nearly nobody waits. A c between 0 and LEAST_SCV
counts as LEAST_SCV. For a c that is only known at run time, z is interpolated between the tables of SCV_GRID: the rate
within a bound is then within 2 % for q from .9 and loads from .4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scaler.model.jit import jit
from scaler.model.queueing import mg1_rate_within, mg1_response

Floats = NDArray[np.float64]

STEPS = 256
LEAST_SCV = 1e-4
LEAST_TIME = 1e-12  # in units of h, below which a quantile counts as this
ASYMPTOTIC = 8.0  # waiting times in units of h, from which one exponential is exact to rounding
EULER_TERMS, AVERAGED_TERMS = 38, 12  # terms of the series, and of its binomial average
EULER_ACCURACY = 22.0  # the error of a probability is about exp(-this)
ROUNDS = 60
SCV_GRID = np.array([0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])


def mg1_quantile_table(scv: float, quantile: float) -> Floats:
    """Normalised response-time quantiles by load, [STEPS + 1]; of length 0 for quantile 0, the mean."""
    return tabulate(scv, quantile).copy() if quantile > 0.0 else np.zeros(0)


def mg1_quantile_grid(quantile: float) -> Floats:
    """The tables of SCV_GRID, [scv, STEPS + 1]; none for quantile 0, the mean."""
    if quantile <= 0.0:
        return np.zeros((0, STEPS + 1))
    return np.array([tabulate(float(scv), quantile) for scv in SCV_GRID])


@lru_cache(maxsize=1024)
def tabulate(scv: float, quantile: float) -> Floats:
    rho = (np.arange(STEPS) / STEPS) ** 2
    limit = -math.log(1.0 - quantile) * (1.0 + scv) / 2.0
    return np.append((1.0 - rho) * solve_quantiles(rho, scv, quantile), limit)


def solve_quantiles(rho: Floats, scv: float, quantile: float) -> Floats:
    """t_q at each load, by bisection in log t between LEAST_TIME and Markov's bound."""
    over = constant_service_tail if scv == 0.0 else gamma_service_tail(max(scv, LEAST_SCV))
    mean = 1.0 + rho * (1.0 + scv) / (2.0 * (1.0 - rho))
    low, high = np.full(rho.shape, math.log(LEAST_TIME)), np.log(mean / (1.0 - quantile))
    while (high - low).max() > 1e-7:
        middle = (low + high) / 2.0
        beyond = over(rho, np.exp(middle)) > 1.0 - quantile
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    return np.exp(high)


def gamma_service_tail(scv: float) -> Callable[[Floats, Floats], Floats]:
    """P(T > t) by load and t. The less service varies, the more terms its steep distribution takes."""
    terms = EULER_TERMS + math.ceil(3.0 / math.sqrt(scv))
    k = np.arange(terms + AVERAGED_TERMS + 1)
    sign = np.where(k % 2 == 0, 1.0, -1.0) * np.where(k == 0, 0.5, 1.0)
    weights = np.array([math.comb(AVERAGED_TERMS, j) for j in range(AVERAGED_TERMS + 1)]) / 2.0**AVERAGED_TERMS

    def tail(rho: Floats, t: Floats) -> Floats:
        s = (EULER_ACCURACY + 2j * np.pi * k) / (2.0 * t[:, None])
        load = rho[:, None]
        service = np.exp(np.log1p(scv * s) / -scv)
        response = (1.0 - load) * s * service / (s - load * (1.0 - service))
        sums = np.cumsum(sign * ((1.0 - response) / s).real, axis=1)[:, terms:]
        found: Floats = math.exp(EULER_ACCURACY / 2.0) / t * (sums @ weights)
        return found

    return tail


def constant_service_tail(rho: Floats, t: Floats) -> Floats:
    """P(T > t) by load and t where every service takes exactly 1."""
    waited = t - 1.0
    near = np.clip(waited, 0.0, ASYMPTOTIC)
    cdf = np.zeros(rho.shape)
    for k in range(int(ASYMPTOTIC) + 1):
        beyond = rho * np.maximum(near - k, 0.0)
        cdf += np.where(near >= k, (-beyond) ** k * np.exp(beyond) / math.factorial(k), 0.0)
    decay = find_decay(rho)
    far = (1.0 - rho) / (rho * np.exp(decay) - 1.0) * np.exp(-decay * np.maximum(waited, 0.0))
    found: Floats = np.where(waited < 0.0, 1.0, np.where(waited <= ASYMPTOTIC, 1.0 - (1.0 - rho) * cdf, far))
    return found


def find_decay(rho: Floats) -> Floats:
    """The rate at which the tail of constant service's wait decays: the positive root of rho (e^d - 1) = d."""
    rho = np.maximum(rho, 1e-9)  # idle: nobody waits, however fast that decays
    low, high = np.zeros(rho.shape), np.full(rho.shape, 40.0)
    for _ in range(ROUNDS):
        middle = (low + high) / 2.0
        below = rho * np.expm1(middle) < middle
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2.0


@jit
def mg1_quantile(table: Floats, x: float, h: float) -> float:
    """The table's response-time quantile of a replica; infinite at rho >= 1."""
    rho = x * h
    if rho >= 1.0:
        return math.inf
    steps = table.shape[0] - 1
    place = math.sqrt(rho) * steps
    i = min(int(place), steps - 1)
    return (table[i] + (place - i) * (table[i + 1] - table[i])) / (1.0 - rho) * h


@jit
def mg1_rate_within_quantile(table: Floats, bound: float, h: float) -> float:
    """The highest arrival rate at which the table's quantile stays within `bound`; 0 when none does."""
    return rate_within_between(table, table, 0.0, bound, h)


@jit
def grid_rate_within(grid: Floats, bound: float, h: float, scv: float) -> float:
    """The highest arrival rate within a bound on the grid's quantile, for any scv; its last counts for all beyond."""
    last = SCV_GRID.shape[0] - 1
    if scv >= SCV_GRID[last]:
        return mg1_rate_within_quantile(grid[last], bound, h)
    j = 0
    while scv >= SCV_GRID[j + 1]:
        j += 1
    share = (scv - SCV_GRID[j]) / (SCV_GRID[j + 1] - SCV_GRID[j])
    return rate_within_between(grid[j], grid[j + 1], share, bound, h)


@jit
def rate_within_between(one: Floats, other: Floats, share: float, bound: float, h: float) -> float:
    """The highest arrival rate within a bound on the quantile of a table that share of the way between two.

    t_q grows with rho, so the step is found by bisection; within it z = a + b u and z = (1 - u^2) bound / h.
    """
    steps = one.shape[0] - 1
    target = bound / h
    if mix(one, other, share, 0) > target:
        return 0.0
    low, high = 0, steps
    while high - low > 1:
        middle = (low + high) // 2
        if mix(one, other, share, middle) <= target * (1.0 - (middle / steps) ** 2):
            low = middle
        else:
            high = middle
    z = mix(one, other, share, low)
    b = (mix(one, other, share, low + 1) - z) * steps
    a = z - b * low / steps
    u = 2.0 * (target - a) / (b + math.sqrt(b * b + 4.0 * target * (target - a)))
    return min(u, (low + 1) / steps) ** 2 / h


@jit
def mix(one: Floats, other: Floats, share: float, step: int) -> float:
    return (1.0 - share) * one[step] + share * other[step]


@jit
def grid_scv(grid: Floats, x: float, h: float, response: float) -> float:
    """The least scv with which the grid's quantile is this response time; the grid's nearest where none is."""
    nearest, least = 0.0, math.inf
    before = 0.0
    for j in range(SCV_GRID.shape[0]):
        over = mg1_quantile(grid[j], x, h) - response
        if j > 0 and (over >= 0.0) != (before >= 0.0):
            return SCV_GRID[j - 1] + before / (before - over) * (SCV_GRID[j] - SCV_GRID[j - 1])
        if abs(over) < least:
            nearest, least = SCV_GRID[j], abs(over)
        before = over
    return nearest


def replica_response_time(x: float, m: float, v: float, s: float, quantile: float | None) -> float:
    """Response time of an M/G/1 queue: its quantile, or its mean where `quantile` is None."""
    if quantile is None:
        return mg1_response(x, m, v, s)
    return mg1_quantile(tabulate(v / (m * m), quantile), x, m / s)


def replica_rate_within(bound: float, m: float, v: float, s: float, quantile: float | None) -> float:
    """The highest arrival rate at which `replica_response_time` stays within `bound`; 0 when none does."""
    if quantile is None:
        return mg1_rate_within(bound, m, v, s)
    return mg1_rate_within_quantile(tabulate(v / (m * m), quantile), bound, m / s)
