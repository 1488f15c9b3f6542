"""Clairvoyant floor of a setting that changes on the way: one bound from each change to the end.

The clairvoyant's own backward pass, carried from the last stretch to the first. A state of its graph stands for the
same deployments under every task here, because it names types by their rank in speed: prices and service times may
change, speeds may not. So what encloses the optimum from below in each world does so across them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.kernel import Floats, lay_out
from scaler.model.task import Task
from sim.compiler import compile_kernel
from sim.floors.clairvoyant import Bound, affordable_depth, count_states, relaxation, sweep

EDGES_PER_SECOND = 4e8  # of the compiled pass, roughly


class Stretch(NamedTuple):
    """Slots in a row under one task."""

    task: Task
    rates: Floats


def floors(stretches: Sequence[Stretch], depth: int | None = None) -> list[Bound]:
    """The least average slot cost from the start of each stretch to the end of the last.

    The first begins as an operator does; from a later one the clairvoyant goes on from whichever deployment is best.
    """
    first = stretches[0].task
    if any(unlike(first, stretch.task) for stretch in stretches):
        raise BadInput("the floor of a world that changes needs the same node speeds and K_max throughout")
    depth = depth if depth is not None else affordable_depth(len(first.types), first.k_max)
    exact = depth >= len(first.types)
    value, later, slots = np.empty(0), np.empty(0), 0
    bounds: list[Bound] = []
    for i in reversed(range(len(stretches))):
        task, rates = stretches[i]
        p = lay_out(task)
        graph = relaxation(p, depth)
        if value.size == 0:
            value, later = np.zeros_like(graph.price), np.zeros_like(graph.price)
        compile_kernel(sweep)(p, graph, rates, value, later)
        slots += len(rates)
        lower = float(value[0] if i == 0 else value.min()) / slots
        bounds.insert(0, Bound(lower, exact))
    return bounds


def unlike(one: Task, other: Task) -> bool:
    """Whether the states of two tasks mean different deployments."""
    return [t.speedup for t in one.types] != [t.speedup for t in other.types] or one.k_max != other.k_max


def guess_seconds(task: Task, slots: int) -> float:
    """How long a floor over so many slots will take, roughly."""
    types = len(task.types)
    states = count_states(types, task.k_max, affordable_depth(types, task.k_max))
    return slots * states * 2.0 * types / EDGES_PER_SECOND
