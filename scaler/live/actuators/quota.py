"""Spark's limits and a standalone master's page flow in; why one more executor could not come flows out, if so."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.request import ProxyHandler, build_opener

from scaler.live.actuators.profiles import Pinned
from scaler.timing import NODE_RESOURCE

LARGEST = 4 << 20  # bytes of the page


def find_limit(setting: Callable[[str, str], str], executors: int, cores: int, more: int) -> str | None:
    """`executors`: of this operator and type. Spark holds maxExecutors for each profile, and so do we."""
    most = setting("spark.dynamicAllocation.maxExecutors", "")
    if most.isdecimal() and executors >= int(most):
        return f"spark.dynamicAllocation.maxExecutors is {most}"
    most = setting("spark.cores.max", "")
    if most.isdecimal() and cores + more > int(most):
        return f"spark.cores.max is {most}, and {cores} cores are taken"
    return None


def find_worker(page: str, pinned: Pinned, node_type: str) -> str | None:
    """Ask the master; where it does not answer, nothing is known, and nothing stands against asking."""
    try:
        with build_opener(ProxyHandler({})).open(page.rstrip("/") + "/json/", timeout=3.0) as answer:
            workers = json.loads(answer.read(LARGEST))["workers"]
        alive = [worker for worker in workers if worker["state"] == "ALIVE"]
        offering = [worker for worker in alive if NODE_RESOURCE + node_type in worker["resources"]]
        if not offering:
            return f"no worker of node type {node_type!r} is registered"
        if not any(has_room(worker, pinned, node_type) for worker in offering):
            return f"no worker of node type {node_type!r} has {pinned.cores} core and {pinned.memory_mib} MiB free"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def has_room(worker: Mapping[str, Any], pinned: Pinned, node_type: str) -> bool:
    free = worker["resourcesfree"][NODE_RESOURCE + node_type]["addresses"]
    return bool(free) and worker["coresfree"] >= pinned.cores and worker["memoryfree"] >= pinned.memory_mib
