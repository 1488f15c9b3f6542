"""Micro-batch query: the rhythm of its batches, and closed forms of its steady state.

A batch of n tuples on k replicas, the slowest of speed s, takes

    D = a + g n m / (s k)                       its work split evenly, or
    D = a + g n m / (s P) x ceil(P / k)         in waves of P equal tasks

with a the overhead, m the mean service time and g how much longer work takes than its service times. The next batch
starts at the first multiple of the trigger T that is due, or at once where one is overrun, and takes all that waits. A
tuple waits for its batch, then d, then the share p of its duration. With rho = lambda g m / (s k) and without noise the
cycle is T while a + rho T <= T, else c = a / (1 - rho). Tuples come at every phase of the cycle alike: the mean
response is half a cycle + d + p D, and quantile q is q cycles + d + p D. With noise: `batch_quantiles`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.jit import jit

SHORTEST = 0.2  # of the overhead, which no batch undercuts however the noise falls


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """Constants of a micro-batch operator, under the names of a fitted surrogate; seconds."""

    trigger_s: float = 0.0  # 0: the next batch follows at once
    overhead_s: float = 0.1
    work: float = 1.0
    noise_s: float = 0.0  # standard deviation of a batch's duration
    correlation: float = 0.0  # of the noise of one batch and the next
    delay_s: float = 0.0  # below zero where answers come before the batch has ended
    part: float = 1.0  # share of its batch's duration that a tuple waits
    partitions: int = 0  # equal tasks of a batch; 0: work divides evenly among replicas
    most: float = 0.0  # tuples of a batch; 0: all that waits
    merge: bool = True  # False: each trigger's tuples are a batch of their own, as with DStreams
    overhead_curve_s: tuple[float, ...] = ()  # overhead by replicas, the last for all beyond; closed forms know none

    def __post_init__(self) -> None:
        times = (self.trigger_s, self.overhead_s, self.noise_s, self.delay_s + self.overhead_s, self.most)
        if not (all(0.0 <= value < math.inf for value in times) and self.partitions >= 0):
            raise BadInput(
                "a batch's trigger, overhead, noise, partitions and most must be 0 or more, and the delay at least "
                "the overhead with a minus"
            )
        if not self.overhead_s > 0.0:
            raise BadInput("the overhead of a batch is 0 s, and must be positive: planning it alone takes time")
        if 0.0 < self.trigger_s <= self.overhead_s:
            raise BadInput(
                f"the trigger is {self.trigger_s:g} s and the overhead of a batch {self.overhead_s:g} s, so that no "
                "number of replicas keeps up; trigger less often"
            )
        if not 0.0 < self.work < math.inf:
            raise BadInput(f"the work of a batch is {self.work} times its service times, and must be positive")
        if not (0.0 <= self.part <= 1.0 and 0.0 <= self.correlation < 1.0):
            raise BadInput(f"part is {self.part} and correlation {self.correlation}; both are shares from 0 to 1")
        if not all(0.0 < value < math.inf for value in self.overhead_curve_s):
            raise BadInput("the overheads by number of replicas must be positive, in seconds")
        if not self.merge and not self.trigger_s > 0.0:
            raise BadInput("batches that are not merged need a trigger_s above 0, which cuts them")


def parse_batches(table: Mapping[str, Any]) -> MicroBatches:
    """Constants as a description or orders state them; names that only a newer release knows are left out."""
    known = {one.name for one in fields(MicroBatches)}
    given = {name: value for name, value in table.items() if name in known}
    return MicroBatches(**given | {"overhead_curve_s": tuple(given.get("overhead_curve_s", ()))})


@jit
def tuple_seconds(mean: float, work: float, partitions: int, speed: float, replicas: int) -> float:
    """Seconds that each tuple of a batch adds to its duration."""
    if partitions > 0:
        return work * mean / (speed * partitions) * math.ceil(partitions / replicas)
    return work * mean / (speed * replicas)


@jit
def steady_cycle(trigger: float, overhead: float, rho: float) -> float:
    """Seconds from batch to batch; infinite where work outruns the replicas."""
    if overhead + rho * trigger <= trigger:
        return trigger
    return overhead / (1.0 - rho) if rho < 1.0 else math.inf


@jit
def phase_of(quantile: float) -> float:
    """Share of a cycle that a tuple waits for its batch: that quantile of it; half of it for quantile 0, the mean."""
    return quantile if quantile > 0.0 else 0.5


@jit
def steady_response(
    trigger: float, overhead: float, delay: float, part: float, rho: float, phase: float = 0.5
) -> float:
    """Response time without noise: the mean, or the quantile of this phase."""
    cycle = steady_cycle(trigger, overhead, rho)
    return math.inf if cycle == math.inf else phase * cycle + delay + part * (overhead + rho * cycle)


@jit
def load_within(bound: float, trigger: float, overhead: float, delay: float, part: float, phase: float = 0.5) -> float:
    """The highest rho whose response time, mean or of this phase, stays within the bound; 0 where none does."""
    if steady_response(trigger, overhead, delay, part, 0.0, phase) > bound:
        return 0.0
    kept = 1.0 - overhead / trigger if trigger > 0.0 else 0.0  # up to which batches keep to the trigger
    if steady_response(trigger, overhead, delay, part, kept, phase) > bound:
        return (bound - phase * trigger - delay - part * overhead) / (part * trigger)
    return 1.0 - overhead * (phase + part) / (bound - delay)
