"""Which node type a homogeneous policy adds and removes: a task in, the index of a type out."""

from __future__ import annotations

import math
from collections.abc import Callable

from scaler.problem import Task
from scaler.queueing import mg1_rate_within


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


CHOICES: dict[str, Callable[[Task], int]] = {"cheapest": cheapest, "fastest": fastest, "optimal": optimal}
