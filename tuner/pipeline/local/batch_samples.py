"""Make samples of the batches of progress reports; the rules are those of `sources.log_samples`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from scaler.model.sketch import Sketch, add_span
from tuner.pipeline.local.columns import SCHEMA
from tuner.pipeline.local.log_context import LoggedQuery, Place, Row, group
from tuner.pipeline.sources.sample_schema import STATE_LEVELS

Figures = dict[str, Any]


def make_batch_samples(progress: Iterable[Row], queries: dict[Place, LoggedQuery]) -> pa.Table:
    """Samples of the work and the arrivals of every trigger."""
    samples = []
    for _, rows in group(progress, "query", "run").items():
        for row, before, batch_before in order_triggers(rows):
            query = queries.get((row["log"], row["query"]))
            if query is not None:
                named = {"application": query.application, "operator": query.entry_operator, "evidence": "progress"}
                made = (describe_work(row, query.several, batch_before), describe_arrivals(row, before, batch_before))
                samples += [{**named, **figures, "completeness": 1.0} for figures in made if figures is not None]
    return pa.Table.from_pylist(samples, SCHEMA)


def order_triggers(rows: list[Row]) -> Iterator[tuple[Row, Row | None, int | None]]:
    """Every trigger of a run once, with the one before it, and the time of the batch before it."""
    once = {(row["batch"], row["time"]): row for row in rows}
    before: Row | None = None
    batch_before: int | None = None
    for row in sorted(
        once.values(), key=lambda row: [(row[name] is not None, row[name]) for name in ("time", "batch")]
    ):
        yield row, before, batch_before
        before = row
        batch_before = row["time"] if row["executed"] else batch_before


def describe_work(row: Row, several: bool, batch_before: int | None) -> Figures | None:
    """From the trigger to the batch's end; None where no batch ran."""
    if not row["executed"] or row["run_ms"] is None:
        return None
    seconds, records = row["run_ms"] / 1000, row["records"]
    waited = interval = None
    if batch_before is not None and not row["backlog"] and records is not None and records > 0:
        interval = (row["time"] - batch_before) / 1000
        waited = interval / 2 + seconds
    figures = {
        "start": row["time"] / 1000,
        "end": (row["time"] + max(row["run_ms"], 1)) / 1000,
        "key": name_trigger(row),
        "tuples_in": to_float(records),
        "backlog": to_float(row["backlog"]),
        "batches": 1.0,
        "batch_time": seconds,
    }
    if not several:
        figures |= {name: to_float(row[name]) for name in (*STATE_LEVELS, "store_loads")}
        figures |= {"tuples_out": to_float(row["written"]), "commit_time": to_seconds(row["commit_ms"])}
        figures |= {"store_load_time": to_seconds(row["store_load_ms"])}
    if waited is not None and interval is not None:
        figures |= {"response_n": float(records), "response_sum": records * waited}
        figures |= {"responses": write_span(seconds, interval + seconds, float(records))}
    return figures


def describe_arrivals(row: Row, before: Row | None, batch_before: int | None) -> Figures | None:
    """From the trigger before to this one; None of the first of a run."""
    if before is None or before["time"] is None or not before["time"] < row["time"]:
        return None
    known = row["latest"] is not None and before["latest"] is not None
    grown = row["latest"] - before["latest"] if known else None
    interval = (row["time"] - batch_before) / 1000 if row["executed"] and batch_before is not None else None
    return {
        "start": before["time"] / 1000,
        "end": row["time"] / 1000,
        "key": f"{name_trigger(row)}/arrivals/{row['time']}",
        "arrived": to_float(grown if grown is not None and grown >= 0 else row["records"]),
        "batch_interval": interval,
    }


def name_trigger(row: Row) -> str:
    return "/".join(str(row[name]) for name in ("run", "batch") if row[name] is not None)


def to_float(value: int | None) -> float | None:
    return None if value is None else float(value)


def to_seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def write_span(low: float, high: float, tuples: float) -> str:
    """The sketch of tuples whose response times lie evenly between two, as JSON."""
    sketch: Sketch = {}
    add_span(sketch, low, high, tuples)
    return json.dumps(sketch)
