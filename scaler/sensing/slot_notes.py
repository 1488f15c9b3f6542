"""Typed notes on what is out of the ordinary in a slot, and those that a query's reports tell.

restarted     a run began in the slot, or by the slot's start it had neither done a batch nor said that it is idle
stopped       the query ended, and no run followed
catching_up   a backlog is worked off: batches that are much larger than usual and shrink, or a backlog of several
              batches that falls
batches_full  batches took as much as they may, and left a backlog
stalled       no report came for far longer than ever, or a batch took far longer than ever; `evaluate` drops it where
              executors worked through the batch
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from statistics import median

from scaler.model.spark_progress import Trigger
from scaler.sensing.query_history import ArrivalSpan, QueryPast, ServedBatch


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


IDLE_S = 10.0  # between signs of idleness, by Spark's own settings
STALL_S = 30.0  # of silence, below which nothing is stalled
FAR_FACTOR = 5.0  # times the longest ever: far longer than ever
LARGE_FACTOR = 2.0  # times the usual batch: what gathered while nobody served it
SHRINK_FACTOR = 0.8  # of the one before, at most, where batches or backlogs shrink
BACKLOG_BATCHES = 3.0  # batches, of which a backlog must be for its fall to be a catching up
USUAL_BATCHES = 20  # batches, from which it is known what is usual
MIN_BATCHES = 3


def find_states(
    past: QueryPast, spans: Sequence[ArrivalSpan], batches: Sequence[ServedBatch], start: float, end: float
) -> list[NoteCode]:
    """Codes in the order in which they are listed above."""
    known = [batch.trigger for batch in batches if batch.trigger.time < end]
    found = {
        NoteCode.RESTARTED: has_restarted(past, known, start, end),
        NoteCode.STOPPED: has_stopped(past, end),
        NoteCode.CATCHING_UP: catches_up([t for t in known if t.done >= start], [t for t in known if t.done < start]),
        NoteCode.BATCHES_FULL: are_full([t for t in known if t.done >= start]),
        NoteCode.STALLED: has_stalled(past, spans, known, start, end),
    }
    return [state for state, whether in found.items() if whether]


def has_restarted(past: QueryPast, known: Sequence[Trigger], start: float, end: float) -> bool:
    began = {sign.run: sign.time for sign in past.started if sign.time < end}
    runs = list(dict.fromkeys(trigger.run for trigger in known))
    for run in runs[1:]:  # of the first one that is known nobody said that it began
        began.setdefault(run, next(trigger.time for trigger in known if trigger.run == run))
    if not began:
        return False
    last = max(began, key=lambda run: began[run])
    ready = [trigger.done for trigger in known if trigger.run == last]
    ready += [sign.time for sign in past.idle if sign.run == last]
    return began[last] >= start or min(ready, default=end) > start


def has_stopped(past: QueryPast, end: float) -> bool:
    over = [sign for sign in past.ended if sign.time < end]
    if not over:
        return False
    run, time = over[-1].run, over[-1].time
    return not any(event.run != run and time <= event.time < end for _, event in past.events())


def catches_up(now: Sequence[Trigger], earlier: Sequence[Trigger]) -> bool:
    """Whether batches done in the slot, and the last before them, shrink from more than was usual until then."""
    sizes = [trigger.rows for trigger in earlier[-USUAL_BATCHES:] if trigger.rows]
    if not now or len(sizes) < MIN_BATCHES:
        return False
    usual, recent = median(sizes), (*earlier[-1:], *now)
    rows = [trigger.rows for trigger in recent if trigger.rows is not None]
    if any(after > LARGE_FACTOR * usual and after <= SHRINK_FACTOR * before for before, after in pairwise(rows)):
        return True
    backlogs = [trigger.backlog for trigger in recent if trigger.backlog is not None]
    most = max(backlogs, default=0)
    return most > BACKLOG_BATCHES * usual and backlogs[-1] <= SHRINK_FACTOR * most


def are_full(now: Sequence[Trigger]) -> bool:
    """Whether each batch done in the slot left a backlog, where the query's offsets count tuples."""
    left = [trigger.backlog or 0 for trigger in now if trigger.rows]
    return bool(left) and min(left) > 0


def has_stalled(
    past: QueryPast, spans: Sequence[ArrivalSpan], known: Sequence[Trigger], start: float, end: float
) -> bool:
    heard = last_heard(past, end)
    if heard is None or has_stopped(past, end):
        return False
    earlier = [trigger for trigger in known if trigger.done < start]
    ever = max((trigger.duration or 0.0 for trigger in earlier), default=0.0)
    if end - heard > max(STALL_S, FAR_FACTOR * max(ever, usual_cycle(spans, known, end))):
        return True
    longest = max((trigger.duration or 0.0 for trigger in known if trigger.done >= start), default=0.0)
    return len(earlier) >= MIN_BATCHES and longest > max(STALL_S, FAR_FACTOR * ever)


def first_heard(past: QueryPast) -> float | None:
    return next((event.time for _, event in past.events()), None)


def last_heard(past: QueryPast, end: float) -> float | None:
    """Time of the query's last report by then."""
    moments = [sign.time for sign in (*past.started, *past.idle)] + [trigger.done for trigger in past.triggers]
    return max((min(moment, end) for moment in moments), default=None)


def usual_cycle(spans: Sequence[ArrivalSpan], known: Sequence[Trigger], end: float) -> float:
    """The longest recent time from one report to the next; idleness is reported every ten seconds."""
    lengths = [span.end - span.start for span in spans if span.end <= end][-USUAL_BATCHES:]
    return max([*lengths, *(trigger.duration or 0.0 for trigger in known[-USUAL_BATCHES:])], default=0.0)
