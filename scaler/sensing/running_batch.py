"""What Spark has written down of a batch before running it flows in; a query's past with its arrivals flows out.

A long batch tells of itself when it is done. What came before it is known as soon as it is planned, from the log of
offsets and the offsets that the sources told last; without that, an overload would be dark for whole slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scaler.model.spark_progress import Trigger, add, add_offsets
from scaler.sensing.batch_history import Past


@dataclass(frozen=True, slots=True)
class Flight:
    """A batch that was planned; offsets are JSON, one a source."""

    batch: int
    time: float  # when it was
    ended: Sequence[str | None]
    latest: Sequence[str | None]


def is_under_way(past: Past, run: str, flight: Flight) -> bool:
    """Whether it is the one after the last that was reported."""
    last = past.triggers[-1] if past.triggers else None
    return last is not None and last.run == run and last.batch + 1 == flight.batch and last.time < flight.time


def add_flight(past: Past, flight: Flight) -> Past:
    """As a trigger whose batch counts nowhere yet; only where the query's offsets count tuples."""
    last = past.triggers[-1]
    if last.latest is None or last.ended is None:
        return past
    ended, latest = (add(map(add_offsets, offsets)) for offsets in (flight.ended, flight.latest))
    if ended is None or latest is None or latest < max(ended, last.latest):
        return past
    begun = Trigger(
        last.query, last.run, flight.batch, flight.time, last.name, executed=False, latest=latest, ended=ended
    )
    return replace(past, triggers=(*past.triggers, begun))
