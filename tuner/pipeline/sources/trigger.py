"""One StreamingQueryProgress document flows in; the facts of that trigger flow out as one event.

Offsets count tuples where they are Kafka's, {topic: {partition: number}}, and where a batch took as many rows as its
offset grew; others (a file source's log number, a rate source's seconds) say nothing of tuples and are left out.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from tuner.pipeline.sources.task_end import Damaged, part, whole

BRACKETS = re.compile(r"^\w*(?P<kind>File|Delta|Kafka|Iceberg)\w*\[(?:Subscribe\w*\[)?(?P<inner>[^\[\]]+)\]*$")


def read_trigger(document: dict[str, Any]) -> dict[str, Any]:
    query, run, batch = document.get("id"), document.get("runId"), whole(document.get("batchId"))
    time = read_time(document.get("timestamp"))
    if not isinstance(query, str) or not isinstance(run, str) or batch is None or time is None:
        raise Damaged("no progress of a query")
    listed = document.get("sources")
    sources = [source for source in listed if isinstance(source, dict)] if isinstance(listed, list) else []
    durations = part(document, "durationMs")
    rows = add([count(source.get("numInputRows")) for source in sources] or [count(document.get("numInputRows"))])
    took = (document.get("batchDuration"), durations.get("triggerExecution"), durations.get("addBatch"))
    sink = part(document, "sink")
    latest = add([add_offsets(source.get("latestOffset")) if counts_tuples(source) else None for source in sources])
    ended = add([add_offsets(source.get("endOffset")) for source in sources])
    name = document.get("name")
    return {
        "kind": "progress",
        "query": query,
        "run": run,
        "batch": batch,
        "name": name if isinstance(name, str) and name else None,
        "time": time,
        "run_ms": next((ms for ms in map(count, took) if ms is not None), None),
        "records": rows,
        "written": count(sink.get("numOutputRows")),
        "executed": "addBatch" in durations or bool(rows),
        "latest": latest,
        "backlog": find_backlog(sources) if latest is None or ended is None else max(latest - ended, 0),
        "reads": sorted({place for source in sources for place in find_places(source.get("description"))}),
        "writes": next(iter(find_places(sink.get("description"))), None),
    }


def count(value: object) -> int | None:
    """A number of things; Spark's -1 is "not known"."""
    number = whole(value)
    return None if number is None or number < 0 else number


def add(values: list[int | None]) -> int | None:
    """Their sum; None where there is none or one is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def read_time(value: object) -> int | None:
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def read_offsets(value: object) -> object:
    """An event log holds them as text, progress.json as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def counts_tuples(source: dict[str, Any]) -> bool:
    if count_partitions(source):
        return True
    start, end = add_offsets(source.get("startOffset")), add_offsets(source.get("endOffset"))
    return start is not None and end is not None and end - start == source.get("numInputRows")


def count_partitions(source: dict[str, Any]) -> int:
    """How many partitions offsets of Kafka's form name."""
    offsets = read_offsets(source.get("endOffset"))
    if not isinstance(offsets, dict) or not all(isinstance(inner, dict) for inner in offsets.values()):
        return 0
    numbers = [whole(number) for inner in offsets.values() for number in inner.values()]
    return 0 if None in numbers else len(numbers)


def add_offsets(value: object) -> int | None:
    """The sum of a number, or of those in an object or in the objects in it; None where anything else is in it."""
    offsets = read_offsets(value)
    if not isinstance(offsets, dict):
        return whole(offsets)
    return add(
        [whole(n) for inner in offsets.values() for n in (inner.values() if isinstance(inner, dict) else [inner])]
    )


def find_backlog(sources: list[dict[str, Any]]) -> int | None:
    """From what sources measure of themselves: Kafka's mean lag a partition, or the largest as the least it can be."""
    lags = []
    for source in sources:
        metrics = part(source, "metrics")
        partitions = count_partitions(source)
        mean, largest = number(metrics.get("avgOffsetsBehindLatest")), number(metrics.get("maxOffsetsBehindLatest"))
        lags.append(
            round(mean * partitions) if mean is not None and partitions else None if largest is None else round(largest)
        )
    return add(lags)


def number(value: object) -> float | None:
    try:
        found = float(value)  # type: ignore[arg-type]  # connectors write them as text
    except (TypeError, ValueError):
        return None
    return found if 0.0 <= found < 1e18 else None


def find_places(description: object) -> list[str]:
    """Where a source or a sink is, so that one query's sink is recognised as another's source: path or topic."""
    return read_places(description) if isinstance(description, str) else []


@lru_cache(maxsize=1000)  # every batch says the same
def read_places(description: str) -> list[str]:
    found = BRACKETS.match(description)
    if found is None:
        return []
    if found["kind"] == "Kafka":
        return [f"kafka:{topic.strip()}" for topic in found["inner"].split(",")]
    path = re.sub(r"^file:/*", "/", found["inner"]).rstrip("/")
    return [f"path:{path}"]
