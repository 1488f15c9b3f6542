"""Reports of one query in order of time: what the listener receives, the arrivals between them, each batch's response.

Two things are known before Spark reports them. That the last trigger of an idle query found nothing: Spark says so
every ten seconds, and a slot may be shorter; it holds for the time until that trigger began, for a query may wait long
for its next one. And what arrived before a batch that is planned: without that, an overload, whose batches are the
longest, would be dark for whole slots.

Notation: trigger k begins at t_k and its batch is done at d_k; L_k is the offset up to which tuples had come by t_k,
E_k the one up to which it took them.

    arrived   in (t_{k-1}, t_k]: L_k - L_{k-1} where offsets count tuples, else the rows of batch k, which is all that
              came as long as no limit holds any back
    response  of batch k's tuples: d_k less their mean arrival. They come evenly in each (t_{j-1}, t_j] and are served
              in the order in which they came, so tuple n came at A^{-1}(n), A being the line through all (t_j, L_j),
              and those of batch k are (E_{k-1}, E_k]. Where nothing is left behind that is (t_k - t_{k-1}) / 2 for the
              trigger and d_k - t_k for the batch, as the pipeline has it from event logs; where something is, the wait
              over the batches in between is in it, too. Of tuples that came before any report was heard it is the
              least that it can be. The same line says how the response times of its tuples are spread: evenly over
              each stretch in which they came evenly

Two triggers tell what came between them if their batches follow each other in one run; else a report is missing, or the
query was not there. Idleness tells that nothing came since the batch before.
"""

from __future__ import annotations

import json
import math
import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple

from scaler.model.spark_progress import (
    ENDED,
    IDLE,
    STARTED,
    QueryEvent,
    Trigger,
    add_offsets,
    read_progress,
    read_query_event,
    sum_known,
)
from scaler.sensing.driver import LOG, IdleTrigger, PlannedBatch

MAX_TRIGGERS = 8192  # triggers of a query, at some 400 bytes each
MAX_EVENTS = 1024
EARLIER_TRIGGERS = 1000  # triggers before a slot that its reading takes into account
TRIGGER = "trigger"
by_time = attrgetter("time")


@dataclass(frozen=True, slots=True)
class QueryPast:
    """Reports of one query, each kind in order of time."""

    triggers: tuple[Trigger, ...] = ()
    started: tuple[QueryEvent, ...] = ()
    idle: tuple[QueryEvent, ...] = ()
    ended: tuple[QueryEvent, ...] = ()

    def events(self) -> Iterator[tuple[str, Trigger | QueryEvent]]:
        """All reports of arrivals in order of time: a run's start before its triggers, idleness after them."""
        kinds: tuple[tuple[str, Sequence[Trigger | QueryEvent]], ...]
        kinds = (STARTED, self.started), (TRIGGER, self.triggers), (IDLE, self.idle)
        each = [(kind, event) for kind, events in kinds for event in events]
        yield from sorted(each, key=lambda pair: pair[1].time)  # which keeps the order of kinds at the same time

    def first_heard(self) -> float | None:
        return next((event.time for _, event in self.events()), None)

    def last_heard(self, end: float) -> float | None:
        """Time of the query's last report by then."""
        moments = [sign.time for sign in (*self.started, *self.idle)] + [trigger.done for trigger in self.triggers]
        return max((min(moment, end) for moment in moments), default=None)

    def has_stopped(self, end: float) -> bool:
        over = [sign for sign in self.ended if sign.time < end]
        if not over:
            return False
        run, time = over[-1].run, over[-1].time
        return not any(event.run != run and time <= event.time < end for _, event in self.events())


class QueryHistory:
    """Bounded reports of one query; for one thread at a time."""

    def __init__(self, max_triggers: int = MAX_TRIGGERS) -> None:
        self.triggers: deque[Trigger] = deque(maxlen=max_triggers)
        self.events: dict[str, deque[QueryEvent]] = {kind: deque(maxlen=MAX_EVENTS) for kind in (STARTED, IDLE, ENDED)}

    def add_trigger(self, trigger: Trigger) -> None:
        """Add a trigger in order of time, unless it is there already."""
        last = self.triggers[-1] if self.triggers else None
        if last is None or trigger.time > last.time:
            self.triggers.append(trigger)
        elif all((t.run, t.batch, t.time) != (trigger.run, trigger.batch, trigger.time) for t in self.triggers):
            whole = list(self.triggers)
            insort(whole, trigger, key=by_time)
            self.triggers.clear()
            self.triggers.extend(whole)

    def add_event(self, kind: str, event: QueryEvent) -> None:
        """Add an event, unless it is there already."""
        if event not in self.events[kind]:
            self.events[kind].append(event)

    def copy(self, start: float = -math.inf) -> QueryPast:
        """Reports from this moment on, and enough before it to know what is usual and since when tuples wait."""
        triggers = tuple(self.triggers)
        first = max(0, bisect_left(triggers, start, key=by_time) - EARLIER_TRIGGERS)
        started, idle, ended = (tuple(sorted(self.events[kind], key=by_time)) for kind in (STARTED, IDLE, ENDED))
        return QueryPast(triggers[first:], started, idle, ended)


def find_idle_event(past: QueryPast, query: str, last: IdleTrigger) -> QueryEvent | None:
    """The idleness that an idle query's last trigger means; None where a batch ran that is not reported yet."""
    batches = [trigger.batch for trigger in past.triggers if trigger.run == last.run]
    if batches and last.batch > batches[-1] + 1:
        return None
    return QueryEvent(query, last.run, last.time)


def follows_last(past: QueryPast, run: str, planned: PlannedBatch) -> bool:
    """Whether the planned batch is the one after the last that was reported."""
    last = past.triggers[-1] if past.triggers else None
    return last is not None and last.run == run and last.batch + 1 == planned.batch and last.time < planned.time


def add_planned_batch(past: QueryPast, planned: PlannedBatch) -> QueryPast:
    """Add a planned batch as a trigger without a batch; only where the query's offsets count tuples."""
    last = past.triggers[-1]
    if last.latest is None or last.ended is None:
        return past
    ended, latest = (sum_known(map(add_offsets, offsets)) for offsets in (planned.ended, planned.latest))
    if ended is None or latest is None or latest < max(ended, last.latest):
        return past
    begun = Trigger(
        last.query, last.run, planned.batch, planned.time, last.name, executed=False, latest=latest, ended=ended
    )
    return replace(past, triggers=(*past.triggers, begun))


class QueryListener:
    """Spark's StreamingQueryListener by the names of its methods, called by py4j; nothing is raised into Spark's bus.

    An event is read as the one JSON text that it is: field by field, as pyspark's own listener reads it, takes dozens
    of calls to the JVM.
    """

    def __init__(
        self,
        add_trigger: Callable[[Trigger], None],
        add_event: Callable[[str, QueryEvent], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        """Both receivers are called on Spark's threads."""
        self.add_trigger, self.add_event, self.now = add_trigger, add_event, now
        self.unread = 0  # events that could not be read

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self.receive(STARTED, event)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.receive(TRIGGER, event)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self.receive(IDLE, event)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.receive(ENDED, event)

    def receive(self, kind: str, event: Any) -> None:
        try:
            if kind == TRIGGER and (trigger := read_progress(json.loads(event.progress().json()))) is not None:
                self.add_trigger(trigger)
            elif kind != TRIGGER and (found := read_query_event(json.loads(event.json()), self.now())) is not None:
                self.add_event(kind, found)
            else:
                self.unread += 1
        except Exception as error:
            self.unread += 1
            LOG.debug("an event of a streaming query could not be read", exc_info=error)

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class ArrivalSpan:
    """Arrivals in (start, end], between two reports with none missing."""

    start: float
    end: float
    arrived: float | None  # tuples


class EvenTimes(NamedTuple):
    """Tuples whose times lie evenly between two."""

    low: float
    high: float
    tuples: float

    @property
    def total(self) -> float:
        return self.tuples * (self.low + self.high) / 2.0


@dataclass(frozen=True, slots=True)
class ServedBatch:
    trigger: Trigger
    response: float | None = None  # mean of its tuples
    spread: tuple[EvenTimes, ...] = ()  # of their response times, where known


@dataclass(slots=True)
class ArrivalCurve:
    """Cumulated arrivals over time; `times` and `offsets` grow together."""

    times: list[float] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    def add(self, time: float, offset: int) -> None:
        if self.offsets and offset < self.offsets[-1]:  # the source was made anew
            self.times.clear()
            self.offsets.clear()
        self.times.append(time)
        self.offsets.append(offset)

    def find_arrivals(self, first: int, last: int) -> list[EvenTimes]:
        """Arrivals of tuples (first, last]; none where unknown. Those before the line arrived by its beginning."""
        times, offsets = self.times, self.offsets
        if len(offsets) < 2 or last > offsets[-1] or last <= first:
            return []
        low = min(max(first, offsets[0]), last)
        found = [EvenTimes(times[0], times[0], float(low - first))] if low > first else []
        i = bisect_left(offsets, low + 1)
        while low < last:
            high = min(last, offsets[i])
            if high > low:
                slope = (times[i] - times[i - 1]) / (offsets[i] - offsets[i - 1])
                begin, end = (times[i - 1] + (n - offsets[i - 1]) * slope for n in (low, high))
                found.append(EvenTimes(begin, end, float(high - low)))
                low = high
            i += 1
        return found


def find_spans(past: QueryPast) -> tuple[list[ArrivalSpan], list[ServedBatch]]:
    """Arrival spans and served batches, both in order of time."""
    spans: list[ArrivalSpan] = []
    batches: list[ServedBatch] = []
    curve = ArrivalCurve()
    before: Trigger | None = None  # the last one of this run
    run = ""
    since = served = None  # when all that had arrived by then was reported; and when so in batches
    for kind, event in past.events():
        if kind == STARTED or event.run != run:
            before, since, served, run = None, None, None, event.run
        if kind == STARTED:
            continue
        if isinstance(event, QueryEvent):
            if since is not None and event.time > since:
                spans.append(ArrivalSpan(since, event.time, 0.0))
            if before is not None and before.latest is not None:
                curve.add(event.time, before.latest)
            since = served = event.time
            continue
        follows = before is None or event.batch - before.batch in (0, 1)
        if since is not None and follows and event.time > since:
            spans.append(ArrivalSpan(since, event.time, count_arrivals(before, event)))
        if event.latest is not None:
            curve.add(event.time, event.latest)
        if event.executed:
            spread = find_response_spread(event, served if follows else None, curve)
            tuples = sum(part.tuples for part in spread)
            mean = sum(part.total for part in spread) / tuples if spread else None
            batches.append(ServedBatch(event, mean, spread))
            served = event.time
        before, since = event, event.time
    return spans, batches


def count_arrivals(before: Trigger | None, trigger: Trigger) -> float | None:
    if before is not None and before.latest is not None and trigger.latest is not None:
        grown = trigger.latest - before.latest
        if grown >= 0:
            return float(grown)
    return None if trigger.rows is None else float(trigger.rows)


def find_response_spread(trigger: Trigger, served: float | None, curve: ArrivalCurve) -> tuple[EvenTimes, ...]:
    """Response times of a batch; `served`: the moment after which its tuples arrived, if none had been left to wait."""
    if trigger.duration is None or not trigger.rows:
        return ()
    if trigger.latest is not None and trigger.ended is not None:
        arrivals, done = curve.find_arrivals(trigger.ended - trigger.rows, trigger.ended), trigger.done
        return tuple(EvenTimes(done - part.high, done - part.low, part.tuples) for part in arrivals)
    if served is None or trigger.backlog:
        return ()
    longest = trigger.time - served + trigger.duration
    return (EvenTimes(trigger.duration, longest, float(trigger.rows)),)


def overlap(first: float, last: float, start: float, end: float) -> float:
    """Seconds of [first, last) within [start, end)."""
    return max(0.0, min(last, end) - max(first, start))


def share_within(first: float, last: float, start: float, end: float) -> float:
    """Share of [first, last) that lies within [start, end); a moment lies within or not."""
    if last <= first:
        return float(start <= first < end)
    return overlap(first, last, start, end) / (last - first)
