"""A query's past and the folder that it reads flow in; tuples that came since its last report, or wait, flow out.

Offsets of a file source count no tuples, and no report comes while a long batch runs; the files are there to be
counted. Each is taken for as many tuples as those that batches took of late had.
"""

from __future__ import annotations

import math
from dataclasses import replace

from scaler.sensing.batch_history import STARTED, Past
from scaler.sensing.reading import Reading
from scaler.sensing.source_files import Folder
from scaler.sensing.spans import Span


def count_rows(past: Past, folder: Folder) -> float | None:
    """Of a file, over the batches whose entries are known; None where none is."""
    rows = {t.entry: t.rows for t in past.triggers if t.entry in folder.entries and t.rows is not None}
    files = sum(len(folder.entries[entry]) for entry in rows if entry is not None)
    return sum(rows.values()) / files if files else None


def find_unreported(past: Past, folder: Folder | None, start: float, end: float, run: str | None) -> Span | None:
    """What of the slot comes after the last report of the run that is there now; None where nothing does."""
    events = list(past.events())
    if folder is None or not events or events[-1][0] == STARTED or events[-1][1].run != run:
        return None
    first, rows, entry = max(start, events[-1][1].time), count_rows(past, folder), find_entry(past)
    if first >= end or rows is None or entry is None:
        return None
    return Span(first, end, rows * folder.count_came(first, end, entry))


def find_entry(past: Past) -> int | None:
    """The last one of the source's log that a batch took of which there is a report."""
    return next((trigger.entry for trigger in reversed(past.triggers) if trigger.entry is not None), None)


def add_files(reading: Reading, past: Past, folder: Folder | None) -> Reading:
    """What waits at the slot's end; who waits has waited since it came.

    Files that were there when the query had nothing to do are none that it would take.
    """
    rows = None if folder is None else count_rows(past, folder)
    if folder is None or rows is None or reading.completeness == 0.0:
        return reading
    waiting = folder.find_waiting(max((sign.time for sign in past.idle), default=-math.inf), reading.end)
    if waiting.oldest is None or reading.response is None:
        return replace(reading, backlog=rows * waiting.files)
    response = max(reading.response, reading.end - waiting.oldest)
    return replace(reading, backlog=rows * waiting.files, response=response)
