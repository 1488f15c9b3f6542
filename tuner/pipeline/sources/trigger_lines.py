"""Convert StreamingQueryProgress documents of event logs and files to events of kind "progress".

The numbers are those of `scaler.model.spark_progress`, which the driver reads, too; only the places that a query reads
and writes are added, by which operators are linked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from scaler.model.spark_progress import read_object, read_progress
from tuner.pipeline.sources.task_lines import DamagedLine

BRACKETS = re.compile(r"^\w*(?P<kind>File|Delta|Kafka|Iceberg)\w*\[(?:Subscribe\w*\[)?(?P<inner>[^\[\]]+)\]*$")


def read_trigger(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an `Event`; times in ms since 1970."""
    trigger = read_progress(document)
    if trigger is None:
        raise DamagedLine("no progress of a query")
    listed = document.get("sources")
    sources = [source for source in listed if isinstance(source, Mapping)] if isinstance(listed, list) else []
    return {
        "kind": "progress",
        "query": trigger.query,
        "run": trigger.run,
        "batch": trigger.batch,
        "name": trigger.name,
        "time": round(trigger.time * 1000),
        "run_ms": None if trigger.duration is None else round(trigger.duration * 1000),
        "records": trigger.rows,
        "written": trigger.written,
        "executed": trigger.executed,
        "latest": trigger.latest,
        "backlog": trigger.backlog,
        "reads": sorted({place for source in sources for place in find_places(source.get("description"))}),
        "writes": next(iter(find_places(read_object(document, "sink").get("description"))), None),
    }


def find_places(description: object) -> list[str]:
    """Paths or topics of a source or sink, so that one query's sink is recognised as another's source."""
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
