"""A micro-batch operator in absolute time, batch by batch, from the cumulative arrivals alone: it knows no slots."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class OneBatch:
    start: float
    end: float
    tuples: float
    waits: float  # seconds that its tuples waited for its start, summed
    first: float  # number of its first tuple


class Arrivals:
    """A fluid at one rate per slot; tuples are numbered by how many came before."""

    def __init__(self, rates: list[float], slot_s: float) -> None:
        self.times = np.arange(len(rates) + 1) * slot_s
        self.counts = np.concatenate([[0.0], np.cumsum(np.array(rates) * slot_s)])

    def count(self, time: float) -> float:
        return float(np.interp(time, self.times, self.counts))

    def next_time(self, time: float) -> float:
        """When the next tuple comes, at that time or later."""
        for begin, end, low, high in zip(
            self.times[:-1], self.times[1:], self.counts[:-1], self.counts[1:], strict=True
        ):
            if end > time and high > low:
                return max(time, float(begin))
        return math.inf

    def summed_times(self, first: float, last: float) -> float:
        """Integral of the arrival time over the tuples numbered from first to last."""
        inner = self.counts[(self.counts > first) & (self.counts < last)]
        numbers = np.unique(np.concatenate([[first], inner, [last]]))
        total = 0.0
        for low, high in itertools.pairwise(numbers):
            i = int(np.searchsorted(self.counts, (low + high) / 2.0)) - 1
            rate = (self.counts[i + 1] - self.counts[i]) / (self.times[i + 1] - self.times[i])
            came = [self.times[i] + (n - self.counts[i]) / rate for n in (low, high)]
            total += (high - low) * (came[0] + came[1]) / 2.0
        return total


def list_batches(
    arrivals: Arrivals,
    trigger: float,
    merge: bool,
    most: float,
    duration: Callable[[float, float], float],  # of a start and a number of tuples
    until: float,
) -> list[OneBatch]:
    """Batches that start before `until`."""
    batches: list[OneBatch] = []
    taken, due, free = 0.0, 0.0, 0.0
    while True:
        start = max(due, free)
        if start >= until:
            return batches
        upto = arrivals.count(start if merge else due)
        upto = min(upto, taken + most) if most > 0.0 else upto
        if not merge:
            due += trigger
        elif trigger > 0.0:
            due += trigger * (math.floor((start - due) / trigger) + 1)
        else:
            due = start if upto > taken else arrivals.next_time(start)
        if upto > taken or (trigger == 0.0 and due == start):
            waits = (upto - taken) * start - arrivals.summed_times(taken, upto)
            free = start + duration(start, upto - taken)
            batches.append(OneBatch(start, free, upto - taken, waits, taken))
            taken = upto


class Replicas:
    """Replicas of one type in absolute time: of those that are removed the last to start goes first."""

    def __init__(self, first: int) -> None:
        self.from_: list[float] = [-math.inf] * first  # when each serves
        self.until: list[float] = [math.inf] * first

    def change(self, time: float, delta: int, start_s: float) -> None:
        for _ in range(delta):
            self.from_.append(time + start_s)
            self.until.append(math.inf)
        for _ in range(-delta):
            there = [i for i, until in enumerate(self.until) if until == math.inf]
            self.until[max(there, key=lambda i: self.from_[i])] = time

    def count(self, time: float) -> int:
        return sum(begin <= time < end for begin, end in zip(self.from_, self.until, strict=True))

    def find_end(self, begins: float, tuples: float, each: Callable[[int], float]) -> float:
        """When so many tuples are done that are begun then; `each` is their seconds on so many replicas."""
        moments = sorted(m for m in {*self.from_, *self.until} if begins < m < math.inf)
        for now, then in itertools.pairwise([begins, *moments]):
            done = (then - now) / each(self.count(now))
            if done >= tuples:
                return now + tuples * each(self.count(now))
            tuples -= done
        last = moments[-1] if moments else begins
        return last + tuples * each(self.count(last))


def find_response_quantile(
    arrivals: Arrivals, batches: list[OneBatch], delay: float, part: float, quantile: float
) -> float:
    """The response time that this share of the batches' tuples does not exceed, by bisection over arrival counts."""
    answered = [(b.start + delay + part * (b.end - b.start), b.first, b.first + b.tuples) for b in batches]
    low, high = -1e-9, max(moment for moment, _, _ in answered) + 1.0
    target = quantile * sum(last - first for _, first, last in answered)
    for _ in range(100):
        time = (low + high) / 2.0
        below = sum(last - min(max(arrivals.count(moment - time), first), last) for moment, first, last in answered)
        low, high = (time, high) if below < target else (low, time)
    return high
