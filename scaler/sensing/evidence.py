"""Evidence of one operator's slot, and the intermediate results that several of its quantities share."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from scaler.acting.gateway import SparkStage
from scaler.model.spark_progress import Trigger
from scaler.sensing.driver import QueryActivity
from scaler.sensing.executor_usage import UNNAMED_TYPE, ObservedExecutor, TaskTimes
from scaler.sensing.query_history import ArrivalSpan, QueryPast, ServedBatch, find_spans, overlap
from scaler.sensing.source_files import SourceFolder, find_unreported_arrivals
from scaler.timing import ServiceTally

IDLE_S = 10.0  # between signs of idleness, by Spark's own settings
STEADY_S = 1.5 * IDLE_S
LATE_FACTOR = 2.0  # times the usual, after which a report is late
USUAL_BATCHES = 20  # batches, from which it is known what is usual
MAX_AGE_S = 3600  # of timed sums
MAX_TASK_S = 600  # of a task that is laid over its seconds; of longer ones the last ten minutes hold it all


class TimedRecords:
    """Sums of one operator's timers, second by second and by node type; bounded, for any thread.

    A tally covers the time of its task, and is laid over these seconds evenly.
    """

    def __init__(self, max_age_s: int = MAX_AGE_S) -> None:
        self.max_age_s = max_age_s
        self.lock = threading.Lock()
        self.seconds: dict[int, dict[str, ServiceTally]] = {}  # by second, then node type
        self.newest = 0

    def add(self, tally: ServiceTally) -> None:
        if not (tally.end >= tally.start and math.isfinite(tally.start) and math.isfinite(tally.end)):
            return
        last = int(tally.end)
        first = max(int(tally.start), last - MAX_TASK_S)
        length = tally.end - max(tally.start, float(first))
        node_type = tally.node_type or UNNAMED_TYPE
        with self.lock:
            for second in range(first, last + 1):
                part = min(tally.end, second + 1.0) - max(tally.start, float(second))
                sums = self.seconds.setdefault(second, {}).setdefault(node_type, ServiceTally())
                sums.add(tally, part / length if length > 0.0 else 1.0)
            self.newest = max(self.newest, last)
            if len(self.seconds) > self.max_age_s:
                for second in [s for s in self.seconds if s <= self.newest - self.max_age_s]:
                    del self.seconds[second]

    def copy(self, start: float, end: float) -> TimedRecords:
        """The seconds of a slot, which no later tally changes."""
        found = TimedRecords(self.max_age_s)
        with self.lock:
            for second in range(math.floor(start), math.ceil(end)):
                if second in self.seconds:
                    found.seconds[second] = {name: replace(sums) for name, sums in self.seconds[second].items()}
        return found

    def read(self, start: float, end: float) -> dict[str, ServiceTally]:
        """Sums over [start, end) by node type; empty where nothing was timed."""
        totals: dict[str, ServiceTally] = {}
        for second in range(math.floor(start), math.ceil(end)):
            part = min(end, second + 1.0) - max(start, float(second))
            for node_type, sums in self.seconds.get(second, {}).items():
                totals.setdefault(node_type, ServiceTally()).add(sums, part)
        return {name: sums for name, sums in totals.items() if sums.tuples or sums.busy or sums.response_n}


@dataclass(frozen=True)
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
    timed: TimedRecords | None = None  # by the operator's timers

    @cached_property
    def reports(self) -> tuple[list[ArrivalSpan], list[ServedBatch]]:
        """Arrivals that were reported, and batches that began before the slot's end."""
        spans, batches = find_spans(self.past)
        return spans, [batch for batch in batches if batch.trigger.time < self.end]

    @cached_property
    def triggers(self) -> list[Trigger]:
        """Of the batches that began before the slot's end."""
        return [batch.trigger for batch in self.reports[1]]

    @cached_property
    def spans(self) -> list[ArrivalSpan]:
        """Arrivals that were reported, and those that are known since the last report."""
        unreported = find_unreported_arrivals(self.past, self.folder, self.start, self.end, self.activity.run)
        return self.reports[0] if unreported is None else [*self.reports[0], unreported]

    @cached_property
    def counted_spans(self) -> list[ArrivalSpan]:
        """Spans that lie in the slot and whose arrivals are known."""
        return [s for s in self.spans if s.arrived is not None and s.end > self.start and s.start < self.end]

    @cached_property
    def covered(self) -> float:
        """Seconds of the slot of which the arrivals are known."""
        return sum(overlap(span.start, span.end, self.start, self.end) for span in self.counted_spans)

    @property
    def running_since(self) -> float | None:
        """Since when a batch has run that is not done by the slot's end."""
        since = self.activity.running_since
        return None if since is None or since >= self.end else since

    @property
    def running_time(self) -> float | None:
        return None if self.running_since is None else self.end - self.running_since

    @cached_property
    def usual_cycle(self) -> float:
        """The longest recent time from one report to the next; idleness is reported every ten seconds."""
        lengths = [span.end - span.start for span in self.reports[0] if span.end <= self.end][-USUAL_BATCHES:]
        return max([*lengths, *(trigger.duration or 0.0 for trigger in self.triggers[-USUAL_BATCHES:])], default=0.0)

    @property
    def usual_wait(self) -> float:
        """How long one may wait for a report before it is late."""
        return max(STEADY_S, LATE_FACTOR * self.usual_cycle)

    @cached_property
    def completeness(self) -> float:
        last = max((span.end for span in self.spans), default=None)
        tail = 0.0 if last is None else max(0.0, self.end - max(last, self.start))
        if self.past.has_stopped(self.end) or tail > self.usual_wait:
            tail = 0.0
        return min(1.0, (self.covered + min(tail, self.covered)) / (self.end - self.start))

    @cached_property
    def timed_sums(self) -> Mapping[str, ServiceTally] | None:
        """By node type."""
        return None if self.timed is None else self.timed.read(self.start, self.end)

    def find_spent(self, start: float, end: float) -> dict[str, float] | None:
        """Seconds of tasks on the operator's executors in [start, end), by node type."""
        if self.executors is None:
            return None
        batches = [(t.time, t.done) for t in self.past.triggers if t.executed and t.done > start]
        return self.task_times.read(self.executors, start, end, self.running_since, batches)
