"""Ingest what is new of monitoring files into the history and the database.

The order makes a kill harmless at any moment: the database names the part that is begun, the part is written, windows
that it touches are folded anew from all parts and saved, and with the last of them the marks and the part's name are
committed. Whatever was not committed is read again, and comes to the same.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from scaler.model.errors import Retry
from tuner.pipeline import fine_history, fold
from tuner.pipeline.read_marks import (
    HISTORY,
    Edge,
    FileState,
    HistoryPart,
    Ledger,
    choose_fresh,
    compare_files,
    mark_file,
    read_ledger,
)
from tuner.pipeline.sources.found import InputFile
from tuner.pipeline.sources.sample_schema import SourceResult
from tuner.store.connection import Session, Store
from tuner.store.records import SourceMark
from tuner.store.samples import delete_marks, delete_samples, load_marks, save_marks

Read = Callable[[SparkSession, Sequence[InputFile]], SourceResult]
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
    window_s: float = fold.WINDOW_S


def report_nothing(doing: str, done: int) -> None:
    """Ignore a report."""


def ingest(
    start: Callable[[], SparkSession],
    place: IngestTarget,
    found: Sequence[InputFile],
    read: Read,
    again: bool = False,
    clock: Callable[[], float] = time.time,
    report: Report = report_nothing,
) -> IngestSummary:
    """Read what is new of the files; `again`: what was read before too. Spark is started if there is anything."""
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
        spark = start()
        id = fine_history.name_part(began, ledger.parts)
        begun = replace(ledger, begun=(id,))
        commit(place, ledger, begun, [])
        report("Reading", 1)
        known = read_known_samples(spark, folder, ledger, marks, fresh)
        taken = write_samples(read(spark, fresh) if fresh else None, known, folder, id, began)
        done = Ledger(place.window_s, (*ledger.parts, *taken.parts), (), tuple(sorted({*ledger.links, *taken.links})))
        scratch = folder / f".windows-{id}"
        try:
            report("Folding", 2)
            windows = fold_windows(spark, folder, done, taken.parts, rebuilt, scratch)
            report("Saving", 3)
            if rebuilt:
                place.store.write(lambda session: delete_samples(session, place.application))
            fold.save_windows(place.store, place.application, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        commit(place, begun, done, mark_files(place.application, states, fresh, marks, taken.parts, began))
        report("Tidying", 4)
        tidy(spark, place, folder, done)
    part = taken.parts[0] if taken.parts else None
    return IngestSummary(
        states, tuple(fresh), part.rows if part else 0, windows, clock() - began,
        taken.faults, part.first if part else None, part.last if part else None, taken.notes,
    )  # fmt: skip


class WrittenSamples(NamedTuple):
    """Parts, links and faults that one ingest added."""

    parts: tuple[HistoryPart, ...] = ()
    links: tuple[Edge, ...] = ()
    faults: dict[str, int] = {}  # noqa: RUF012  never changed
    notes: tuple[str, ...] = ()


def read_known_samples(
    spark: SparkSession, folder: Path, ledger: Ledger, marks: Mapping[str, SourceMark], fresh: Sequence[InputFile]
) -> DataFrame | None:
    """Samples that the history has of files that are read again, as far back as they reach; None if there are none."""
    firsts = [marks[file.path].detail.get("first") for file in fresh if file.path in marks]
    reach = [float(first) for first in firsts if first is not None]
    if not reach or not ledger.parts:
        return None
    return fold.drop_repeated(fine_history.read_parts(spark, folder, ledger.parts, min(reach)))


def write_samples(
    reading: SourceResult | None, known: DataFrame | None, folder: Path, id: str, now: float
) -> WrittenSamples:
    """Write what the files say, and the history does not know, as a part of it, if there is anything."""
    if reading is None:
        return WrittenSamples()
    samples = reading.samples if known is None else fine_history.leave_out(reading.samples, known)
    part, faults = fine_history.write_part(fold.check_samples(samples, now), folder, id)
    links = {(row["upstream"], row["downstream"]) for row in reading.links.collect()}
    return WrittenSamples((part,) if part else (), tuple(sorted(links)), faults, reading.notes)


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
    spark: SparkSession, folder: Path, ledger: Ledger, added: Sequence[HistoryPart], rebuilt: bool, scratch: Path
) -> int:
    """Write the windows that changed, also those that are empty now, to a scratch folder; how many hold samples."""
    window_s = ledger.window_s
    if rebuilt:
        rows = fine_history.read_parts(spark, folder, ledger.parts)
        fold.write_windows(fold.fold(rows, window_s), None, window_s, scratch)
        return fold.count_windows(scratch)
    if not added:
        return 0
    part = added[0]
    reach = max(p.longest for p in ledger.parts) + window_s + fine_history.DAY_S
    rows = fine_history.read_parts(spark, folder, ledger.parts, part.first - reach, part.last + reach)
    touched = fold.find_touched(rows, part.id, window_s).persist()
    try:
        fold.write_windows(fold.fold(rows, window_s, touched), touched, window_s, scratch)
    finally:
        touched.unpersist()
    return fold.count_windows(scratch)


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


def tidy(spark: SparkSession, place: IngestTarget, folder: Path, ledger: Ledger) -> None:
    """Join small parts where there are many."""
    small = [part for part in ledger.parts if part.rows < fine_history.LARGE_PART]
    if len(small) < fine_history.MANY_PARTS:
        return
    id = fine_history.name_part(time.time(), ledger.parts)
    begun = replace(ledger, begun=(id,))
    commit(place, ledger, begun, [])
    joined = fine_history.join_parts(spark, folder, small, id)
    kept = tuple(part for part in ledger.parts if part not in small)
    gone = tuple(part.id for part in small)
    commit(place, begun, replace(ledger, parts=(*kept, joined), begun=gone), [])
    fine_history.sweep(folder, gone)
