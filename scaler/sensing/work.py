"""A reading of the progress, executors and timers flow in; the reading with the work that was done flows out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from scaler.sensing.batch_history import QueryPast
from scaler.sensing.driver import QueryActivity
from scaler.sensing.executor_usage import (
    UNNAMED_TYPE,
    ObservedExecutor,
    count_replicas,
    estimate_running,
    find_utilisation,
    tell_losses,
)
from scaler.sensing.reading import WORKING_UTILISATION, Reading
from scaler.sensing.slot_notes import STALLED
from scaler.sensing.source_files import SourceFolder, estimate_rows_per_file
from scaler.sensing.timed_records import TimedRecords, TimedSums, sum_timed


def join(
    reading: Reading,
    entry: bool,
    executors: Sequence[ObservedExecutor] | None,
    records: TimedRecords | None,
    spent: Mapping[str, float] | None,
    doing: QueryActivity,
) -> Reading:
    """The reading of the progress, with what executors and timers know better; `spent` by tasks, by node type."""
    start, end = reading.start, reading.end
    replicas = None if executors is None else count_replicas(executors, start, end)
    timed = None if records is None else records.read(start, end)
    total = sum_timed(timed) if timed is not None else TimedSums()
    if total.service_n:
        reading = replace(reading, service=(total.service_n, total.service_sum, total.service_squares))
    if total.response_n:
        running_since = end if doing.running_since is None else doing.running_since
        reading = replace(reading, response=max(total.response_sum / total.response_n, end - running_since))
    if not entry and timed is not None and reading.completeness > 0.0:
        reading = replace(reading, taken=total.tuples, rate=total.tuples / (end - start))
    busy = {name: part.busy for name, part in timed.items()} if timed else spent
    if busy is not None and replicas:
        running = count_running(executors or (), doing, start, end, records) if timed else {}
        used = find_utilisation(busy, replicas, end - start, running)
        reading = replace(reading, utilisation=reading.utilisation if used is None else used)
    serving = None if executors is None else float(sum(e.slots for e in executors if e.since < end <= e.until))
    notes = (*reading.notes, *tell_losses(executors or (), start, end))
    return replace(reading, replicas=replicas, serving=serving, notes=notes)


def count_running(
    executors: Iterable[ObservedExecutor],
    doing: QueryActivity,
    start: float,
    end: float,
    records: TimedRecords | None = None,
) -> dict[str, float]:
    """Seconds of the slot that tasks have run that are not done, by node type; `records` has those that are."""
    if doing.running_since is None or doing.running_since >= end:
        return {}
    since = max(doing.running_since, start)
    ended = {} if records is None else {name: part.busy for name, part in records.read(since, end).items()}
    known = list(executors)
    groups = {name: [e for e in known if e.node_type == name] for name in {e.node_type for e in known}}
    if not set(ended) <= set(groups):  # timers and Spark name them differently
        groups, ended = {UNNAMED_TYPE: known}, {UNNAMED_TYPE: sum(ended.values())}
    going = {name: estimate_running(group, since, end, ended.get(name, 0.0)) for name, group in groups.items()}
    return {name: spent for name, spent in going.items() if spent > 0.0}


def find_longest(past: QueryPast, doing: QueryActivity, start: float, end: float) -> tuple[float, float] | None:
    """When the longest batch ran of those reported in the slot and the one that is not done: of that one, in the slot.

    Work at the slot's end says whether a batch hangs by now; one that is done is judged by all of its time.
    """
    done = [(t.done - t.time, t.time, t.done) for t in past.triggers if t.executed and start <= t.done < end]
    since = doing.running_since
    running = [] if since is None or since >= end else [(end - since, max(since, start), end)]
    longest = max([*done, *running], default=None)
    return None if longest is None or longest[0] <= 0.0 else longest[1:]


def clear_stall(
    reading: Reading,
    executors: Sequence[ObservedExecutor] | None,
    spent: Mapping[str, float] | None,
    start: float,
    end: float,
) -> Reading:
    """Silence is no stall where executors worked through the batch; an overloaded stream has the longest ones."""
    replicas = count_replicas(executors or (), start, end)
    used = None if spent is None else find_utilisation(spent, replicas, end - start)
    if used is None or used < WORKING_UTILISATION:
        return reading
    return replace(reading, notes=tuple(note for note in reading.notes if note != STALLED))


def add_files(reading: Reading, past: QueryPast, folder: SourceFolder | None) -> Reading:
    """What waits at the slot's end; who waits has waited since it came.

    Files that were there when the query had nothing to do are none that it would take.
    """
    rows = None if folder is None else estimate_rows_per_file(past, folder)
    if folder is None or rows is None or reading.completeness == 0.0:
        return reading
    waiting = folder.find_waiting(max((sign.time for sign in past.idle), default=-math.inf), reading.end)
    if waiting.oldest is None or reading.response is None:
        return replace(reading, backlog=rows * waiting.files)
    response = max(reading.response, reading.end - waiting.oldest)
    return replace(reading, backlog=rows * waiting.files, response=response)
