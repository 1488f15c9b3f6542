"""Resource profiles that pin an operator's stage to its executors, one profile for each node type.

    count = pin(spark, "count", ["small", "large"])
    frame.mapInPandas(work, schema, profile=count.profile)      # the stage of this operator, whatever it runs on

Workers of a type offer the resource `node_<type>`; each (operator, node type) has a profile whose executors ask for
one. Spark pins a stage to a single profile, so a mixed operator's stage has that of its first type, and executors of
the others are handed over to it once they have registered (see `Gateway.hand_over`): tasks ask for cores alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from scaler.acting.gateway import Gateway
from scaler.link.http import ManagerConnection, read_address
from scaler.model.errors import BadInput, Retry
from scaler.timing import NODE_RESOURCE

# What PySpark calls an amount of an executor, the method of Spark's builder that sets it, and its unit.
AMOUNTS = {
    "cores": ("cores", ""),
    "memory": ("memory", "m"),
    "memoryOverhead": ("memoryOverhead", "m"),
    "pyspark.memory": ("pysparkMemory", "m"),
    "offHeap": ("offHeapMemory", "m"),
}


@dataclass(frozen=True, slots=True)
class Pinned:
    """An operator, the profile that its stage is pinned to, and that of its executors by node type (by number)."""

    operator: str
    stage: int
    types: Mapping[str, int]
    cores: int = 1
    memory_mib: int = 512
    profile: Any = field(default=None, compare=False, repr=False)  # pyspark's, to be given to the stage


def pin(spark: Any, operator: str, node_types: Sequence[str], cores: int = 1, memory: str = "512m") -> Pinned:
    """Make a resource profile for each node type that an operator may run on."""
    gateway = Gateway(spark)
    check_types(operator, node_types)
    amounts: dict[str, int | str] = {"cores": cores, "memory": memory}
    made = {name: gateway.add_profile(amounts, NODE_RESOURCE + name, {"cpus": cores}) for name in node_types}
    return wrap_up(gateway, operator, gateway.wrap_profile(made[node_types[0]]), made)


def join(spark: Any, operator: str, profile: Any, node_types: Sequence[str]) -> Pinned:
    """Pin an operator whose stage has a profile of the user's own, with executors of one of these types."""
    gateway = Gateway(spark)
    check_types(operator, node_types)
    own = [name[len(NODE_RESOURCE) :] for name in profile.executorResources if name.startswith(NODE_RESOURCE)]
    if len(own) != 1 or own[0] not in node_types:
        wanted = " or ".join(NODE_RESOURCE + name for name in node_types)
        raise BadInput(f"operator {operator!r}: its profile's executors must ask for {wanted}, and ask for {own}")
    tied = [name for name in profile.taskResources if name.startswith(NODE_RESOURCE)]
    if tied and len(node_types) > 1:
        raise BadInput(f"operator {operator!r} is on mixed types, but its profile's tasks ask for {tied[0]}; drop that")
    amounts = copy_amounts(operator, profile)
    tasks = {name: request.amount for name, request in profile.taskResources.items()}
    made = {own[0]: profile._java_resource_profile}
    gateway.register(made[own[0]])
    for name in node_types:
        if name != own[0]:
            made[name] = gateway.add_profile(amounts, NODE_RESOURCE + name, tasks)
    return wrap_up(gateway, operator, profile, made)


def check_types(operator: str, node_types: Sequence[str]) -> None:
    if not node_types or len(set(node_types)) != len(node_types):
        raise BadInput(f"operator {operator!r}: name each of its node types once, and one at least")


def copy_amounts(operator: str, profile: Any) -> dict[str, int | str]:
    """The amounts of a profile's executors, without the node type."""
    amounts: dict[str, int | str] = {}
    for name, request in profile.executorResources.items():
        if name in AMOUNTS:
            method, unit = AMOUNTS[name]
            amounts[method] = f"{request.amount}{unit}" if unit else int(request.amount)
        elif not name.startswith(NODE_RESOURCE):
            raise BadInput(f"operator {operator!r}: its profile asks for {name!r}, which other node types may not have")
    return amounts


def wrap_up(gateway: Gateway, operator: str, profile: Any, made: Mapping[str, Any]) -> Pinned:
    with gateway.guarded("read a resource profile"):
        numbers = {name: int(one.id()) for name, one in made.items()}
        has = profile.executorResources
        cores = int(has["cores"].amount) if "cores" in has else 1
        memory = int(has["memory"].amount) if "memory" in has else 1024
        return Pinned(operator, int(profile.id), numbers, cores, memory, profile)


TIMEOUT_S = 3.0


def find_limit(
    setting: Callable[[str, str], str], executors: int, cores: int, each: int, more: int = 1
) -> tuple[int, str]:
    """How many more Spark's own limits allow, and the limit where that is not all.

    `executors` of this operator and type, pending ones included; `each`: cores of one.
    """
    free, why = more, ""
    most = setting("spark.dynamicAllocation.maxExecutors", "")
    if most.isdecimal() and executors + free > int(most):
        free, why = max(0, int(most) - executors), f"spark.dynamicAllocation.maxExecutors is {most}"
    most = setting("spark.cores.max", "")
    if most.isdecimal() and cores + free * each > int(most):
        free = max(0, (int(most) - cores) // each)
        why = f"spark.cores.max is {most}, and {cores} cores are taken"
    return free, why


def find_worker(
    page: str, pinned: Pinned, node_type: str, coming: int = 0, there: int = 0, more: int = 1
) -> tuple[int, str]:
    """How many more the workers have room for, by the master's page, and why not for all; all if it does not answer.

    `there`: the application's executors on this node type. `coming`: those pending, which need room besides, unless the
    master has launched them. The page does not list whose executors they are: others' on the type count as launched.
    """
    try:
        with closing(ManagerConnection(read_address(page), None)) as connection:
            workers = connection.request("GET", "/json/", timeout=TIMEOUT_S).document()["workers"]
        alive = [worker for worker in workers if worker["state"] == "ALIVE"]
        offering = [worker for worker in alive if NODE_RESOURCE + node_type in worker["resources"]]
        if not offering:
            return 0, f"no worker of node type {node_type!r} is registered"
        taken = [count_units(w["resources"], node_type) - count_units(w["resourcesfree"], node_type) for w in offering]
        launched = max(0, sum(taken) - there)
        waiting = max(0, coming - launched)
        free = sum(count_places(worker, pinned, node_type) for worker in offering) - waiting
        if free < more:
            for_those = f" beside the {waiting} to come" if waiting else ""
            need = f"{pinned.cores} core and {pinned.memory_mib} MiB free"
            if free <= 0:
                return 0, f"no worker of node type {node_type!r} has {need}{for_those}"
            return free, f"workers of node type {node_type!r} have {need} for {free} of {more}{for_those}"
    except (BadInput, Retry, KeyError, TypeError, AttributeError):
        pass
    return more, ""


def count_places(worker: Mapping[str, Any], pinned: Pinned, node_type: str) -> int:
    """Places for more executors of this kind on a worker."""
    free = count_units(worker["resourcesfree"], node_type)
    return min(free, worker["coresfree"] // pinned.cores, worker["memoryfree"] // pinned.memory_mib)


def count_units(resources: Mapping[str, Any], node_type: str) -> int:
    return len(resources[NODE_RESOURCE + node_type]["addresses"])
