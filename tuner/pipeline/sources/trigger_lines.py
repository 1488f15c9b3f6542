"""One StreamingQueryProgress document flows in; the facts of that trigger flow out as one event.

Offsets count tuples where they are Kafka's, {topic: {partition: number}}, and where a batch took as many rows as its
offset grew; others (a file source's log number, a rate source's seconds) say nothing of tuples and are left out.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from scaler.model.spark_progress import add, add_offsets, count, count_partitions, find_backlog
from tuner.pipeline.sources.task_lines import Damaged, part, whole

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


def read_time(value: object) -> int | None:
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def counts_tuples(source: dict[str, Any]) -> bool:
    if count_partitions(source):
        return True
    start, end = add_offsets(source.get("startOffset")), add_offsets(source.get("endOffset"))
    return start is not None and end is not None and end - start == source.get("numInputRows")


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
