"""Reading of one operator's slot, typed notes on what is unusual in it, and the protocol of sensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from scaler.model.sketch import Sketch, find_quantile
from scaler.sensing.driver import StreamOperator


@dataclass(frozen=True, slots=True)
class Reading:
    """One operator in [start, end), seconds since 1970 in UTC; None is not known, which is never zero.

    Fields are named as those of `scaler.model.sample.Sample`; `scaler.sensing.evaluate` says how each is measured.
    """

    operator: str
    start: float
    end: float
    arrival_rate: float | None = None  # tuples per second, over the part of the slot that the evidence covers
    latest_arrival_rate: float | None = None  # the same over the last time of which it is known, in the slot or before
    tuples_in: float | None = None  # worked on, in all
    tuples_out: float | None = None
    batch_throughput: float | None = None  # tuples per second while batches ran: the capacity of the replicas
    backlog: float | None = None  # tuples at the end
    response: float | None = None  # seconds from a tuple's arrival to its result, mean
    responses: Sketch | None = None  # how these are spread over the slot's tuples
    least_response: float | None = None  # that tuples which are not answered yet have reached, and count for all
    utilisation: float | None = None  # of the busiest node type's replicas
    service_n: float | None = None  # tuples timed one by one, sum and squares of their times
    service_sum: float | None = None
    service_squares: float | None = None
    replicas: Mapping[str, float] | None = None  # mean over the slot by node type
    final_replicas: float | None = None  # of all types at the slot's end
    batches: int | None = None  # that ended in the slot
    batch_time: float | None = None  # sum of their durations
    state_rows: float | None = None  # of the query's stateful operators after the slot's last batch
    state_bytes: float | None = None
    state_partitions: float | None = None
    commit_time: float | None = None  # task-seconds in which the slot's batches committed their state
    store_loads: float | None = None  # stores that they loaded from the checkpoint
    store_load_time: float | None = None  # task-seconds of these loads
    trigger_interval: float | None = None  # seconds; None too where batches follow each other at once
    running_time: float | None = None  # of the batch that is not done by the slot's end; None: there is none
    completeness: float = 1.0  # share of the slot that the evidence covers
    notes: tuple[SlotNote, ...] = ()

    @property
    def length(self) -> float:
        return self.end - self.start

    def response_at(self, quantile: float | None) -> float | None:
        """The quantile of the slot's response times, or their mean where it is None; None is not known."""
        if quantile is None:
            return self.response
        known = (find_quantile(self.responses, quantile), self.least_response)
        return max((time for time in known if time is not None), default=None)

    def has(self, *codes: NoteCode) -> bool:
        """Whether a note has one of these codes."""
        return any(note.code in codes for note in self.notes)


class Sensor(Protocol):
    """Source of readings for agents."""

    def read(self, operator: str, start: float, end: float) -> Reading: ...

    def watch(self, operator: StreamOperator) -> None: ...

    def close(self) -> None: ...


class NoteCode(StrEnum):
    """Codes of what can be out of the ordinary in a slot."""

    RESTARTED = "restarted"
    STOPPED = "stopped"
    CATCHING_UP = "catching_up"
    BATCHES_FULL = "batches_full"
    STALLED = "stalled"
    REPLICA_LOST = "replica_lost"
    STAGE_WAITS = "stage_waits"
    BATCH_OUTLASTS_SLOT = "batch_outlasts_slot"
    REPORTED_LATE = "reported_late"


MESSAGES = {
    NoteCode.RESTARTED: "the query restarted",
    NoteCode.STOPPED: "the query stopped",
    NoteCode.CATCHING_UP: "a backlog is being worked off",
    NoteCode.BATCHES_FULL: "batches took as much as they may, and left a backlog",
    NoteCode.STALLED: "the query stalled",
    NoteCode.REPLICA_LOST: "lost a replica on {node_type} ({cause})",
    NoteCode.STAGE_WAITS: "stage {stage!r} waits for resource profile {profile}, which no executor serves",
    NoteCode.BATCH_OUTLASTS_SLOT: "a batch outlasts the slot: the reading before is held",
    NoteCode.REPORTED_LATE: "reports come after the slot: the slot before is decided about",
}


UNTRUSTED = (NoteCode.RESTARTED, NoteCode.STOPPED, NoteCode.STALLED)  # such a slot says nothing of the capacity


BEHIND = (NoteCode.CATCHING_UP, NoteCode.BATCHES_FULL)


@dataclass(frozen=True, slots=True)
class SlotNote:
    """One thing out of the ordinary in a slot; `data` by the names in the code's message."""

    code: NoteCode
    data: Mapping[str, str] = field(default_factory=dict)

    @property
    def message(self) -> str:
        return MESSAGES[self.code].format_map(self.data)
