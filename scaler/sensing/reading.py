"""What a sensor could tell of one operator over a slot; None where it could not, which is never zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from scaler.sensing.operators import StreamOperator

WORKING_UTILISATION = (
    0.5  # of the replicas' time, from which on they are seen to work though no report tells of it: a batch that is
)
# overdue keeps those that are done with their share, or have just come, waiting for the others


@dataclass(frozen=True, slots=True)
class Reading:
    """One operator in [start, end), seconds since 1970 in UTC."""

    operator: str
    start: float
    end: float
    rate: float | None = None  # tuples that came to the operator's door, per second that the evidence covers
    newest: float | None = None  # the same over the last time of which it is known, in the slot or before
    taken: float | None = None  # tuples worked on, in all
    put_out: float | None = None  # tuples written, in all
    pace: float | None = None  # tuples per second while batches ran: what replicas that never rest get through
    backlog: float | None = None  # tuples waiting at the end
    response: float | None = None  # seconds from a tuple's arrival to its result, mean
    utilisation: float | None = None  # of the busiest node type's replicas
    service: tuple[float, float, float] | None = None  # tuples timed one by one, sum and squares of their times
    replicas: Mapping[str, float] | None = None  # mean over the slot by node type
    serving: float | None = None  # of all types at the slot's end
    batches: int | None = None  # that ended in the slot
    batch_time: float | None = None  # sum of their durations
    running: float | None = None  # seconds for which a batch that is not done has run by the slot's end; None: no such
    completeness: float = 1.0  # share of the slot that the evidence covers
    notes: tuple[str, ...] = field(default_factory=tuple)  # see `sensors.states`; what was lost


class Sensor(Protocol):
    def watch(self, operator: StreamOperator) -> None:
        """Read this operator from now on; one of the same name is replaced."""

    def read(self, operator: str, start: float, end: float) -> Reading: ...

    def close(self) -> None:
        """Receive no more; what was received can still be read."""
