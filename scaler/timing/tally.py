"""Sums of service times that add up over tasks, batches and nodes.

Notation, as in the tuner's samples: n_i records of a batch took t_i seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

RECORDS = ("service_n", "service_sum", "service_squares")
BATCHES = ("task_n", "task_records", "task_time", "task_inverse", "task_rates", "task_squares")
DRIVEN = ("batches", "batch_time")
RESPONSES = ("response_n", "response_sum")


@dataclass(slots=True)
class ServiceTally:
    """Sums timed on one node between two moments of its own clock; a group of sums that stayed empty is unknown."""

    node_type: str | None = None
    host: str | None = None
    start: float = math.inf
    end: float = -math.inf

    service_n: float = 0.0
    service_sum: float = 0.0
    service_squares: float = 0.0

    task_n: float = 0.0
    task_records: float = 0.0
    task_time: float = 0.0
    task_inverse: float = 0.0
    task_rates: float = 0.0
    task_squares: float = 0.0

    batches: float = 0.0
    batch_time: float = 0.0

    response_n: float = 0.0
    response_sum: float = 0.0

    def cover(self, start: float, end: float) -> None:
        """Stretch to hold [start, end)."""
        self.start = min(self.start, start)
        self.end = max(self.end, end)

    def add_batch(self, records: int, spent: float) -> None:
        """One batch timed as a whole; an empty one says nothing of a record's time."""
        if records > 0:
            self.task_n += 1.0
            self.task_records += records
            self.task_time += spent
            self.task_inverse += 1.0 / records
            self.task_rates += spent / records
            self.task_squares += spent * spent / records

    def add(self, other: ServiceTally) -> None:
        """Add another's sums; both ran on the same node, or it does not matter which."""
        self.node_type, self.host = other.node_type, other.host
        self.cover(other.start, other.end)
        for name in (*RECORDS, *BATCHES, *DRIVEN, *RESPONSES):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def describe(self) -> dict[str, str | float]:
        """The known fields by the names of a sample, and the host beside them."""
        known: dict[str, str | float] = {"start": self.start, "end": max(self.start, self.end)}
        for name in ("node_type", "host"):
            if getattr(self, name) is not None:
                known[name] = getattr(self, name)
        for group in (RECORDS, BATCHES, DRIVEN, RESPONSES):
            if getattr(self, group[0]):
                known |= {name: getattr(self, name) for name in group}
        return known
