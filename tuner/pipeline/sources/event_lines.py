"""Parse lines of an event log, other than tasks' ends, to events.

Stages of a job: the operator's are those with a resource profile of their own, for their executors are its replicas;
where a job has none, all of its stages. Among these, tuples come in at stages whose parents are not the operator's
(entry) and go out at stages that are nobody's parent there (leaving). Tasks of other stages are not the operator's
work. A query whose jobs have two profiles of their own or more is several operators, one a profile, named
query/profileN; `number` is how many the job has.

The node type of an executor is, of these, the first that there is:

    a resource of the executor or of its profile, named as scaler.timing has it (node_fast is "fast")
    the executor's attribute NODE_TYPE, set by SPARK_EXECUTOR_ATTRIBUTE_NODE_TYPE
    "profile N", of a profile that is not the default one
    None: not known

The numbers of progress are those of `scaler.model.spark_progress`, which drivers read, too; only the places that a
query reads and writes are added, by which operators are linked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from scaler.model.spark_progress import StateReport, read_object, read_progress, read_time
from scaler.timing.stopwatch import name_node_type
from tuner.pipeline.sources.task_lines import DamagedLine, load, part, read_task, whole

IDENTITY = re.compile(
    r"(?:(?P<name>.*)\n)?id = (?P<query>[0-9a-fA-F-]{36})\nrunId = (?P<run>[0-9a-fA-F-]{36})\n", re.DOTALL
)
STREAMING_MARKS = (b"sql.streaming.queryId", b"\\nrunId = ")
Parse = Callable[[bytes], Iterable[dict[str, Any]]]
Stage = tuple[int, tuple[int, ...], int]  # id, parents, resource profile


def parse_job(line: bytes) -> Iterator[dict[str, Any]]:
    """An event a stage; none where the job is not a streaming query's."""
    if not any(mark in line for mark in STREAMING_MARKS):
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
        "name": (described and described["name"]) or None,  # Spark 4 leaves the line empty where there is no name
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
    """The stages that are the operator's, or the operators', as stated above."""
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


NODE_TYPE_ATTRIBUTE = "node_type"


def read_executor(event: dict[str, Any]) -> dict[str, Any]:
    info = part(event, "Executor Info")
    attributes = {str(name).lower(): value for name, value in part(info, "Attributes").items()}
    return {
        "kind": "executor",
        "time": whole(event.get("Timestamp")),
        "executor": str(event.get("Executor ID")),
        "number": whole(info.get("Total Cores")),
        "profile": whole(info.get("Resource Profile Id")),
        "name": name_node_type(part(info, "Resources")) or str(attributes.get(NODE_TYPE_ATTRIBUTE) or "") or None,
    }


def read_removed(event: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "removed",
        "time": whole(event.get("Timestamp")),
        "executor": str(event.get("Executor ID")),
    }


def read_profile(event: dict[str, Any]) -> dict[str, Any]:
    cpus = part(part(event, "Task Resource Requests"), "cpus").get("Amount")
    return {
        "kind": "profile",
        "profile": whole(event.get("Resource Profile Id")),
        "number": max(int(cpus), 1) if isinstance(cpus, int | float) and 0 < cpus < 1e6 else 1,
        "name": name_node_type(part(event, "Executor Resource Requests")),
    }


BRACKETS = re.compile(r"^\w*(?P<kind>File|Delta|Kafka|Iceberg)\w*\[(?:Subscribe\w*\[)?(?P<inner>[^\[\]]+)\]*$")


def read_trigger(document: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a progress document to the fields of a `LogEvent`; times in ms since 1970."""
    trigger = read_progress(document)
    if trigger is None:
        raise DamagedLine("no progress of a query")
    listed = document.get("sources")
    sources = [source for source in listed if isinstance(source, Mapping)] if isinstance(listed, list) else []
    state = trigger.state or StateReport()
    return {
        "kind": "progress",
        "query": trigger.query,
        "run": trigger.run,
        "batch": trigger.batch,
        "name": trigger.name,
        "time": round(trigger.time * 1000),
        "run_ms": to_ms(trigger.duration),
        "records": trigger.rows,
        "written": trigger.written,
        "executed": trigger.executed,
        "latest": trigger.latest,
        "backlog": trigger.backlog,
        "state_rows": state.rows,
        "state_bytes": state.bytes,
        "state_partitions": state.partitions,
        "commit_ms": to_ms(state.commit_s),
        "store_loads": state.loads,
        "store_load_ms": to_ms(state.load_s),
        "reads": sorted({place for source in sources for place in find_places(source.get("description"))}),
        "writes": next(iter(find_places(read_object(document, "sink").get("description"))), None),
    }


def to_ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


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


def read_start(event: dict[str, Any]) -> dict[str, Any]:
    attempt = event.get("App Attempt ID")
    identity = "_".join(str(value) for value in (event.get("App ID"), attempt) if value)
    return {
        "kind": "application",
        "time": whole(event.get("Timestamp")),
        "name": str(event["App Name"]) if event.get("App Name") else None,
        "run": identity or None,
    }


def read_query(event: dict[str, Any]) -> dict[str, Any]:
    name, time = event.get("name"), read_time(event.get("timestamp"))
    return {
        "kind": "query",
        "query": str(event.get("id")),
        "run": str(event.get("runId")),
        "time": None if time is None else round(time * 1000),
        "name": name if isinstance(name, str) and name else None,
    }


def single(read: Callable[[dict[str, Any]], dict[str, Any]]) -> Parse:
    """Parse a line of JSON to the one event that it is."""
    return lambda line: (read(load(line)),)


QUERY_EVENTS = b"org.apache.spark.sql.streaming.StreamingQueryListener$"
EVENTS: dict[bytes, Parse] = {
    b"SparkListenerTaskEnd": single(read_task),
    b"SparkListenerJobStart": parse_job,
    b"SparkListenerExecutorAdded": single(read_executor),
    b"SparkListenerExecutorRemoved": single(read_removed),
    b"SparkListenerResourceProfileAdded": single(read_profile),
    b"SparkListenerApplicationStart": single(read_start),
    b"SparkListenerApplicationEnd": single(lambda event: {"kind": "end", "time": whole(event.get("Timestamp"))}),
    QUERY_EVENTS + b"QueryStartedEvent": single(read_query),
    QUERY_EVENTS + b"QueryProgressEvent": single(lambda event: read_trigger(part(event, "progress"))),
}
