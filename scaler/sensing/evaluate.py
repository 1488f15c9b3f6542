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
responses      sketch of how response times are spread, by batches alone: of tuples that came evenly over a time, they
               lie evenly over as much
utilisation    of the busiest node type, seconds of work per replica and second of the slot: by the operator's timers;
               else by the time of all tasks on its executors; else the share of time that batches ran. Tasks that are
               not done count for as long as they ran in the slot
service_*      sums of the operator's timers
state_*        of the query's stateful operators together; only where the operator is the whole query
replicas       of the operator's resource profiles, of all executors where it has none
completeness   share of the slot that reports cover, and what is known since the last one. What is under way counts with
               them for as long as a report usually takes to come, and for no more than is known of the slot
notes          see `slot_notes`; a batch through which executors worked is no stall
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scaler.model.sketch import Sketch, add_span
from scaler.model.spark_progress import IDLE, Trigger
from scaler.sensing.evidence import IDLE_S, USUAL_BATCHES, Evidence
from scaler.sensing.executor_usage import (
    count_final_replicas,
    count_replicas,
    estimate_running_by_type,
    find_utilisation,
)
from scaler.sensing.query_history import ArrivalSpan, QueryPast, overlap, share_within
from scaler.sensing.reading import Reading
from scaler.sensing.slot_notes import find_notes
from scaler.sensing.source_files import SourceFolder, estimate_rows_per_file
from scaler.sensing.trigger_interval import estimate_trigger_interval
from scaler.timing import ServiceTally


def evaluate(evidence: Evidence) -> Reading:
    """Assemble the reading of a slot; what the evidence does not say is None."""
    entry, executors, start, end = evidence.entry, evidence.executors, evidence.start, evidence.end
    done = [trigger for trigger in evidence.triggers if start <= trigger.done < end]
    reported = entry and (evidence.covered > 0.0 or bool(done))
    timed = ServiceTally()
    for sums in (evidence.timed_sums or {}).values():
        timed.add(sums)
    timed_in = None if evidence.timed_sums is None or evidence.completeness == 0.0 else timed.tuples
    folder = evidence.folder if entry and evidence.completeness > 0.0 else None
    waiting = None if folder is None else find_waiting(evidence, folder)
    backlog = find_backlog(evidence) if waiting is None else waiting[0]
    least = find_least_response(evidence, None if waiting is None else waiting[1])
    return Reading(
        evidence.operator,
        start,
        end,
        arrival_rate=find_arrival_rate(evidence) if entry else divide(timed_in, end - start),
        latest_arrival_rate=find_latest_arrival_rate(evidence.spans, end) if entry else None,
        tuples_in=find_tuples_in(evidence) if entry else timed_in,
        tuples_out=add_up([(t, t.written) for t in evidence.triggers], start, end) if evidence.leaving else None,
        batch_throughput=find_batch_throughput(evidence) if entry else None,
        backlog=backlog if entry or backlog is None else 0.0,  # a query's backlog waits before its first stage
        response=find_response(evidence, timed, least),
        responses=find_response_sketch(evidence),
        least_response=least,
        utilisation=find_slot_utilisation(evidence),
        service_n=timed.service_n or None,
        service_sum=timed.service_sum if timed.service_n else None,
        service_squares=timed.service_squares if timed.service_n else None,
        replicas=None if executors is None else count_replicas(executors, start, end),
        final_replicas=None if executors is None else count_final_replicas(executors, end),
        batches=len(done) if reported else None,
        batch_time=sum(t.duration or 0.0 for t in done) if reported else None,
        trigger_interval=estimate_trigger_interval(evidence.triggers),
        **(find_state(done) if entry and evidence.leaving else {}),
        running_time=evidence.running_time,
        completeness=evidence.completeness,
        notes=find_notes(evidence),
    )


def find_state(done: Sequence[Trigger]) -> dict[str, float | None]:
    """State after the last of these batches, and what its commits and loads took in all of them."""
    states = [trigger.state for trigger in done if trigger.state is not None]
    if not states:
        return {}
    return {
        "state_rows": states[-1].rows,
        "state_bytes": states[-1].bytes,
        "state_partitions": states[-1].partitions,
        "commit_time": add_known([state.commit_s for state in states]),
        "store_loads": add_known([state.loads for state in states]),
        "store_load_time": add_known([state.load_s for state in states]),
    }


def add_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def find_arrival_rate(evidence: Evidence) -> float | None:
    start, end = evidence.start, evidence.end
    arrived = sum(share_within(s.start, s.end, start, end) * (s.arrived or 0.0) for s in evidence.counted_spans)
    return arrived / evidence.covered if evidence.covered > 0.0 else None


def find_latest_arrival_rate(spans: Sequence[ArrivalSpan], end: float) -> float | None:
    """Tuples per second of the last span."""
    known = [span for span in spans if span.arrived is not None and span.start < span.end <= end]
    last = max(known, key=lambda span: span.end, default=None)
    return None if last is None else divide(last.arrived, last.end - last.start)


def find_tuples_in(evidence: Evidence) -> float | None:
    tuples = add_up([(trigger, trigger.rows) for trigger in evidence.triggers], evidence.start, evidence.end)
    return 0.0 if tuples is None and evidence.covered > 0.0 else tuples


def add_up(amounts: Sequence[tuple[Trigger, int | None]], start: float, end: float) -> float | None:
    """Sum over batches, each by its share in the slot; None where none is known."""
    parts = [(share_within(t.time, t.done, start, end), amount) for t, amount in amounts if amount is not None]
    within = [part * amount for part, amount in parts if part > 0.0]
    return sum(within) if within else None


def find_batch_throughput(evidence: Evidence) -> float | None:
    """Of batches with tuples, and at most that of the batch that is not done; None without any."""
    start, end, known = evidence.start, evidence.end, [t for t in evidence.triggers if t.executed and t.rows]
    seconds = sum(overlap(t.time, t.done, start, end) for t in known)
    rows = sum(share_within(t.time, t.done, start, end) * (t.rows or 0) for t in known)
    rates = [rows / seconds] if seconds > 0.0 else []
    planned = find_planned_rows(evidence.past, evidence.running_since)
    if planned is not None and evidence.running_time is not None:
        rates.append(planned / evidence.running_time)
    return min(rates, default=None)


def find_planned_rows(past: QueryPast, running_since: float | None) -> int | None:
    """Tuples of the batch that is not done, by its planned offsets; None where these are not known."""
    before, last = past.triggers[-2:] if len(past.triggers) > 1 else (None, None)
    if before is None or last is None or last.executed or last.time != running_since:
        return None
    return None if last.ended is None or before.ended is None else (last.ended - before.ended) or None


def find_waiting(evidence: Evidence, folder: SourceFolder) -> tuple[float, float | None] | None:
    """Tuples in files that wait at the slot's end, and for how long the oldest has; None where files count nothing.

    Files that were there when the query had nothing to do are none that it would take.
    """
    rows = estimate_rows_per_file(evidence.past, folder)
    if rows is None:
        return None
    waiting = folder.find_waiting(max((event.time for event in evidence.past.idle), default=-math.inf), evidence.end)
    return rows * waiting.files, None if waiting.oldest is None else evidence.end - waiting.oldest


def find_response(evidence: Evidence, timed: ServiceTally, least: float | None) -> float | None:
    """By timers where they know arrivals, else by batches; `least`: what tuples that still wait have reached."""
    if timed.response_n:
        return max(timed.response_sum / timed.response_n, evidence.running_time or 0.0)
    return max((time for time in (find_mean_response(evidence), least) if time is not None), default=None)


def find_least_response(evidence: Evidence, waited: float | None) -> float | None:
    """The time for which a batch has run that outlasts what is known, or the oldest file has waited (`waited`)."""
    response, running = find_mean_response(evidence), evidence.running_time
    usual = max((t.duration or 0.0 for t in evidence.triggers[-USUAL_BATCHES:]), default=0.0)
    outlasts = running is not None and running > (usual if response is None else response)
    if waited is not None and response is None and not outlasts:
        return None
    known = (running if outlasts else None, waited)
    return max((time for time in known if time is not None), default=None)


def find_response_sketch(evidence: Evidence) -> Sketch | None:
    """How response times are spread over the slot's tuples; a batch partly in the slot counts in part."""
    sketch: Sketch = {}
    for batch in evidence.reports[1]:
        share = share_within(batch.trigger.time, batch.trigger.done, evidence.start, evidence.end)
        for part in batch.spread if share > 0.0 else ():
            add_span(sketch, part.low, part.high, share * part.tuples)
    return sketch or None


def find_mean_response(evidence: Evidence) -> float | None:
    total = weights = 0.0
    _, batches = evidence.reports
    for batch in batches:
        trigger = batch.trigger
        weight = (trigger.rows or 0) * share_within(trigger.time, trigger.done, evidence.start, evidence.end)
        if batch.response is not None and weight > 0.0:
            total, weights = total + weight * batch.response, weights + weight
    return total / weights if weights > 0.0 else None


def find_backlog(evidence: Evidence) -> float | None:
    """Backlog at the slot's end; None where the last report is too old to be of it."""
    past, end, patience = evidence.past, evidence.end, evidence.usual_wait
    if found_nothing(past, end):
        return 0.0
    last = evidence.triggers[-1] if evidence.triggers else None
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


def find_slot_utilisation(evidence: Evidence) -> float | None:
    """By timers, by tasks, or by the time that batches ran: the first of these that is known."""
    executors = evidence.executors
    replicas = {} if executors is None else count_replicas(executors, evidence.start, evidence.end)
    used = None
    if evidence.timed_sums:
        busy = {name: part.busy for name, part in evidence.timed_sums.items()}
        running = estimate_running_work(evidence)
        used = find_utilisation(busy, replicas, evidence.end - evidence.start, running)
    elif (spent := evidence.find_spent(evidence.start, evidence.end)) is not None:
        used = find_utilisation(spent, replicas, evidence.end - evidence.start)
    return find_busy_share(evidence) if used is None else used


def estimate_running_work(evidence: Evidence) -> dict[str, float]:
    """Seconds of the slot that tasks have run that are not done, by node type; timers know those that are."""
    if evidence.running_since is None:
        return {}
    since, end = max(evidence.running_since, evidence.start), evidence.end
    timed = {} if evidence.timed is None else evidence.timed.read(since, end)
    ended = {name: part.busy for name, part in timed.items()}
    return estimate_running_by_type(evidence.executors or (), since, end, ended)


def find_busy_share(evidence: Evidence) -> float | None:
    """Share of time that batches ran, over the time of which it is known."""
    first, heard = evidence.past.first_heard(), evidence.past.last_heard(evidence.end)
    if first is None or heard is None:
        return None
    busy = sum(overlap(t.time, t.done, evidence.start, evidence.end) for t in evidence.triggers)
    watched = overlap(first, heard, evidence.start, evidence.end)
    if evidence.running_since is not None and evidence.running_since >= heard:
        busy += overlap(evidence.running_since, evidence.end, evidence.start, evidence.end)
        watched += overlap(heard, evidence.end, evidence.start, evidence.end)
    return min(busy / watched, 1.0) if watched > 0.0 else None


def divide(tuples: float | None, seconds: float) -> float | None:
    return None if tuples is None else tuples / seconds
