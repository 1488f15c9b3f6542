"""One operator's slot: the evidence, what several quantities share, the reading of it, and the protocol of sensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from scaler.acting.gateway import SparkStage
from scaler.model.spark_progress import Trigger
from scaler.sensing.driver import QueryActivity, StreamOperator
from scaler.sensing.executor_usage import ObservedExecutor, TaskTimes
from scaler.sensing.query_history import ArrivalSpan, QueryPast, ServedBatch, covered_seconds, find_spans
from scaler.sensing.slot_notes import IDLE_S, NoteCode, SlotNote, has_stopped, usual_cycle
from scaler.sensing.source_files import SourceFolder, find_unreported_arrivals
from scaler.sensing.timed_records import TimedSeconds, TimedSums

LATE_FACTOR = 2.0  # times the usual, after which a report is late
STEADY_S = 1.5 * IDLE_S


@dataclass(frozen=True, slots=True)
class Evidence:
    """One operator in [start, end); None is not known."""

    operator: str
    start: float
    end: float
    past: QueryPast = QueryPast()  # noqa: RUF009  frozen; with the batch that was planned last
    entry: bool = True  # what arrives at the query arrives here
    leaving: bool = True  # what the query writes is written here
    activity: QueryActivity = QueryActivity()  # noqa: RUF009  frozen; at the slot's end
    folder: SourceFolder | None = None  # that the query reads files from
    executors: Sequence[ObservedExecutor] | None = None  # of the operator's profiles
    task_times: TaskTimes = TaskTimes()  # noqa: RUF009  frozen; of all executors
    waiting: tuple[SparkStage, ...] = ()  # stages of the query that no executor can run, at the slot's end
    timed: TimedSeconds | None = None  # by the operator's timers


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """Intermediate results that several quantities of a slot share."""

    evidence: Evidence
    start: float
    end: float
    past: QueryPast
    spans: Sequence[ArrivalSpan]  # that were reported
    known: Sequence[ArrivalSpan]  # these, and what is known since the last report
    batches: Sequence[ServedBatch]  # that began before the slot's end
    triggers: Sequence[Trigger]  # of these
    running_since: float | None  # of a batch that is not done by the slot's end
    covered: float  # seconds of the slot of which the arrivals are known
    completeness: float
    timed: Mapping[str, TimedSums] | None  # by node type

    @property
    def running_time(self) -> float | None:
        return None if self.running_since is None else self.end - self.running_since


def derive_facts(evidence: Evidence) -> SlotFacts:
    past, start, end = evidence.past, evidence.start, evidence.end
    since = evidence.activity.running_since
    spans, batches = find_spans(past)
    begun = [batch for batch in batches if batch.trigger.time < end]
    triggers = [batch.trigger for batch in begun]
    unreported = find_unreported_arrivals(past, evidence.folder, start, end, evidence.activity.run)
    known = spans if unreported is None else [*spans, unreported]
    covered = covered_seconds(select_counted(known, start, end), start, end)
    return SlotFacts(
        evidence,
        start,
        end,
        past,
        spans,
        known,
        begun,
        triggers,
        None if since is not None and since >= end else since,
        covered,
        find_completeness(past, known, triggers, covered, start, end),
        None if evidence.timed is None else evidence.timed.read(start, end),
    )


def select_counted(spans: Sequence[ArrivalSpan], start: float, end: float) -> list[ArrivalSpan]:
    """Spans that lie in the slot and whose arrivals are known."""
    return [span for span in spans if span.arrived is not None and span.end > start and span.start < end]


def usual_wait(spans: Sequence[ArrivalSpan], triggers: Sequence[Trigger], end: float) -> float:
    """How long one may wait for a report before it is late."""
    return max(STEADY_S, LATE_FACTOR * usual_cycle(spans, triggers, end))


def find_completeness(
    past: QueryPast,
    spans: Sequence[ArrivalSpan],
    triggers: Sequence[Trigger],
    covered: float,
    start: float,
    end: float,
) -> float:
    last = max((span.end for span in spans), default=None)
    tail = 0.0 if last is None else max(0.0, end - max(last, start))
    if last is None or has_stopped(past, end) or tail > usual_wait(spans, triggers, end):
        tail = 0.0
    return min(1.0, (covered + min(tail, covered)) / (end - start))


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
    utilisation: float | None = None  # of the busiest node type's replicas
    service_n: float | None = None  # tuples timed one by one, sum and squares of their times
    service_sum: float | None = None
    service_squares: float | None = None
    replicas: Mapping[str, float] | None = None  # mean over the slot by node type
    final_replicas: float | None = None  # of all types at the slot's end
    batches: int | None = None  # that ended in the slot
    batch_time: float | None = None  # sum of their durations
    running_time: float | None = None  # of the batch that is not done by the slot's end; None: there is none
    completeness: float = 1.0  # share of the slot that the evidence covers
    notes: tuple[SlotNote, ...] = ()

    @property
    def length(self) -> float:
        return self.end - self.start

    def has(self, *codes: NoteCode) -> bool:
        """Whether a note has one of these codes."""
        return any(note.code in codes for note in self.notes)


class Sensor(Protocol):
    """Source of readings for agents."""

    def read(self, operator: str, start: float, end: float) -> Reading: ...

    def watch(self, operator: StreamOperator) -> None: ...

    def close(self) -> None: ...
