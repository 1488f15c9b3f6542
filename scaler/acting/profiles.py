"""Resource profiles that pin an operator's stage to its executors, one profile for each node type.

    count = pin(spark, "count", ["small", "large"])
    frame.mapInPandas(work, schema, profile=count.profile)      # the stage of this operator, whatever it runs on

Workers of a type offer the resource `node_<type>`; each (operator, node type) has a profile whose executors ask for
one. Spark pins a stage to a single profile, so a mixed operator's stage has that of its first type, and executors of
the others are handed over to it once they have registered (see `Gateway.hand_over`): tasks ask for cores alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scaler.acting.gateway import Gateway
from scaler.model.errors import BadInput
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
    """New profiles for an operator that may run on these node types, one or several."""
    gateway = Gateway(spark)
    check_types(operator, node_types)
    amounts: dict[str, int | str] = {"cores": cores, "memory": memory}
    made = {name: gateway.add_profile(amounts, NODE_RESOURCE + name, {"cpus": cores}) for name in node_types}
    return wrap_up(gateway, operator, gateway.wrap_profile(made[node_types[0]]), made)


def join(spark: Any, operator: str, profile: Any, node_types: Sequence[str]) -> Pinned:
    """The same for a stage that is pinned to a profile of the user's own, whose executors are one of these types."""
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
    """What the executors of a profile have, but for the node type."""
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
