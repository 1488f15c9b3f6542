"""Replace folded windows in the database, pass by pass.

Spark writes them to a scratch folder first, so that no transaction stays open while it works. In there, a window that
was touched and holds nothing any more is a row without evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from scaler.model.sample import Sample
from tuner.store.connection import Session, Store
from tuner.store.samples import Window, delete_windows, save_samples

WINDOWS_A_PASS = 50_000
ROWS_A_BATCH = 10_000


def write_windows(folded: DataFrame, touched: DataFrame | None, window_s: float, scratch: Path) -> None:
    """Write windows to a scratch folder, the rows of each together in one file."""
    rows = folded
    if touched is not None:
        width = F.lit(window_s)
        start, end = F.col("slot") * width, (F.col("slot") + 1) * width
        named = touched.select("operator", start.alias("start"), end.alias("end"))
        rows = named.join(folded, ["operator", "start", "end"], "left").select(*folded.columns)
    together = rows.repartition("operator", "start").sortWithinPartitions("operator", "start", "node_type")
    together.drop("key").write.parquet(str(scratch))


def count_windows(scratch: Path) -> int:
    return sum(1 for _, samples in read_windows(scratch) if samples)


def read_windows(scratch: Path) -> Iterator[tuple[Window, list[Sample]]]:
    """Every window with its samples, file by file."""
    for _, group in groupby(read_rows(scratch), key=lambda row: (row["operator"], row["start"], row["end"])):
        rows = list(group)
        yield (
            (rows[0]["operator"], rows[0]["start"], rows[0]["end"]),
            [Sample(**row) for row in rows if row["evidence"] is not None],
        )


def read_rows(scratch: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(scratch.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(ROWS_A_BATCH):
            yield from batch.to_pylist()


def save_windows(store: Store, application: str, scratch: Path) -> None:
    """Replace windows pass by pass, each in one transaction."""
    windows = read_windows(scratch)
    while chosen := list(islice(windows, WINDOWS_A_PASS)):
        store.write(lambda session, chosen=chosen: replace_windows(session, application, chosen))  # type: ignore[misc]


def replace_windows(session: Session, application: str, windows: list[tuple[Window, list[Sample]]]) -> None:
    delete_windows(session, application, (window for window, _ in windows))
    save_samples(session, (sample for _, samples in windows for sample in samples))
