"""Tuples of a fluid that wait, oldest first, and the distribution of the response times of those that were served.

Notation: a span is tuples that came evenly between two times and still wait, its times in seconds from the slot's
start. A part is tuples whose times lie evenly between two: when they came, and later how long they took.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers

SPANS = 512  # kept apart, the oldest are joined
PARTS = 2048  # told apart, then neighbours are joined: a bound beyond the batches of nearly every slot
TOO_SHORT_S, TOO_FEW = 1e-10, 1e-12  # seconds, tuples that count as none
ROUNDS = 200


class Spans(NamedTuple):
    """A ring of spans, oldest first."""

    begins: Floats  # [SPANS], or none where nobody asks how long tuples wait
    ends: Floats  # [SPANS]
    rates: Floats  # [SPANS]
    ring: Integers  # [2] first span, number of spans


class Parts(NamedTuple):
    """Times of the tuples that were served in a slot."""

    lows: Floats  # [PARTS], or none where means are asked for
    highs: Floats  # [PARTS]
    tuples: Floats  # [PARTS]
    many: Integers  # [1]


def no_spans(size: int) -> Spans:
    return Spans(np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(2, np.int64))


def no_parts(size: int) -> Parts:
    return Parts(np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(1, np.int64))


@jit
def add_span(spans: Spans, slot: float, rate: float) -> None:
    """Let the slot's tuples come, at an even rate, behind those that wait."""
    if rate <= 0.0:
        return
    first, many = spans.ring[0], spans.ring[1]
    last = (first + many - 1) % SPANS
    if many > 0 and spans.rates[last] == rate and spans.ends[last] == 0.0:
        spans.ends[last] = slot
        return
    if many == SPANS:  # the two oldest become one
        second = (first + 1) % SPANS
        tuples = spans.rates[first] * (spans.ends[first] - spans.begins[first])
        tuples += spans.rates[second] * (spans.ends[second] - spans.begins[second])
        spans.begins[second] = spans.begins[first]
        spans.rates[second] = tuples / (spans.ends[second] - spans.begins[second])
        spans.ring[0] = first = second
        spans.ring[1] = many = many - 1
    last = (first + many) % SPANS
    spans.begins[last], spans.ends[last], spans.rates[last] = 0.0, slot, rate
    spans.ring[1] += 1


@jit
def drop_span(spans: Spans) -> None:
    """Forget the oldest span, all of which has been taken."""
    spans.ring[0] = (spans.ring[0] + 1) % SPANS
    spans.ring[1] -= 1


@jit
def take(spans: Spans, parts: Parts, upto: float, most: float) -> tuple[float, float]:
    """Take what came until then, oldest first, as much as a batch holds: tuples, and the sum of their arrival times.

    Where parts are kept, those of the batch are added, with arrival times.
    """
    tuples = 0.0
    arrived = 0.0
    while spans.ring[1] > 0:
        first = spans.ring[0]
        begin, rate = spans.begins[first], spans.rates[first]
        end = min(spans.ends[first], upto)
        if end <= begin:
            break
        many = rate * (end - begin)
        whole = most <= 0.0 or tuples + many <= most
        if not whole:
            many = most - tuples
            end = begin + many / rate
        tuples += many
        arrived += many * (begin + end) / 2.0
        add_part(parts, begin, end, many)
        if end >= spans.ends[first]:
            drop_span(spans)
        else:
            spans.begins[first] = end
            break
        if not whole:
            break
    return tuples, arrived


@jit
def count_waiting(spans: Spans) -> tuple[float, float]:
    """Tuples that wait, and the sum of their arrival times."""
    tuples = 0.0
    arrived = 0.0
    for j in range(spans.ring[1]):
        i = (spans.ring[0] + j) % SPANS
        many = spans.rates[i] * (spans.ends[i] - spans.begins[i])
        tuples += many
        arrived += many * (spans.begins[i] + spans.ends[i]) / 2.0
    return tuples, arrived


@jit
def pass_spans(spans: Spans, slot: float) -> None:
    """Count time from the next slot's start."""
    for j in range(spans.ring[1]):
        i = (spans.ring[0] + j) % SPANS
        spans.begins[i] -= slot
        spans.ends[i] -= slot


@jit
def serve_spans(spans: Spans, parts: Parts, now: float, end: float, pace: float) -> None:
    """Serve a fluid for a while at a pace, first come, first served; the parts are seconds of waiting."""
    while spans.ring[1] > 0 and end - now > TOO_SHORT_S:
        first = spans.ring[0]
        begin, until, rate = spans.begins[first], spans.ends[first], spans.rates[first]
        if begin >= end:
            break
        now = max(now, begin)
        waited = now - begin
        if waited <= TOO_SHORT_S and rate <= pace:  # served as they come
            upto = min(until, end)
            add_part(parts, 0.0, 0.0, rate * (upto - begin))
            now = upto
        else:
            many = min(rate * (until - begin), pace * (end - now))
            if rate < pace:
                many = min(many, waited * rate * (pace / (pace - rate)))  # after which nobody waits
            upto = begin + many / rate
            later = now + many / pace
            add_part(parts, max(0.0, later - upto), waited, many)
            now = later
        if until - upto <= TOO_SHORT_S:
            drop_span(spans)
        else:
            spans.begins[first] = upto


@jit
def add_part(parts: Parts, one: float, other: float, tuples: float) -> None:
    """Add tuples whose times lie evenly between two; nothing where no parts are kept."""
    if parts.lows.shape[0] == 0 or tuples <= TOO_FEW:
        return
    if parts.many[0] == PARTS:
        join_parts(parts)
    j = parts.many[0]
    low, high = min(one, other), max(one, other)
    parts.lows[j] = low if high - low > TOO_SHORT_S else high
    parts.highs[j], parts.tuples[j] = high, tuples
    parts.many[0] += 1


@jit
def join_parts(parts: Parts) -> None:
    """Make one of every two neighbours, with their mean."""
    many = parts.many[0]
    parts.many[0] = (many + 1) // 2
    for j in range(parts.many[0]):
        a, b = 2 * j, min(2 * j + 1, many - 1)
        tuples = parts.tuples[a] + parts.tuples[b]
        share = parts.tuples[a] / tuples
        parts.lows[j] = share * parts.lows[a] + (1.0 - share) * parts.lows[b]
        parts.highs[j] = share * parts.highs[a] + (1.0 - share) * parts.highs[b]
        parts.tuples[j] = tuples if b > a else tuples / 2.0


@jit
def make_room(parts: Parts) -> None:
    """Join parts before those of a batch might not fit."""
    if parts.many[0] > PARTS - SPANS:
        join_parts(parts)


@jit
def answer_parts(parts: Parts, first: int, moment: float) -> None:
    """Turn the arrival times of the parts from the first on to response times, all being answered at one moment."""
    for j in range(first, parts.many[0]):
        parts.lows[j], parts.highs[j] = moment - parts.highs[j], moment - parts.lows[j]


@jit
def part_quantile(parts: Parts, quantile: float) -> float:
    """The time that this share of the tuples does not exceed, to rounding; there must be some.

    The distribution is linear piece by piece: Newton's step lands exactly within a piece, and bisection where it leaves
    what is known to hold the quantile.
    """
    many = parts.many[0]
    low, high, total = math.inf, -math.inf, 0.0
    for j in range(many):
        low, high = min(low, parts.lows[j]), max(high, parts.highs[j])
        total += parts.tuples[j]
    target = quantile * total
    close = 1e-14 * many * total
    below, slope = count_below(parts, low)
    if below >= target or high <= low:
        return low
    time = low + quantile * (high - low)
    for _ in range(ROUNDS):
        below, slope = count_below(parts, time)
        if abs(below - target) <= close or high - low <= 1e-15 * (abs(low) + abs(high)):
            break
        if below < target:
            low = time
        else:
            high = time
        step = time + (target - below) / slope if slope > 0.0 else low
        time = step if low < step < high else (low + high) / 2.0
    return time


@jit
def count_below(parts: Parts, time: float) -> tuple[float, float]:
    """Tuples of at most this time, and how many more there are per second beyond it."""
    below, slope = 0.0, 0.0
    for j in range(parts.many[0]):
        low, high, tuples = parts.lows[j], parts.highs[j], parts.tuples[j]
        if time >= high:
            below += tuples
        elif time > low:
            below += tuples * (time - low) / (high - low)
            slope += tuples / (high - low)
    return below, slope
