"""Lines about executors and resource profiles flow in; the node type of each, and since and until when, flow out.

The node type is, of these, the first that there is:

    a resource of the executor or of its profile, named as scaler.timing has it (node_fast is "fast")
    the executor's attribute NODE_TYPE, set by SPARK_EXECUTOR_ATTRIBUTE_NODE_TYPE
    "profile N", of a profile that is not the default one
    None: not known
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from scaler.timing.stopwatch import NODE_RESOURCE
from tuner.pipeline.sources.task_lines import load, part, whole

ATTRIBUTE = "node_type"


def parse_executor(line: bytes) -> Iterator[dict[str, Any]]:
    event = load(line)
    info = part(event, "Executor Info")
    attributes = {str(name).lower(): value for name, value in part(info, "Attributes").items()}
    yield {
        "kind": "executor",
        "time": whole(event.get("Timestamp")),
        "executor": str(event.get("Executor ID")),
        "number": whole(info.get("Total Cores")),
        "profile": whole(info.get("Resource Profile Id")),
        "name": find_mark(part(info, "Resources")) or str(attributes.get(ATTRIBUTE) or "") or None,
    }


def parse_removed(line: bytes) -> Iterator[dict[str, Any]]:
    event = load(line)
    yield {
        "kind": "removed",
        "time": whole(event.get("Timestamp")),
        "executor": str(event.get("Executor ID")),
    }


def parse_profile(line: bytes) -> Iterator[dict[str, Any]]:
    event = load(line)
    cpus = part(part(event, "Task Resource Requests"), "cpus").get("Amount")
    yield {
        "kind": "profile",
        "profile": whole(event.get("Resource Profile Id")),
        "number": max(int(cpus), 1) if isinstance(cpus, int | float) and 0 < cpus < 1e6 else 1,
        "name": find_mark(part(event, "Executor Resource Requests")),
    }


def find_mark(resources: Iterable[str]) -> str | None:
    named = sorted(name.removeprefix(NODE_RESOURCE) for name in resources if name.startswith(NODE_RESOURCE))
    return named[0] if named and named[0] else None
