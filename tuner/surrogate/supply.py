"""Learn the supply of node types from the agents' ledgers: start-up times, losses, and how many there were at least.

Start-ups are known to lie within spans, as far apart as an agent's looks where the cluster does not tell when a replica
started. Their distribution is Turnbull's estimate (1976), which is the likelihood's maximum without a parametric form,
found by its self-consistency; quantiles have the interval of their ranks (Woodruff 1952) among the least and the most
that each may have taken. Replicas given up at their deadline are counted and are not in it: it is the distribution of
those that came.

Losses are a Poisson process per replica-hour, its interval the exact one by gamma quantiles; replicas that go together,
with one machine, are taken for independent, which makes it too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.supply_record import Span, SupplyRecord
from tuner.surrogate.estimate import CONFIDENCE, Estimate
from tuner.surrogate.surrogate import LearnedSupply, StartQuantile

LEAST_EVENTS = 3  # below which nothing is said
EQUALLY_LIKELY = 9  # start-up times that stand for the distribution in a replay
QUANTILES = (0.1, 0.5, 0.9)  # stated with intervals
MOST_SPANS = 400  # of which the distribution is made, evenly over time
ROUNDS = 300  # of the self-consistency
LASTING_S = 600.0  # for which an operator is taken to hold what it told last
SupplyRow = tuple[float, str, tuple[SupplyRecord, ...]]  # time, operator, records
Told = tuple[float, str, SupplyRecord]


class StartTimes(NamedTuple):
    """A distribution of start-up times: spans that hold probability, ascending, and how much."""

    low: Floats
    high: Floats
    share: Floats
    least: Floats  # that each start-up may have taken, ascending
    most: Floats


def measure_supply(rows: Iterable[SupplyRow]) -> tuple[LearnedSupply, ...]:
    """Node types by name, of all operators together."""
    by_type: dict[str, list[Told]] = {}
    for time, operator, records in rows:
        for one in records:
            by_type.setdefault(one.node_type, []).append((time, operator, one))
    return tuple(measure_type(name, by_type[name]) for name in sorted(by_type))


def measure_type(node_type: str, told: Sequence[Told]) -> LearnedSupply:
    records = [record for *_, record in told]
    spans = [span for one in records for span in one.came]
    hours, lost = sum(one.watched_s for one in records) / 3600.0, sum(one.lost for one in records)
    times = fit_start_times(spans) if len(spans) >= LEAST_EVENTS else None
    shares = (np.arange(EQUALLY_LIKELY) + 0.5) / EQUALLY_LIKELY
    return LearnedSupply(
        node_type=node_type,
        ordered=sum(one.ordered for one in records),
        came=len(spans),
        given_up=sum(one.given_up for one in records),
        refused=sum(one.refused for one in records),
        lost=lost,
        replica_hours=hours,
        most=count_together(told),
        start_s=() if times is None else tuple(round(find_quantile(times, q), 3) for q in shares.tolist()),
        start=() if times is None else tuple(StartQuantile(q, estimate_quantile(times, q)) for q in QUANTILES),
        lost_per_hour=estimate_rate(lost, hours) if lost >= LEAST_EVENTS and hours > 0.0 else None,
    )


def count_together(told: Sequence[Told]) -> int:
    """The most replicas that all operators had at a time; their slots need not begin together."""
    held: dict[str, tuple[float, int]] = {}
    most = 0
    for time, operator, one in sorted(told, key=itemgetter(0)):
        held[operator] = time, one.count
        most = max(most, sum(count for since, count in held.values() if time - since <= LASTING_S))
    return most


def fit_start_times(spans: Sequence[Span]) -> StartTimes:
    """Turnbull's estimate: the innermost spans, and the probability that each holds."""
    if len(spans) > MOST_SPANS:
        spans = [spans[i] for i in np.linspace(0, len(spans) - 1, MOST_SPANS).astype(int)]
    low, high = np.array(spans, dtype=np.float64).T
    begins = np.unique(low)
    ends = np.array([high[high >= begin].min() for begin in begins])
    inner = np.append(begins[1:], math.inf) > ends  # no other span begins within
    begins, ends = begins[inner], ends[inner]
    holds = (low[:, None] <= begins) & (ends <= high[:, None])  # [spans, inner]
    share = np.full(begins.size, 1.0 / begins.size)
    for _ in range(ROUNDS):
        each = holds * share
        share = (each / each.sum(axis=1, keepdims=True)).mean(axis=0)
    return StartTimes(begins, ends, share, np.sort(low), np.sort(high))


def find_quantile(times: StartTimes, quantile: float) -> float:
    """Seconds; within a span by a straight line, for nothing says where in it."""
    below = np.cumsum(times.share)
    i = min(int(np.searchsorted(below, quantile)), times.share.size - 1)
    share = float(times.share[i])
    inside = min(1.0, max(0.0, (quantile - (below[i] - share)) / share)) if share > 0.0 else 0.0
    return float(times.low[i] + inside * (times.high[i] - times.low[i]))


def estimate_quantile(times: StartTimes, quantile: float) -> Estimate:
    """It holds the truth at 95 % confidence at least, wherever within their spans the start-ups lay."""
    events = times.least.size
    reach = 1.96 * math.sqrt(quantile * (1.0 - quantile) / events)
    ranks = math.floor((quantile - reach) * events), math.ceil((quantile + reach) * events) - 1
    low, high = float(times.least[max(0, ranks[0])]), float(times.most[min(events - 1, ranks[1])])
    return Estimate(find_quantile(times, quantile), low, high, (high - low) / (2.0 * 1.96))


def estimate_rate(events: int, hours: float) -> Estimate:
    """Events per hour of a Poisson process, with its exact interval."""
    from scipy.special import gammaincinv  # late, for it takes a quarter of a second to load

    tail = (1.0 - CONFIDENCE) / 2.0
    low = float(gammaincinv(events, tail)) / hours if events else 0.0
    return Estimate(events / hours, low, float(gammaincinv(events + 1, 1.0 - tail)) / hours, math.sqrt(events) / hours)
