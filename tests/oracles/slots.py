"""The replay loop once more, in dictionaries and lists: rates and a controller in, one row per slot out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scaler.model.task import Task


@dataclass
class Slot:
    rate: float
    deployment: tuple[int, ...]
    utilisation: float
    response: float
    violated: bool
    output: float
    cost: float = 0.0
    action: int = 0


Controller = Callable[["Slot", "Slot | None"], int]  # what is seen now, and the slot before with what was done


def pollaczek_khinchine(x: float, m: float, v: float) -> float:
    """Mean response time of M/G/1 as textbooks write it: service plus lambda E[S^2] / (2 (1 - rho))."""
    rho = x * m
    return math.inf if rho >= 1 else m + x * (v + m**2) / (2 * (1 - rho))


def answer(task: Task, deployment: Sequence[int], rate: float) -> tuple[float, float, float]:
    """Utilisation and response time of the worst replica, and the rate that gets through."""
    total = sum(deployment)
    share = rate / total
    used = [node for node, count in zip(task.types, deployment, strict=True) if count]
    m, v = task.moments.mean, task.moments.variance
    utilisation = max(share * m / node.speedup for node in used)
    response = max(pollaczek_khinchine(share, m / node.speedup, v / node.speedup**2) for node in used)
    output = sum(
        count * min(share, node.speedup / m) for node, count in zip(task.types, deployment, strict=True) if count
    )
    return utilisation, response, output


def moves(task: Task, deployment: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Every allowed action and the deployment it leads to, in the kernels' numbering."""
    n = len(deployment)
    out = {0: tuple(deployment)}
    for i in range(n):
        if deployment[i] > 0 and sum(deployment) > 1:
            out[1 + i] = tuple(c - (j == i) for j, c in enumerate(deployment))
        if sum(deployment) < task.k_max:
            out[1 + n + i] = tuple(c + (j == i) for j, c in enumerate(deployment))
    return dict(sorted(out.items()))


def price(task: Task, deployment: Sequence[int]) -> float:
    return sum(count * node.price for node, count in zip(task.types, deployment, strict=True))


def replay(task: Task, rates: Sequence[float], controller: Controller) -> list[Slot]:
    """One replica of type 1 to start with; what is decided in slot t holds from t + 1."""
    deployment = tuple(int(i == 0) for i in range(len(task.types)))
    rows: list[Slot] = []
    for rate in rates:
        utilisation, response, output = answer(task, deployment, rate)
        slot = Slot(rate, deployment, utilisation, response, response > task.bound, output)
        slot.action = controller(slot, rows[-1] if rows else None)
        w = task.weights
        slot.cost = (
            w.performance * slot.violated
            + w.resources * price(task, deployment) / task.dearest
            + w.reconfiguration * (slot.action != 0)
        )
        rows.append(slot)
        deployment = moves(task, deployment)[slot.action]
    return rows
