"""Reports of one query, kept in order of time, and read as one value that no later report changes.

Two things are known before Spark reports them. That the last trigger of an idle query found nothing: Spark says so
every ten seconds, and a slot may be shorter; it holds for the time until that trigger began, for a query may wait long
for its next one. And what arrived before a batch that is planned: without that, an overload, whose batches are the
longest, would be dark for whole slots.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from scaler.model.spark_progress import ENDED, IDLE, STARTED, QueryEvent, Trigger, add_offsets, sum_known
from scaler.sensing.driver import IdleTrigger, PlannedBatch

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
