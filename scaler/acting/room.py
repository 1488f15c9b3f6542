"""Why one more executor could not come: Spark's own limits, and the room on a standalone master's workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from scaler.acting.profiles import Pinned
from scaler.link.http import ManagerConnection, read_address
from scaler.model.errors import BadInput, Retry
from scaler.timing import NODE_RESOURCE

TIMEOUT_S = 3.0


def find_limit(setting: Callable[[str, str], str], executors: int, cores: int, more: int) -> str | None:
    """`executors`: of this operator and type, with those to come. maxExecutors holds for each profile."""
    most = setting("spark.dynamicAllocation.maxExecutors", "")
    if most.isdecimal() and executors >= int(most):
        return f"spark.dynamicAllocation.maxExecutors is {most}"
    most = setting("spark.cores.max", "")
    if most.isdecimal() and cores + more > int(most):
        return f"spark.cores.max is {most}, and {cores} cores are taken"
    return None


def find_worker(page: str, pinned: Pinned, node_type: str, coming: int = 0, there: int = 0) -> str | None:
    """Ask the master; where it does not answer, nothing is known, and nothing stands against asking.

    `there`: the application's executors on this node type. `coming`: those that were asked for and are not there yet.
    There must be room for these besides, but for those that the master has launched, whose places it has taken. The
    page does not tell whose places are taken; what others have on the type is held to be launched, in doubt.
    """
    try:
        with closing(ManagerConnection(read_address(page), None)) as connection:
            workers = connection.request("GET", "/json/", timeout=TIMEOUT_S).document()["workers"]
        alive = [worker for worker in workers if worker["state"] == "ALIVE"]
        offering = [worker for worker in alive if NODE_RESOURCE + node_type in worker["resources"]]
        if not offering:
            return f"no worker of node type {node_type!r} is registered"
        launched = max(0, sum(count_taken(worker, node_type) for worker in offering) - there)
        waiting = max(0, coming - launched)
        if sum(count_places(worker, pinned, node_type) for worker in offering) <= waiting:
            for_those = f" beside the {waiting} to come" if waiting else ""
            need = f"{pinned.cores} core and {pinned.memory_mib} MiB free"
            return f"no worker of node type {node_type!r} has {need}{for_those}"
    except (BadInput, Retry, KeyError, TypeError, AttributeError):
        pass
    return None


def count_places(worker: Mapping[str, Any], pinned: Pinned, node_type: str) -> int:
    """How many more executors of this kind it has room for."""
    free = count_units(worker["resourcesfree"], node_type)
    return min(free, worker["coresfree"] // pinned.cores, worker["memoryfree"] // pinned.memory_mib)


def count_taken(worker: Mapping[str, Any], node_type: str) -> int:
    """Executors that hold a unit of the node type, whosever they are."""
    return count_units(worker["resources"], node_type) - count_units(worker["resourcesfree"], node_type)


def count_units(resources: Mapping[str, Any], node_type: str) -> int:
    return len(resources[NODE_RESOURCE + node_type]["addresses"])
