"""Choose the node type of a homogeneous policy: its -C (cheapest), -S (fastest) and -O (optimal) variants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from scaler.model.policy import Decide, Kernel, Learn, State
from scaler.model.queueing import mg1_rate_within
from scaler.model.task import Task


def cheapest(task: Task) -> int:
    """-C: the lowest price; the first of equals."""
    return min(range(len(task.types)), key=lambda i: task.types[i].price)


def fastest(task: Task) -> int:
    """-S: the highest speedup; the first of equals."""
    return max(range(len(task.types)), key=lambda i: task.types[i].speedup)


def optimal(task: Task) -> int:
    """-O: the type whose replicas meet the bound at the highest rate for the least money, alone and within K.

    Where no type can, the one that comes nearest.
    """

    def price_to_carry(i: int) -> tuple[float, float]:
        node = task.types[i]
        each = mg1_rate_within(task.bound, task.moments.mean, task.moments.variance, node.speedup)
        needed = math.ceil(task.highest_rate / each) if each > 0.0 else math.inf
        if needed > task.k_max:
            return math.inf, -each
        return needed * node.price, -each

    return min(range(len(task.types)), key=price_to_carry)


NodeRule = Callable[[Task, Task, int, Mapping[str, Any], int], State]  # prepare, with the index of the node type


def by_node(title: str, prepare: NodeRule, decide: Decide, learn: Learn, **rest: Any) -> tuple[Kernel, Kernel, Kernel]:
    """The kernels of one rule on the cheapest, the fastest and the optimal node type."""

    def on(letter: str, choose: Callable[[Task], int]) -> Kernel:
        def prepare_on(task: Task, model: Task, seed: int, options: Mapping[str, Any]) -> State:
            return prepare(task, model, seed, options, choose(task))

        return Kernel(f"{title}-{letter}", prepare_on, decide, learn, **rest)

    return on("C", cheapest), on("S", fastest), on("O", optimal)
