"""Evaluate the evidence of a slot into one reading; each quantity by one function, all of them assembled in one place.

arrival_rate   tuples that arrived per second of the slot that reports cover; reports partly outside count in part. Of
               an operator that is not its query's first: tuples that its timers saw, and unknown without timers
latest_arrival_rate    the same between the last two triggers that were reported, or planned, before the slot's end
tuples_in      of the slot's batches; a batch that ran partly in the slot counts in part, as does what it wrote
batch_throughput       tuples of the slot's batches per second that they ran, each counting for its part in the slot; at
               most those of the batch that is not done, over the time for which it has run
backlog        tuples that the last batch before the slot's end left; 0 in idleness; of a file source the files that
               wait, each taken for as many tuples as files had of late. Only the first operator has any
response       mean over the tuples, from arrival to the end of their batch (see `query_history`), by timers where these
               were told the arrivals; at least the time for which the oldest file waits, and that for which a batch has
               run that outlasts it
utilisation    of the busiest node type, seconds of work per replica and second of the slot: by the operator's timers;
               else by the time of all tasks on its executors; else the share of time that batches ran. Tasks that are
               not done count for as long as they ran in the slot
service_*      sums of the operator's timers
replicas       of the operator's resource profiles, of all executors where it has none
completeness   share of the slot that reports cover, and what is known since the last one. What is under way counts with
               them for as long as a report usually takes to come, and for no more than is known of the slot
notes          see `slot_notes`; a batch through which executors worked is no stall
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scaler.model.spark_progress import IDLE, Trigger
from scaler.sensing.executor_usage import (
    count_final_replicas,
    count_replicas,
    estimate_running_by_type,
    find_lost_replicas,
    find_utilisation,
)
from scaler.sensing.query_history import ArrivalSpan, QueryPast, overlap, share_within
from scaler.sensing.reading import Evidence, Reading, SlotFacts, derive_facts, select_counted, usual_wait
from scaler.sensing.slot_notes import (
    IDLE_S,
    USUAL_BATCHES,
    NoteCode,
    SlotNote,
    find_states,
    first_heard,
    last_heard,
)
from scaler.sensing.source_files import SourceFolder, estimate_rows_per_file
from scaler.sensing.timed_records import TimedSums, sum_timed

WORKING_UTILISATION = 0.5  # from which on replicas are seen to work though no report says so: a batch that is overdue
# keeps those that are done with their share, or have just started, waiting for the others


def evaluate(evidence: Evidence) -> Reading:
    """Assemble the reading of a slot; what the evidence does not say is None."""
    slot = derive_facts(evidence)
    entry, executors, end = evidence.entry, evidence.executors, evidence.end
    done = [trigger for trigger in slot.triggers if slot.start <= trigger.done < end]
    reported = entry and (slot.covered > 0.0 or bool(done))
    timed = sum_timed(slot.timed or {})
    timed_in = None if slot.timed is None or slot.completeness == 0.0 else timed.tuples
    folder = evidence.folder if entry and slot.completeness > 0.0 else None
    waiting = None if folder is None else find_waiting(slot, folder)
    backlog = find_backlog(slot) if waiting is None else waiting[0]
    return Reading(
        evidence.operator,
        slot.start,
        end,
        arrival_rate=find_arrival_rate(slot) if entry else divide(timed_in, end - slot.start),
        latest_arrival_rate=find_latest_arrival_rate(slot.known, end) if entry else None,
        tuples_in=find_tuples_in(slot) if entry else timed_in,
        tuples_out=add_up([(t, t.written) for t in slot.triggers], slot.start, end) if evidence.leaving else None,
        batch_throughput=find_batch_throughput(slot) if entry else None,
        backlog=backlog if entry or backlog is None else 0.0,  # a query's backlog waits before its first stage
        response=find_response(slot, timed, None if waiting is None else waiting[1]),
        utilisation=find_slot_utilisation(slot),
        service_n=timed.service_n or None,
        service_sum=timed.service_sum if timed.service_n else None,
        service_squares=timed.service_squares if timed.service_n else None,
        replicas=None if executors is None else count_replicas(executors, slot.start, end),
        final_replicas=None if executors is None else count_final_replicas(executors, end),
        batches=len(done) if reported else None,
        batch_time=sum(t.duration or 0.0 for t in done) if reported else None,
        running_time=slot.running_time,
        completeness=slot.completeness,
        notes=find_notes(slot),
    )


def find_arrival_rate(slot: SlotFacts) -> float | None:
    counted = select_counted(slot.known, slot.start, slot.end)
    arrived = sum(share_within(s.start, s.end, slot.start, slot.end) * (s.arrived or 0.0) for s in counted)
    return arrived / slot.covered if slot.covered > 0.0 else None


def find_latest_arrival_rate(spans: Sequence[ArrivalSpan], end: float) -> float | None:
    """Tuples per second of the last span."""
    known = [span for span in spans if span.arrived is not None and span.start < span.end <= end]
    last = max(known, key=lambda span: span.end, default=None)
    return None if last is None else divide(last.arrived, last.end - last.start)


def find_tuples_in(slot: SlotFacts) -> float | None:
    tuples = add_up([(trigger, trigger.rows) for trigger in slot.triggers], slot.start, slot.end)
    return 0.0 if tuples is None and slot.covered > 0.0 else tuples


def add_up(amounts: Sequence[tuple[Trigger, int | None]], start: float, end: float) -> float | None:
    """Sum over batches, each by its share in the slot; None where none is known."""
    parts = [(share_within(t.time, t.done, start, end), amount) for t, amount in amounts if amount is not None]
    within = [part * amount for part, amount in parts if part > 0.0]
    return sum(within) if within else None


def find_batch_throughput(slot: SlotFacts) -> float | None:
    """Of batches with tuples, and at most that of the batch that is not done; None without any."""
    known = [(overlap(t.time, t.done, slot.start, slot.end), t) for t in slot.triggers if t.executed and t.rows]
    seconds = sum(ran for ran, _ in known)
    rows = sum(share_within(t.time, t.done, slot.start, slot.end) * (t.rows or 0) for _, t in known)
    rates = [rows / seconds] if seconds > 0.0 else []
    planned = find_planned_rows(slot.past, slot.running_since)
    if planned is not None and slot.running_time is not None:
        rates.append(planned / slot.running_time)
    return min(rates, default=None)


def find_planned_rows(past: QueryPast, running_since: float | None) -> int | None:
    """Tuples of the batch that is not done, by its planned offsets; None where these are not known."""
    before, last = past.triggers[-2:] if len(past.triggers) > 1 else (None, None)
    if before is None or last is None or last.executed or last.time != running_since:
        return None
    return None if last.ended is None or before.ended is None else (last.ended - before.ended) or None


def find_waiting(slot: SlotFacts, folder: SourceFolder) -> tuple[float, float | None] | None:
    """Tuples in files that wait at the slot's end, and for how long the oldest has; None where files count nothing.

    Files that were there when the query had nothing to do are none that it would take.
    """
    rows = estimate_rows_per_file(slot.past, folder)
    if rows is None:
        return None
    waiting = folder.find_waiting(max((event.time for event in slot.past.idle), default=-math.inf), slot.end)
    return rows * waiting.files, None if waiting.oldest is None else slot.end - waiting.oldest


def find_response(slot: SlotFacts, timed: TimedSums, waited: float | None) -> float | None:
    """By timers where they know arrivals, else by batches; `waited`: seconds that the oldest file has waited."""
    if timed.response_n:
        return max(timed.response_sum / timed.response_n, slot.running_time or 0.0)
    response = raise_response(find_mean_response(slot), slot)
    return response if response is None or waited is None else max(response, waited)


def find_mean_response(slot: SlotFacts) -> float | None:
    total = weights = 0.0
    for batch in slot.batches:
        trigger = batch.trigger
        weight = (trigger.rows or 0) * share_within(trigger.time, trigger.done, slot.start, slot.end)
        if batch.response is not None and weight > 0.0:
            total, weights = total + weight * batch.response, weights + weight
    return total / weights if weights > 0.0 else None


def raise_response(response: float | None, slot: SlotFacts) -> float | None:
    """At least the time of a batch that still runs and outlasts what is known: its tuples wait as long."""
    if slot.running_time is None:
        return response
    usual = max((t.duration or 0.0 for t in slot.triggers[-USUAL_BATCHES:]), default=0.0)
    return slot.running_time if slot.running_time > (usual if response is None else response) else response


def find_backlog(slot: SlotFacts) -> float | None:
    """Backlog at the slot's end; None where the last report is too old to be of it."""
    past, end, patience = slot.past, slot.end, usual_wait(slot.spans, slot.triggers, slot.end)
    if found_nothing(past, end):
        return 0.0
    last = slot.triggers[-1] if slot.triggers else None
    idle = next((event.time for event in reversed(past.idle) if event.time < end), None)
    if idle is not None and (last is None or last.time <= idle):
        return 0.0 if end - idle <= patience else None
    if last is None or last.backlog is None or end - last.done > patience:
        return None
    return float(last.backlog)


def found_nothing(past: QueryPast, end: float) -> bool:
    """Whether the first report after this moment is that nothing had arrived; soon enough to be of it."""
    kind, event = next(((kind, event) for kind, event in past.events() if event.time >= end), (None, None))
    return kind == IDLE and event is not None and event.time - end <= IDLE_S


def find_slot_utilisation(slot: SlotFacts) -> float | None:
    """By timers, by tasks, or by the time that batches ran: the first of these that is known."""
    executors = slot.evidence.executors
    replicas = {} if executors is None else count_replicas(executors, slot.start, slot.end)
    used = None
    if slot.timed:
        busy = {name: part.busy for name, part in slot.timed.items()}
        running = estimate_running_work(slot.evidence)
        used = find_utilisation(busy, replicas, slot.end - slot.start, running)
    elif (spent := find_spent(slot, slot.start, slot.end)) is not None:
        used = find_utilisation(spent, replicas, slot.end - slot.start)
    return find_busy_share(slot) if used is None else used


def estimate_running_work(evidence: Evidence) -> dict[str, float]:
    """Seconds of the slot that tasks have run that are not done, by node type; timers know those that are."""
    since, end = evidence.activity.running_since, evidence.end
    if since is None or since >= end:
        return {}
    since = max(since, evidence.start)
    timed = {} if evidence.timed is None else evidence.timed.read(since, end)
    return estimate_running_by_type(
        evidence.executors or (), since, end, {name: part.busy for name, part in timed.items()}
    )


def find_spent(slot: SlotFacts, start: float, end: float) -> dict[str, float] | None:
    """Seconds of tasks on the operator's executors, by node type."""
    executors = slot.evidence.executors
    if executors is None:
        return None
    batches = [(t.time, t.done) for t in slot.past.triggers if t.executed and t.done > start]
    return slot.evidence.task_times.read(executors, start, end, slot.running_since, batches)


def find_busy_share(slot: SlotFacts) -> float | None:
    """Share of time that batches ran, over the time of which it is known."""
    first, heard = first_heard(slot.past), last_heard(slot.past, slot.end)
    if first is None or heard is None:
        return None
    busy = sum(overlap(t.time, t.done, slot.start, slot.end) for t in slot.triggers)
    watched = overlap(first, heard, slot.start, slot.end)
    if slot.running_since is not None and slot.running_since >= heard:
        busy += overlap(slot.running_since, slot.end, slot.start, slot.end)
        watched += overlap(heard, slot.end, slot.start, slot.end)
    return min(busy / watched, 1.0) if watched > 0.0 else None


def find_notes(slot: SlotFacts) -> tuple[SlotNote, ...]:
    """States of the query in the slot, each replica that was lost, and each profile that a stage waits for."""
    states = find_states(slot.past, slot.spans, slot.batches, slot.start, slot.end)
    if NoteCode.STALLED in states and is_worked_on(slot):
        states = [state for state in states if state != NoteCode.STALLED]
    lost = find_lost_replicas(slot.evidence.executors or (), slot.start, slot.end)
    waits = {stage.profile: SlotNote(NoteCode.STAGE_WAITS, {"stage": stage.name, "profile": str(stage.profile)})
             for stage in slot.evidence.waiting}  # fmt: skip
    return (*map(SlotNote, states), *lost, *waits.values())


def is_worked_on(slot: SlotFacts) -> bool:
    """Whether executors worked through the longest batch: then silence is no stall, but an overloaded stream's."""
    longest = find_longest_batch(slot)
    spent = None if longest is None else find_spent(slot, *longest)
    if longest is None or spent is None:
        return False
    start, end = longest
    used = find_utilisation(spent, count_replicas(slot.evidence.executors or (), start, end), end - start)
    return used is not None and used >= WORKING_UTILISATION


def find_longest_batch(slot: SlotFacts) -> tuple[float, float] | None:
    """When the longest batch ran of those reported in the slot and the one that is not done: of that one, in the slot.

    Work at the slot's end says whether a batch hangs by now; one that is done is judged by all of its time.
    """
    start, end = slot.start, slot.end
    done = [(t.done - t.time, t.time, t.done) for t in slot.past.triggers if t.executed and start <= t.done < end]
    since = slot.running_since
    running = [] if since is None else [(end - since, max(since, start), end)]
    longest = max([*done, *running], default=None)
    return None if longest is None or longest[0] <= 0.0 else longest[1:]


def divide(tuples: float | None, seconds: float) -> float | None:
    return None if tuples is None else tuples / seconds
