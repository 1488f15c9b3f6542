"""Traces of arrival rates at a fixed step, and their windows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from scaler.model.errors import BadInput

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
A_RATE = "and must be a number of tuples per second, 0 or more"


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Arrival rates at a fixed step; `rates` is a read-only copy of what it is made from."""

    rates: NDArray[np.float64]  # [n]
    step_s: float = 60.0
    start: datetime = EPOCH
    name: str = ""

    def __post_init__(self) -> None:
        rates = np.array(self.rates, dtype=np.float64)
        if rates.ndim != 1 or rates.size == 0:
            raise BadInput(f"trace {self.name!r} has rates of shape {rates.shape}, and must have a row of at least one")
        wrong = np.flatnonzero(~acceptable(rates))
        if wrong.size:
            raise BadInput(f"trace {self.name!r}, slot {wrong[0]}: the rate is {rates[wrong[0]]}, {A_RATE}")
        if not 0.0 < self.step_s < math.inf:
            raise BadInput(f"trace {self.name!r}: the step is {self.step_s} s, and must be positive")
        if self.start.utcoffset() is None:
            raise BadInput(f"trace {self.name!r}: the start {self.start} has no time zone, and must have one")
        rates.setflags(write=False)
        object.__setattr__(self, "rates", rates)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        same = (self.step_s, self.start, self.name) == (other.step_s, other.start, other.name)
        return same and np.array_equal(self.rates, other.rates)

    def __hash__(self) -> int:
        return hash((self.step_s, self.start, self.name, self.rates.size))


def time_of(trace: Trace, slot: int) -> datetime:
    """When a slot begins; added in UTC, because a zone's own clock jumps with summer time."""
    try:
        return (trace.start.astimezone(UTC) + timedelta(seconds=slot * trace.step_s)).astimezone(trace.start.tzinfo)
    except OverflowError:
        raise BadInput(f"trace {trace.name!r}: slot {slot} lies outside the years 1 to 9999; start it nearer") from None


def window(trace: Trace, first: int, last: int) -> Trace:
    """The slots from `first` up to but not including `last`."""
    slots = trace.rates.size
    if not 0 <= first < last <= slots:
        raise BadInput(f"trace {trace.name!r} has {slots} slots: a window needs 0 <= {first} < {last} <= {slots}")
    return replace(trace, rates=trace.rates[first:last], start=time_of(trace, first))


def acceptable(rates: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (rates >= 0.0) & (rates < math.inf)
