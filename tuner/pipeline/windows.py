"""What every engine agrees on: which samples are refused, the grid of windows, and how folded windows are saved.

An engine writes folded windows to a scratch folder, from which they replace those in the database, so that no
transaction stays open while it works. In there, a window that was touched and holds nothing any more is a row without
evidence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from scaler.model.errors import BadInput
from scaler.model.sample import EVIDENCE, Sample
from scaler.model.sketch import compact_sketch
from tuner.pipeline.sources.sample_schema import SKETCH
from tuner.store.connection import Session, Store
from tuner.store.samples import SampleWindow, delete_windows, save_samples

WINDOW_S = 60.0
INGEST = "ingest"  # a column of the history: which reading a row came from; a later one knows better
AHEAD_S = 3600.0  # a clock may be wrong by so much before what it stamps is refused
LONGEST_S = 31 * 86_400.0
TURNED = "ended before they began, and count whole at the earlier of the two times"
REFUSED = {
    "unnamed": "name no application or no operator",
    "untimed": "do not say when they began and ended",
    "future": f"lie more than {AHEAD_S / 60:.0f} min in the future: a clock is wrong",
    "long": f"last longer than {LONGEST_S / 86_400:.0f} days",
    "evidence": f"have evidence that is none of {', '.join(EVIDENCE)}",
    "negative": "hold a figure that is negative or not finite",
    "partial": "have a completeness that is not between 0 and 1",
}
FAULTS = {**REFUSED, "turned": TURNED}
WINDOWS_A_PASS = 50_000
ROWS_A_BATCH = 10_000


def check_window(window_s: float) -> None:
    if not 1.0 <= window_s <= 31 * 86_400.0:
        raise BadInput(f"the window is {window_s} s, and must be from 1 s to 31 days")


def count_windows(scratch: Path) -> int:
    """Windows that hold samples; their rows are all in one file."""
    tables = (pq.read_table(file, columns=["operator", "start", "evidence"]) for file in scratch.glob("*.parquet"))
    sound = (table.filter(pc.is_valid(table["evidence"])) for table in tables)
    return sum(table.group_by(["operator", "start"]).aggregate([]).num_rows for table in sound)


def read_windows(scratch: Path) -> Iterator[tuple[SampleWindow, list[Sample]]]:
    """Every window with its samples, file by file."""
    files = map(pq.ParquetFile, sorted(scratch.glob("*.parquet")))
    rows = (row for file in files for batch in file.iter_batches(ROWS_A_BATCH) for row in batch.to_pylist())
    for window, group in groupby(rows, key=itemgetter("operator", "start", "end")):
        yield window, [read_row(row) for row in group if row["evidence"] is not None]


def read_row(row: dict[str, Any]) -> Sample:
    sketch = row[SKETCH]
    return Sample(**row | {SKETCH: None if sketch is None else compact_sketch(json.loads(sketch))})


def save_windows(store: Store, application: str, scratch: Path) -> None:
    """Replace windows pass by pass, each in one transaction."""
    windows = read_windows(scratch)
    while chosen := list(islice(windows, WINDOWS_A_PASS)):
        store.write(partial(replace_windows, application=application, windows=chosen))


def replace_windows(session: Session, application: str, windows: list[tuple[SampleWindow, list[Sample]]]) -> None:
    delete_windows(session, application, (window for window, _ in windows))
    save_samples(session, (sample for _, samples in windows for sample in samples))
