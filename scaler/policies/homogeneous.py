"""Shared by the policies of one node type: its choice, the change to a parallelism, numeric options.

Variants are named by the node type: -C the cheapest, -S the fastest, -O the first of the table (the paper's three), -P
the one that carries the peak at the least price (ours). The rules of the literature set a parallelism at once, and so
do these; in a world of one replica a slot (`one_at_a_time`) the replay takes the first step. Only replicas of the
chosen type are added and removed: a first replica of another type stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.jit import jit
from scaler.model.kernel import Integers, Problem, action_of, rate_within
from scaler.model.policy import Decide, Kernel, Learn, Start, State
from scaler.model.task import Task

SLOT_COUNT_RANGE = (1, 100_000)  # of options that count slots
ROUNDING = 1e-9  # a product that is whole but for its last bits needs no further replica

NodeRule = Callable[[Start, int], State]  # prepare, with the index of the node type


def cheapest(task: Task) -> int:
    """-C: the lowest price; the first of equals."""
    return min(range(len(task.types)), key=lambda i: task.types[i].price)


def fastest(task: Task) -> int:
    """-S: the highest speedup; the first of equals."""
    return max(range(len(task.types)), key=lambda i: task.types[i].speedup)


def first(task: Task) -> int:
    """-O: the first type of the table."""
    return 0


def cheapest_at_peak(task: Task) -> int:
    """-P: the type whose replicas meet the bound at the highest rate for the least money, alone and within K.

    Where no type can, the one that comes nearest.
    """

    def price_to_carry(i: int) -> tuple[float, float]:
        node = task.types[i]
        each = rate_within(task, node.speedup)
        needed = math.ceil(task.highest_rate / each) if each > 0.0 else math.inf
        if needed > task.k_max:
            return math.inf, -each
        return needed * node.price, -each

    return min(range(len(task.types)), key=price_to_carry)


NODE_RULES: dict[str, Callable[[Task], int]] = {"C": cheapest, "S": fastest, "O": first, "P": cheapest_at_peak}


def by_node(title: str, prepare: NodeRule, decide: Decide, learn: Learn, **rest: Any) -> tuple[Kernel, ...]:
    """The kernels of one rule for each choice of the node type."""

    def on(letter: str, choose: Callable[[Task], int]) -> Kernel:
        def prepare_on(start: Start) -> State:
            return prepare(start, choose(start.task))

        return Kernel(f"{title}-{letter}", prepare_on, decide, learn, **rest)

    return tuple(on(letter, choose) for letter, choose in NODE_RULES.items())


def read_number(options: Mapping[str, Any], name: str, default: float, low: float, high: float) -> float:
    """The option of this name as a number in [low, high]."""
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadInput(f"option {name!r} is {value!r}, and must be a number from {low:g} to {high:g}")
    return float(value)


def read_count(options: Mapping[str, Any], name: str, default: int, low: int = SLOT_COUNT_RANGE[0]) -> int:
    """The option of this name as a whole number of slots, at least `low`."""
    value = read_number(options, name, default, low, SLOT_COUNT_RANGE[1])
    if value != int(value):
        raise BadInput(f"option {name!r} is {value:g}, and must be a whole number")
    return int(value)


@jit
def whole(p: Problem, exact: float) -> int:
    """The fewest replicas within the limits that are no less than this; K for what is no number."""
    if not exact < p.k_max:
        return p.k_max
    return max(p.k_min, math.ceil(exact - ROUNDING))


@jit
def is_underway(course: Integers, action: int, count: int) -> bool:
    """Whether the parallelism headed for is still ahead; one that is reached, or towards which nothing was done, ends.

    A change is whole in one step, but where replicas come one a slot, or fewer than were ordered.
    """
    if action == 0 or course[0] == count:
        course[0] = 0
    return course[0] != 0


@jit
def scale_to(p: Problem, k: Integers, count: int, kind: int, wanted: int) -> int:
    """The action that brings the parallelism to `wanted` by replicas of one type, as near as their number permits."""
    target = min(max(wanted, p.k_min), p.k_max)
    return action_of(p, k, kind, max(target - count, -k[kind]))
