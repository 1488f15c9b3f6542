"""Node types and how many replicas of each an operator has."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.model.errors import BadInput


@dataclass(frozen=True, slots=True)
class NodeType:
    """A class of worker: how fast it runs a tuple against the reference node, and its price per hour."""

    name: str
    speedup: float
    price: float

    def __post_init__(self) -> None:
        for field in ("speedup", "price"):
            value = getattr(self, field)
            if not value > 0.0 or value == float("inf"):
                raise BadInput(f"node type {self.name!r}: {field} is {value}, and must be a positive number")


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
        replicas[change.node_type] += change.delta
        return Deployment(tuple(replicas))


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """Nothing (delta 0), or one replica more or less of the node type with this index."""

    delta: int = 0
    node_type: int = 0

    def code(self, types: int) -> int:
        """The number by which kernels know it: 0, then one less of each type, then one more of each."""
        if self.delta == 0:
            return 0
        return self.node_type + 1 + (types if self.delta > 0 else 0)


NOTHING = Reconfiguration()


def decode(code: int, types: int) -> Reconfiguration:
    """The reconfiguration that a kernel's number stands for."""
    if code == 0:
        return NOTHING
    return Reconfiguration(1, code - 1 - types) if code > types else Reconfiguration(-1, code - 1)
