"""A pool of nodes in one region: what it costs and holds, what its policy sees, and why a request is refused.

A node has slots, one replica each. It is paid whether used or not, from the order on, and serves after its start-up.
Operators request replicas; a grant decides which requests of a slot are made (scaler/policies/grants), the nodes decide
whether there is room, and a pool policy orders and releases nodes (scaler/policies/pools).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scaler.model.errors import BadInput
from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers

GRANTED, NO_SLOT, CONFLICT, OVER_BUDGET = range(4)
REFUSALS = {
    NO_SLOT: "no node of the region has a free slot",
    CONFLICT: "another operator asked for the same slot first",
    OVER_BUDGET: "the budget of changes has no token",
}
VIEW_FIELDS = 8


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes of one kind in one place."""

    name: str
    slots: int  # of a node
    most_nodes: int
    first_nodes: int = 1
    start_slots: int = 1  # decision periods from the order to the first in which the node serves
    price: float = 1.0  # of a node per hour

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise BadInput(f"region {self.name!r}: a node has {self.slots} slots, and must have at least 1")
        if not 0 <= self.first_nodes <= self.most_nodes:
            raise BadInput(
                f"region {self.name!r} starts with {self.first_nodes} nodes, and must start with 0 to {self.most_nodes}"
            )
        if self.start_slots < 0:
            raise BadInput(f"region {self.name!r}: the start-up is {self.start_slots} slots, and must be 0 or more")
        if not 0.0 <= self.price < math.inf:
            raise BadInput(f"region {self.name!r}: the price of a node is {self.price}, and must be 0 or more")


class PoolView(NamedTuple):
    """What a pool policy sees of a slot, after the slot's requests were placed."""

    active: int  # nodes that take replicas
    starting: int  # ordered and not active yet
    empty: int  # active without a replica
    free: int  # slots of active nodes
    slots: int  # of a node
    most: int  # nodes
    utilisation: float  # mean of the replicas that served, each at most 1
    refused: int  # requests that found no slot


class Requests(NamedTuple):
    """What the operators of an application request in a slot, one entry an operator."""

    delta: Integers  # replicas: 1, -1 or 0
    node: Integers  # on which a new replica would be placed as things stand; -1 where there is none
    room: Integers  # free slots of that node
    wish: Integers  # what the change is to the slot (scaler/model/joint_changes.py)
    worth: Floats  # in units of the pause's price


@dataclass(frozen=True, slots=True)
class PoolStart:
    """What a pool policy's state is prepared from."""

    region: Region
    options: Mapping[str, Any] = field(default_factory=dict)


PoolDecide = Callable[[Any, PoolView], int]
PoolLearn = Callable[[Any, PoolView, int, PoolView], None]


@dataclass(frozen=True, slots=True)
class PoolKernel:
    """A pool policy as its file publishes it; `decide` is pure and returns nodes to order, or below 0 to release."""

    title: str
    prepare: Callable[[PoolStart], Any]
    decide: PoolDecide
    learn: PoolLearn
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GrantKernel:
    """A grant policy as its file publishes it; `grant` writes GRANTED or a reason for each request."""

    title: str
    prepare: Callable[[int, Mapping[str, Any]], Any]  # from the number of operators and its options
    grant: Callable[[Any, Requests, Integers], None]
    options: tuple[str, ...] = ()


class OperatorCount(NamedTuple):
    """State of a grant that remembers nothing from slot to slot."""

    operators: int


def count_operators(operators: int, options: Mapping[str, Any]) -> OperatorCount:
    return OperatorCount(operators)


@jit
def read_view(numbers: Floats) -> PoolView:
    """The view that `keep_view` wrote."""
    return PoolView(
        int(numbers[0]), int(numbers[1]), int(numbers[2]), int(numbers[3]), int(numbers[4]), int(numbers[5]),
        numbers[6], int(numbers[7]),
    )  # fmt: skip


@jit
def keep_view(view: PoolView, numbers: Floats) -> None:
    """Keep a view for the next slot."""
    numbers[0], numbers[1], numbers[2], numbers[3] = view.active, view.starting, view.empty, view.free
    numbers[4], numbers[5], numbers[6], numbers[7] = view.slots, view.most, view.utilisation, view.refused


@jit
def learn_no_pool(state: Any, before: PoolView, action: int, seen: PoolView) -> None:
    """A rule learns nothing."""
