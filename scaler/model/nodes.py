"""Node types and how many replicas of each an operator has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scaler.model.errors import BadInput


@dataclass(frozen=True, slots=True)
class Supply:
    """How many replicas of a node type there are, how often one is taken away, and how long one takes to start."""

    capacity: int | None = None  # of all operators together; None: without end
    lost_per_hour: float = 0.0  # times per hour that a replica is taken away, as spot nodes are
    start_s: tuple[float, ...] = ()  # equally likely seconds of start-up; empty: as the run says

    def __post_init__(self) -> None:
        if self.capacity is not None and self.capacity < 1:
            raise BadInput(f"the capacity is {self.capacity}, and must be at least 1; leave it out where it has no end")
        if not 0.0 <= self.lost_per_hour < math.inf:
            raise BadInput(f"lost_per_hour is {self.lost_per_hour}, and must be 0 or more")
        if not all(0.0 <= seconds < math.inf for seconds in self.start_s):
            raise BadInput(f"start_s is {list(self.start_s)}, and must be seconds, 0 or more")

    def to_json(self) -> dict[str, Any]:
        """What is stated of it."""
        stated = {"capacity": self.capacity, "lost_per_hour": self.lost_per_hour, "start_s": list(self.start_s)}
        return {name: value for name, value in stated.items() if value}


ENDLESS = Supply()


@dataclass(frozen=True, slots=True)
class NodeType:
    """A class of worker: how fast it runs a tuple against the reference node, and its price per hour."""

    name: str
    speedup: float
    price: float
    supply: Supply = field(default=ENDLESS)

    def __post_init__(self) -> None:
        for name in ("speedup", "price"):
            value = getattr(self, name)
            if not value > 0.0 or value == math.inf:
                raise BadInput(f"node type {self.name!r}: {name} is {value}, and must be a positive number")

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "speedup": self.speedup, "price": self.price} | self.supply.to_json()


ONE_TYPE = NodeType("executor", 1.0, 1.0)  # of a cluster whose executors are alike, where nobody names any


def parse_node_type(document: Mapping[str, Any]) -> NodeType:
    """The node type of a document; KeyError, TypeError or ValueError where it holds none."""
    capacity = document.get("capacity")
    supply = Supply(
        capacity=None if capacity is None else int(capacity),
        lost_per_hour=float(document.get("lost_per_hour", 0.0)),
        start_s=tuple(map(float, document.get("start_s", ()))),
    )
    return NodeType(str(document["name"]), float(document["speedup"]), float(document["price"]), supply)


@dataclass(frozen=True, slots=True)
class Deployment:
    """Replicas per node type, in the order of the infrastructure."""

    replicas: tuple[int, ...]

    @property
    def parallelism(self) -> int:
        return sum(self.replicas)

    def after(self, change: Reconfiguration) -> Deployment:
        """The deployment once the change has been made."""
        replicas = list(self.replicas)
        for node_type, delta in change.changes:
            replicas[node_type] += delta
        return Deployment(tuple(replicas))


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """Replicas to add, or to remove (below 0), by index of the node type, in one step; empty: nothing."""

    changes: tuple[tuple[int, int], ...] = ()  # (node type, replicas), ascending by type, none of 0 replicas

    @property
    def added(self) -> int:
        return sum(delta for _, delta in self.changes if delta > 0)

    @property
    def removed(self) -> int:
        return -sum(delta for _, delta in self.changes if delta < 0)

    @property
    def net(self) -> int:
        """Replicas more (or less, below 0) than before."""
        return self.added - self.removed


NOTHING = Reconfiguration()


def scale(node_type: int, delta: int) -> Reconfiguration:
    """The change of one node type."""
    return Reconfiguration(((node_type, delta),)) if delta else NOTHING


def difference(before: Sequence[int], after: Sequence[int]) -> Reconfiguration:
    """The change that leads from these replicas by node type to those."""
    steps = (b - a for a, b in zip(before, after, strict=True))
    return Reconfiguration(tuple((i, int(delta)) for i, delta in enumerate(steps) if delta))
