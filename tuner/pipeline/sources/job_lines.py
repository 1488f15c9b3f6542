"""The line of a started job flows in; a stage of a streaming query an event each flows out.

Which stages are the operator's: those with a resource profile of their own, for their executors are its replicas; where
a job has none, all of its stages. Among these, tuples come in at stages whose parents are not the operator's (entry)
and go out at stages that are nobody's parent there (leaving). Tasks of other stages are not the operator's work.

A query whose jobs have two profiles of their own or more is several operators, one a profile, named query/profileN;
`number` says how many the job has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tuner.pipeline.sources.task_lines import load, part, whole

PREFIX = b'{"Event":"SparkListenerJobStart"'
IDENTITY = re.compile(
    r"(?:(?P<name>.*)\n)?id = (?P<query>[0-9a-fA-F-]{36})\nrunId = (?P<run>[0-9a-fA-F-]{36})\n", re.DOTALL
)
STREAMING = (b"sql.streaming.queryId", b"\\nrunId = ")
Stage = tuple[int, tuple[int, ...], int]  # id, parents, resource profile


def parse_job(line: bytes) -> Iterator[dict[str, Any]]:
    """An event a stage; none where the job is not a streaming query's."""
    if not any(mark in line for mark in STREAMING):
        return
    event = load(line)
    properties = part(event, "Properties")
    described = IDENTITY.match(str(properties.get("spark.job.description")))
    query = properties.get("sql.streaming.queryId") or (described and described["query"])
    if not query:
        return
    common = {
        "kind": "stage",
        "time": whole(event.get("Submission Time")),
        "query": str(query),
        "run": (described and described["run"]) or properties.get("spark.jobGroup.id"),
        "batch": whole(properties.get("streaming.sql.batchId")),
        "name": described and described["name"],
    }
    yield from (common | stage for stage in mark_stages(find_stages(event)))


def find_stages(event: dict[str, Any]) -> list[Stage]:
    infos, ids = event.get("Stage Infos"), event.get("Stage IDs")
    if isinstance(infos, list) and infos:
        stages = [read_stage(info) for info in infos if isinstance(info, dict)]
    else:
        stages = [(whole(number), (), 0) for number in ids] if isinstance(ids, list) else []
    return [(number, parents, profile) for number, parents, profile in stages if number is not None]


def read_stage(info: dict[str, Any]) -> tuple[int | None, tuple[int, ...], int]:
    listed = info.get("Parent IDs")
    parents = [whole(parent) for parent in listed] if isinstance(listed, list) else []
    profile = whole(info.get("Resource Profile Id")) or 0
    return whole(info.get("Stage ID")), tuple(parent for parent in parents if parent is not None), profile


def mark_stages(stages: list[Stage]) -> Iterator[dict[str, Any]]:
    """The stages that are the operator's, or the operators'; see above."""
    own = {profile for _, _, profile in stages if profile}
    for number, parents, profile in stages:
        if len(own) == 1 and not profile:
            continue
        inside = {other for other, _, its in stages if its == profile} if own else {other for other, _, _ in stages}
        yield {
            "stage": number,
            "profile": profile,
            "number": len(own),
            "entry": inside.isdisjoint(parents),
            "reads": sorted({f"profile{its}" for other, _, its in stages if other in parents and its != profile}),
            "leaving": not any(number in others for other, others, _ in stages if other in inside),
        }
