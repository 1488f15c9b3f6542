"""Ingest in this process what its memory holds: the same history and windows as by Spark, without its start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from scaler.model.sample import EVIDENCE
from tuner.pipeline.engine import WrittenSamples
from tuner.pipeline.fine_history import DAY_S, place_parts
from tuner.pipeline.local.columns import SCHEMA, Flags, combine, encode, get_numbers
from tuner.pipeline.local.fold import HISTORY, drop_repeated, find_touched, fold, identify
from tuner.pipeline.local.reading import TableResult
from tuner.pipeline.read_marks import HistoryPart, Ledger
from tuner.pipeline.sources.found import InputFile
from tuner.pipeline.sources.sample_schema import COLUMNS, MEASURED
from tuner.pipeline.windows import AHEAD_S, FAULTS, INGEST, LONGEST_S

Read = Callable[[Sequence[InputFile]], TableResult]
WINDOWS = pa.schema([field for field in SCHEMA if field.name != "key"])


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Ingest in memory; `read` turns files into samples."""

    read: Read

    def add_part(
        self, fresh: Sequence[InputFile], folder: Path, known: Sequence[HistoryPart], since: float | None, id: str,
        now: float,
    ) -> WrittenSamples:  # fmt: skip
        reading = self.read(fresh)
        samples = reading.samples
        if since is not None:
            samples = leave_out(samples, drop_repeated(read_parts(folder, known, since)))
        part, faults = write_part(samples, now, folder, id)
        return WrittenSamples((part,) if part else (), tuple(sorted(reading.links)), faults, reading.notes)

    def fold_all(self, folder: Path, ledger: Ledger, scratch: Path) -> None:
        write_windows(fold(read_parts(folder, ledger.parts), ledger.window_s), scratch)

    def fold_touched(
        self, folder: Path, parts: Sequence[HistoryPart], window_s: float, added: HistoryPart, reach: float,
        scratch: Path,
    ) -> None:  # fmt: skip
        rows = read_parts(folder, parts, added.first - reach, added.last + reach)
        touched = find_touched(rows, added.id, window_s)
        write_windows(add_empty(fold(rows, window_s, touched), touched, window_s), scratch)

    def join_parts(self, folder: Path, parts: Sequence[HistoryPart], id: str) -> HistoryPart:
        kept = drop_repeated(read_parts(folder, parts))
        write_days(kept, folder / f"part={id}")
        first, last = min(part.first for part in parts), max(part.last for part in parts)
        return HistoryPart(id, kept.num_rows, first, last, max(part.longest for part in parts))


def check_samples(samples: pa.Table, now: float) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The number of the first fault of each sample in FAULTS; their count where there is none."""
    start, end = get_numbers(samples, "start"), get_numbers(samples, "end")
    shares = get_numbers(samples, "completeness")
    with np.errstate(invalid="ignore"):
        wrong = {
            "unnamed": is_empty(samples["application"]) | is_empty(samples["operator"]),
            "untimed": ~(is_sound(start) & is_sound(end)),
            "future": np.fmin(start, end) > now + AHEAD_S,
            "long": end - start > LONGEST_S,
            "evidence": ~pc.fill_null(pc.is_in(samples["evidence"], pa.array(EVIDENCE)), False).to_numpy(),
            "negative": np.any([is_wrong(samples, name) for name in MEASURED], axis=0),
            "partial": ~(is_sound(shares) & (shares <= 1.0)),
            "turned": end < start,
        }
    found: np.ndarray[Any, np.dtype[np.int64]] = np.argmax(
        [*(wrong[name] for name in FAULTS), np.ones(start.size, np.bool_)], axis=0
    )
    return found


def is_empty(column: pa.ChunkedArray) -> Flags:
    flags: Flags = pc.equal(pc.fill_null(column, ""), "").to_numpy()
    return flags


def is_sound(values: np.ndarray[Any, np.dtype[np.float64]]) -> Flags:
    """Whether it is a finite number of 0 or more."""
    return (values >= 0.0) & (values < np.inf)


def is_wrong(samples: pa.Table, name: str) -> Flags:
    return samples[name].is_valid().to_numpy() & ~is_sound(get_numbers(samples, name))


def write_part(samples: pa.Table, now: float, folder: Path, id: str) -> tuple[HistoryPart | None, dict[str, int]]:
    """Write what is sound of samples as a part, and count the faults; None: nothing was."""
    fault = check_samples(samples, now)
    counts = np.bincount(fault, minlength=len(FAULTS) + 1)
    faults = {name: int(count) for name, count in zip(FAULTS, counts, strict=False) if count}
    kept = samples.filter(pa.array(fault >= list(FAULTS).index("turned")))
    if not kept.num_rows:
        return None, faults
    start, end = get_numbers(kept, "start"), get_numbers(kept, "end")
    placed = kept.set_column(COLUMNS.index("start"), "start", pa.array(np.minimum(start, end)))
    write_days(placed.append_column(INGEST, pa.repeat(id, kept.num_rows)), folder / f"part={id}")
    first, last = float(np.minimum(start, end).min()), float(np.maximum(start, end).max())
    return HistoryPart(id, kept.num_rows, first, last, float(np.abs(end - start).max())), faults


def write_days(samples: pa.Table, part: Path) -> None:
    """A file a day in UTC."""
    days = np.floor(get_numbers(samples, "start") / DAY_S).astype(np.int64)
    part.mkdir()
    for day in np.unique(days):
        folder = part / f"day={np.datetime64(int(day), 'D')}"
        folder.mkdir()
        pq.write_table(samples.filter(pa.array(days == day)), folder / "part-0.parquet")


def read_parts(
    folder: Path, parts: Sequence[HistoryPart], since: float | None = None, until: float | None = None
) -> pa.Table:
    """All samples of these parts that lie in the days from `since` to `until`, with all versions of each."""
    begin, end = (None if moment is None else name_day(moment) for moment in (since, until))
    tables = [
        pq.ParquetFile(file).read(columns=HISTORY.names).select(HISTORY.names).cast(HISTORY)
        for part in place_parts(folder, parts)
        for day in sorted(part.glob("day=*"))
        if (begin is None or day.name >= begin) and (end is None or day.name <= end)
        for file in sorted(day.glob("*.parquet"))
    ]
    return pa.concat_tables([HISTORY.empty_table(), *tables])


def name_day(seconds: float) -> str:
    return f"day={np.datetime64(int(seconds // DAY_S), 'D')}"


def leave_out(samples: pa.Table, known: pa.Table) -> pa.Table:
    """Drop samples that are known unchanged; one that is known otherwise stays, being a later version."""
    both = pa.concat_tables([samples, known.select(COLUMNS)])
    texts = [encode(both[name]) for name in COLUMNS if pa.types.is_string(SCHEMA.field(name).type)]
    numbers = [get_numbers(both, name) for name in COLUMNS if pa.types.is_floating(SCHEMA.field(name).type)]
    same = combine(identify(both), *texts, *(column for column in numbers if not np.isnan(column).all()))
    new, old = same[: samples.num_rows], same[samples.num_rows :]
    return samples.filter(pa.array(~np.isin(new, old)))


def add_empty(rows: pa.Table, touched: pa.Table, window_s: float) -> pa.Table:
    """The rows, and one without evidence for each touched window that holds nothing any more."""
    slots = np.rint(get_numbers(rows, "start") / window_s).astype(np.int64)
    full = set(zip(rows["operator"].to_pylist(), slots.tolist(), strict=True))
    wanted = zip(touched["operator"].to_pylist(), touched["slot"].to_pylist(), strict=True)
    empty = [
        {"operator": operator, "start": slot * window_s, "end": (slot + 1) * window_s}
        for operator, slot in wanted
        if (operator, slot) not in full
    ]
    return pa.concat_tables([rows, pa.Table.from_pylist(empty, SCHEMA)])


def write_windows(rows: pa.Table, scratch: Path) -> None:
    """Write windows to a scratch folder, the rows of each together."""
    scratch.mkdir()
    order = [("operator", "ascending"), ("start", "ascending"), ("node_type", "ascending")]
    pq.write_table(rows.sort_by(order).select(WINDOWS.names), scratch / "part-0.parquet")
