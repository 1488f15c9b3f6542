"""A query's past flows in; a reading of one slot flows out, of what progress alone can tell.

rate          tuples that came per second of the slot that reports cover; reports in part outside count in part
newest        the same between the last two that were reported, or planned, before the slot's end
taken         tuples of its batches; a batch that ran partly in the slot counts in part, as does what it wrote
pace          tuples of the slot's batches per second that they ran, each counting for its part in the slot; no more
              than those of one that is not done, over the time for which it has run
backlog       tuples that the last batch before the slot's end left to wait; 0 in idleness
response      mean over the tuples taken, from coming to the end of their batch (see `spans`); no less than a batch
              has run by now that is not done and outlasts it
utilisation   share of the time that batches ran: what there is where nobody times the replicas
completeness  share of the slot that reports cover, and what else is known since the last one (see `inbox`). What is
              under way counts with them for as long as a report usually takes to come, and for no more than is known of
              the slot
"""

from __future__ import annotations

from collections.abc import Sequence

from scaler.model.spark_progress import IDLE, Trigger
from scaler.sensing.batch_history import QueryPast
from scaler.sensing.reading import Reading
from scaler.sensing.slot_notes import IDLE_S, USUAL, find_states, first_heard, has_stopped, last_heard, usual_cycle
from scaler.sensing.spans import ArrivalSpan, ServedBatch, covered_seconds, find_spans, overlap, share_within

PATIENCE = 2.0  # times the usual, after which a report is late
STEADY_S = 1.5 * IDLE_S


def read_slot(
    operator: str,
    past: QueryPast,
    start: float,
    end: float,
    running_since: float | None = None,  # since when a batch runs that is not done
    unreported: ArrivalSpan | None = None,  # what is known since the last report
) -> Reading:
    if running_since is not None and running_since >= end:
        running_since = None
    spans, batches = find_spans(past)
    known = [batch for batch in batches if batch.trigger.time < end]
    triggers = [batch.trigger for batch in known]
    told = spans if unreported is None else [*spans, unreported]
    counted = [span for span in told if span.came is not None and span.end > start and span.start < end]
    covered = covered_seconds(counted, start, end)
    came = sum(share_within(span.start, span.end, start, end) * (span.came or 0.0) for span in counted)
    taken = add_up([(trigger, trigger.rows) for trigger in triggers], start, end)
    done = [t for t in triggers if start <= t.done < end]
    return Reading(
        operator,
        start,
        end,
        rate=came / covered if covered > 0.0 else None,
        newest=find_newest(told, end),
        taken=taken if taken is not None else 0.0 if covered > 0.0 else None,
        put_out=add_up([(trigger, trigger.written) for trigger in triggers], start, end),
        pace=find_pace(past, triggers, start, end, running_since),
        backlog=find_backlog(past, triggers, end, usual_wait(spans, triggers, end)),
        response=raise_response(find_mean_response(known, start, end), triggers, end, running_since),
        utilisation=find_busy_share(past, triggers, start, end, running_since),
        batches=len(done) if covered > 0.0 or done else None,
        batch_time=sum(t.duration or 0.0 for t in done) if covered > 0.0 or done else None,
        completeness=find_completeness(past, told, triggers, covered, start, end),
        notes=tuple(find_states(past, spans, batches, start, end)),
    )


def add_up(amounts: Sequence[tuple[Trigger, int | None]], start: float, end: float) -> float | None:
    """Of batches, each by its share in the slot; None where none is known."""
    parts = [(share_within(t.time, t.done, start, end), amount) for t, amount in amounts if amount is not None]
    within = [part * amount for part, amount in parts if part > 0.0]
    return sum(within) if within else None


def find_newest(spans: Sequence[ArrivalSpan], end: float) -> float | None:
    """Tuples per second of the last span."""
    known = [span for span in spans if span.came is not None and span.start < span.end <= end]
    last = max(known, key=lambda span: span.end, default=None)
    return None if last is None or last.came is None else last.came / (last.end - last.start)


def find_pace(
    past: QueryPast, triggers: Sequence[Trigger], start: float, end: float, running_since: float | None
) -> float | None:
    """Of batches that took anything, and no more than one gets through that is still not done; None without any."""
    known = [(overlap(t.time, t.done, start, end), t) for t in triggers if t.executed and t.rows]
    seconds = sum(ran for ran, _ in known)
    rows = sum(share_within(t.time, t.done, start, end) * (t.rows or 0) for _, t in known)
    paces = [rows / seconds] if seconds > 0.0 else []
    under_way = find_rows(past, running_since)
    if under_way is not None and running_since is not None:
        paces.append(under_way / (end - running_since))
    return min(paces, default=None)


def find_rows(past: QueryPast, running_since: float | None) -> int | None:
    """Of the batch that is not done, where it is known by the offsets that were planned."""
    before, last = past.triggers[-2:] if len(past.triggers) > 1 else (None, None)
    if before is None or last is None or last.executed or last.time != running_since:
        return None
    return None if last.ended is None or before.ended is None else (last.ended - before.ended) or None


def find_mean_response(known: Sequence[ServedBatch], start: float, end: float) -> float | None:
    total = weights = 0.0
    for batch in known:
        trigger = batch.trigger
        weight = (trigger.rows or 0) * share_within(trigger.time, trigger.done, start, end)
        if batch.response is not None and weight > 0.0:
            total, weights = total + weight * batch.response, weights + weight
    return total / weights if weights > 0.0 else None


def raise_response(
    response: float | None, triggers: Sequence[Trigger], end: float, running_since: float | None
) -> float | None:
    """A batch that still runs and outlasts what is known has tuples that wait at least as long."""
    if running_since is None:
        return response
    usual = max((t.duration or 0.0 for t in triggers[-USUAL:]), default=0.0)
    running = end - running_since
    return running if running > (usual if response is None else response) else response


def find_backlog(past: QueryPast, triggers: Sequence[Trigger], end: float, patience: float) -> float | None:
    """None where the last word is too old to be of the slot's end."""
    if found_nothing(past, end):
        return 0.0
    last = triggers[-1] if triggers else None
    idle = next((sign.time for sign in reversed(past.idle) if sign.time < end), None)
    if idle is not None and (last is None or last.time <= idle):
        return 0.0 if end - idle <= patience else None
    if last is None or last.backlog is None or end - last.done > patience:
        return None
    return float(last.backlog)


def found_nothing(past: QueryPast, end: float) -> bool:
    """Whether the first that the query said after this moment is that nothing had come; soon enough to be of it."""
    kind, event = next(((kind, event) for kind, event in past.events() if event.time >= end), (None, None))
    return kind == IDLE and event is not None and event.time - end <= IDLE_S


def find_busy_share(
    past: QueryPast, triggers: Sequence[Trigger], start: float, end: float, running_since: float | None
) -> float | None:
    """Over the time of which it is known whether a batch ran."""
    first, heard = first_heard(past), last_heard(past, end)
    if first is None or heard is None:
        return None
    busy = sum(overlap(t.time, t.done, start, end) for t in triggers)
    watched = overlap(first, heard, start, end)
    if running_since is not None and running_since >= heard:
        busy, watched = busy + overlap(running_since, end, start, end), watched + overlap(heard, end, start, end)
    return min(busy / watched, 1.0) if watched > 0.0 else None


def usual_wait(spans: Sequence[ArrivalSpan], triggers: Sequence[Trigger], end: float) -> float:
    """How long one may wait for a report before it is late."""
    return max(STEADY_S, PATIENCE * usual_cycle(spans, triggers, end))


def find_completeness(
    past: QueryPast,
    spans: Sequence[ArrivalSpan],
    triggers: Sequence[Trigger],
    covered: float,
    start: float,
    end: float,
) -> float:
    told = max((span.end for span in spans), default=None)
    tail = 0.0 if told is None else max(0.0, end - max(told, start))
    if told is None or has_stopped(past, end) or tail > usual_wait(spans, triggers, end):
        tail = 0.0
    return min(1.0, (covered + min(tail, covered)) / (end - start))
