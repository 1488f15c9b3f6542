"""Ingest what is new of monitoring files into the history and the database.

The order makes a kill harmless at any moment: the database names the part that is begun, the part is written, windows
that it touches are folded anew from all parts and saved, and with the last of them the marks and the part's name are
committed. Whatever was not committed is read again, and comes to the same.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from scaler.model.errors import Retry
from tuner.pipeline import fine_history, windows
from tuner.pipeline.engine import IngestEngine, WrittenSamples
from tuner.pipeline.read_marks import (
    HISTORY,
    FileState,
    HistoryPart,
    Ledger,
    choose_fresh,
    compare_files,
    mark_file,
    read_ledger,
)
from tuner.pipeline.sources.found import InputFile
from tuner.store.connection import Session, Store
from tuner.store.records import SourceMark
from tuner.store.samples import delete_marks, delete_samples, load_marks, save_marks

Start = Callable[[Sequence[InputFile], int], IngestEngine]  # by the files to read, and the samples of the history
Report = Callable[[str, int], None]  # what is being done, and how many of STEPS are done
STEPS = 5


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """Result of one ingest."""

    files: tuple[FileState, ...]  # all that were looked at
    read: tuple[InputFile, ...]
    samples: int
    windows: int
    seconds: float
    faults: dict[str, int] = field(default_factory=dict)
    first: float | None = None  # of the samples read
    last: float | None = None
    notes: tuple[str, ...] = ()  # a sentence for everything that was amiss


@dataclass(frozen=True, slots=True)
class IngestTarget:
    """Store and history that an application's samples go to."""

    store: Store
    application: str
    history: Path
    window_s: float = windows.WINDOW_S


def report_nothing(doing: str, done: int) -> None:
    """Ignore a report."""


def ingest(
    start: Start,
    place: IngestTarget,
    found: Sequence[InputFile],
    again: bool = False,
    clock: Callable[[], float] = time.time,
    report: Report = report_nothing,
) -> IngestSummary:
    """Read what is new of the files; `again`: what was read before too. An engine starts if there is anything."""
    began = clock()
    folder = fine_history.place_history(place.history, place.application)
    with fine_history.locked(folder):
        ledger, marks = open_ledger(place, folder, again)
        report("Looking at files", 0)
        states = tuple(compare_files(found, marks))
        fresh = choose_fresh(found, states)
        rebuilt = not ledger.parts or ledger.window_s != place.window_s
        if not fresh and not (rebuilt and ledger.parts):
            return IngestSummary(states, (), 0, 0, clock() - began)
        since = find_reach(marks, fresh) if ledger.parts else None
        engine = start(fresh, count_rows(ledger, rebuilt, since))
        id = fine_history.name_part(began, ledger.parts)
        begun = replace(ledger, begun=(id,))
        commit(place, ledger, begun, [])
        report("Reading", 1)
        taken = engine.add_part(fresh, folder, ledger.parts, since, id, began) if fresh else WrittenSamples()
        done = Ledger(place.window_s, (*ledger.parts, *taken.parts), (), tuple(sorted({*ledger.links, *taken.links})))
        scratch = folder / f".windows-{id}"
        try:
            report("Folding", 2)
            folded = fold_windows(engine, folder, done, taken.parts, rebuilt, scratch)
            report("Saving", 3)
            if rebuilt:
                place.store.write(lambda session: delete_samples(session, place.application))
            windows.save_windows(place.store, place.application, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        commit(place, begun, done, mark_files(place.application, states, fresh, marks, taken.parts, began))
        report("Tidying", 4)
        tidy(engine, place, folder, done)
    part = taken.parts[0] if taken.parts else None
    return IngestSummary(
        states, tuple(fresh), part.rows if part else 0, folded, clock() - began,
        taken.faults, part.first if part else None, part.last if part else None, taken.notes,
    )  # fmt: skip


def mark_files(
    application: str,
    states: Sequence[FileState],
    fresh: Sequence[InputFile],
    marks: Mapping[str, SourceMark],
    added: Sequence[HistoryPart],
    now: float,
) -> list[SourceMark]:
    """A mark for each file that was read, with the earliest start of the samples of its ingests."""
    read = {file.path for file in fresh}
    made = []
    for state in states:
        if state.path in read and "://" not in state.path:
            before = marks[state.path].detail.get("first") if state.path in marks else None
            firsts = [float(first) for first in (before, *(part.first for part in added)) if first is not None]
            made.append(mark_file(application, state, now, min(firsts, default=None)))
    return made


def fold_windows(
    engine: IngestEngine, folder: Path, ledger: Ledger, added: Sequence[HistoryPart], rebuilt: bool, scratch: Path
) -> int:
    """Write the windows that changed, also those that are empty now, to a scratch folder; how many hold samples."""
    if rebuilt:
        engine.fold_all(folder, ledger, scratch)
    elif added:
        reach = max(part.longest for part in ledger.parts) + ledger.window_s + fine_history.DAY_S
        engine.fold_touched(folder, ledger.parts, ledger.window_s, added[0], reach, scratch)
    return windows.count_windows(scratch)


def count_rows(ledger: Ledger, rebuilt: bool, since: float | None) -> int:
    """Samples of the history, about, that an ingest reads: all, or those of its last days and of files read again."""
    newest = max((part.last for part in ledger.parts), default=0.0)
    reach = -math.inf if rebuilt else min(newest - fine_history.DAY_S, math.inf if since is None else since)
    return sum(part.rows for part in ledger.parts if part.last >= reach)


def find_reach(marks: Mapping[str, SourceMark], fresh: Sequence[InputFile]) -> float | None:
    """How far back samples reach that the history has of files that are read again; None if there are none."""
    firsts = [marks[file.path].detail.get("first") for file in fresh if file.path in marks]
    return min((float(first) for first in firsts if first is not None), default=None)


def open_ledger(place: IngestTarget, folder: Path, again: bool) -> tuple[Ledger, dict[str, SourceMark]]:
    """Load the ledger and the marks, and delete what a killed ingest left."""
    with place.store.read() as session:
        marks = load_marks(session, place.application)
    mark = marks.pop(HISTORY, None)
    ledger = Ledger(place.window_s) if mark is None else read_ledger(mark)
    fine_history.sweep(folder, ledger.begun)
    for left in folder.glob(".windows-*"):
        shutil.rmtree(left, ignore_errors=True)
    return ledger, {} if again else marks


def forget(place: IngestTarget) -> None:
    """Drop all that was ever read of the application: its marks, its samples and its history."""
    folder = fine_history.place_history(place.history, place.application)

    def drop(session: Session) -> None:
        delete_marks(session, place.application)
        delete_samples(session, place.application)

    with fine_history.locked(folder):
        ledger, _ = open_ledger(place, folder, False)
        place.store.write(drop)
        fine_history.sweep(folder, [part.id for part in ledger.parts])


def commit(place: IngestTarget, before: Ledger, after: Ledger, marks: Sequence[SourceMark]) -> None:
    """Replace the ledger that was read, if that is still there."""

    def write(session: Session) -> None:
        mark = load_marks(session, place.application).get(HISTORY)
        now = Ledger(place.window_s) if mark is None else read_ledger(mark)
        if now not in (before, after):
            raise Retry(f"another machine has ingested {place.application!r} meanwhile; run this again")
        rows = sum(part.rows for part in after.parts)
        save_marks(session, [*marks, SourceMark(place.application, HISTORY, rows, time.time(), asdict(after))])

    place.store.write(write)


def tidy(engine: IngestEngine, place: IngestTarget, folder: Path, ledger: Ledger) -> None:
    """Join small parts where there are many."""
    small = [part for part in ledger.parts if part.rows < fine_history.LARGE_PART]
    if len(small) < fine_history.MANY_PARTS:
        return
    id = fine_history.name_part(time.time(), ledger.parts)
    begun = replace(ledger, begun=(id,))
    commit(place, ledger, begun, [])
    joined = engine.join_parts(folder, small, id)
    kept = tuple(part for part in ledger.parts if part not in small)
    gone = tuple(part.id for part in small)
    commit(place, begun, replace(ledger, parts=(*kept, joined), begun=gone), [])
    fine_history.sweep(folder, gone)
