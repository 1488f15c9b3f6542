"""The least cost of a few slots, by every course of changes of any size through the plant itself."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from scaler.model.kernel import Floats, Integers, action_towards, lay_out, price_of, two_slowest
from scaler.model.task import Task
from sim.plants import PLANTS


def deployments(task: Task) -> Iterator[tuple[int, ...]]:
    for k in product(range(task.k_max + 1), repeat=len(task.types)):
        if task.k_min <= sum(k) <= task.k_max:
            yield k


def least_cost(task: Task, plant_kind: str, plant: Any, first: Sequence[int], rates: Floats) -> float:
    """Mean slot cost of the best course; `plant` is fresh, with `first` serving."""
    p, choices = lay_out(task), list(deployments(task))
    kernels = PLANTS[plant_kind]

    def best(k: tuple[int, ...], plant: Any, t: int) -> float:
        held: Integers = np.array(k)
        price = float(price_of(p, held)) + kernels.price_leaving(p, plant)
        response = kernels.serve(p, plant, held, int(held.sum()), two_slowest(p, held)[0], float(rates[t]))[1]
        cost = p.w_perf * (response > p.bound) + p.w_res * price
        if t + 1 == len(rates):
            return cost
        later = []
        for wanted in choices:
            changed = copy.deepcopy(plant)
            action = int(action_towards(p, held, np.array(wanted)))
            if action != 0:
                kernels.change(p, changed, held, action)
            later.append(p.w_rcf * (action != 0) + best(wanted, changed, t + 1))
        return cost + min(later)

    return best(tuple(first), plant, 0) / len(rates)
