"""Model an operator's response to a slot's arrivals: utilisation, response time and output.

`memoryless` is the paper's plant: each slot stands alone and an overloaded operator is infinitely slow in it. `backlog`
keeps what was not served: tuples queue, and policies see the rate at which these have to be worked off beside that of
what comes; a reconfiguration pauses the operator, a new replica is paid at once and serves after its start-up. Both
split arrivals evenly, so that the slowest replica sets the pace. Utilisation is what is asked for: above 1 where that
is more than the deployment can serve, exactly 1 where replicas only never rest.

Notation: C tuples per second that the serving replicas get through, Q tuples waiting, area the integral of Q over the
slot. By Little's law the mean wait of the slot is area over the tuples that came through.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, Problem, two_slowest
from scaler.model.queueing import catch_up_rate, mg1_response

Answer = tuple[float, float, float]  # utilisation, response time, output rate


@dataclass(frozen=True, slots=True)
class Inertia:
    """Seconds that change takes: a slot's length, the pause of a reconfiguration, the start of a replica."""

    slot_s: float = 60.0
    pause_s: float = 5.0
    start_s: float = 10.0

    def __post_init__(self) -> None:
        if not self.slot_s > 0.0:
            raise BadInput(f"the slot is {self.slot_s} s long, and must be positive")
        if min(self.pause_s, self.start_s) < 0.0:
            raise BadInput(f"pause ({self.pause_s} s) and start-up ({self.start_s} s) must not be negative")


class Plant(NamedTuple):
    """What an operator carries from slot to slot."""

    queue: Floats  # [1] tuples waiting
    pause: Floats  # [1] seconds of pause still to come
    serving: Integers  # [N] replicas past their start-up
    boot_left: Floats  # [K] seconds until each starting replica serves, oldest first
    boot_type: Integers  # [K]
    booting: Integers  # [1] how many are starting
    slot_s: float
    pause_s: float
    start_s: float


def fresh_plant(p: Problem, k: Integers, inertia: Inertia) -> Plant:
    """An operator that starts with these replicas already serving."""
    return Plant(
        queue=np.zeros(1),
        pause=np.zeros(1),
        serving=k.copy(),
        boot_left=np.zeros(p.k_max),
        boot_type=np.zeros(p.k_max, np.int64),
        booting=np.zeros(1, np.int64),
        slot_s=inertia.slot_s,
        pause_s=inertia.pause_s,
        start_s=inertia.start_s,
    )


@jit
def even_output(p: Problem, k: Integers, count: int, rate: float) -> float:
    """Tuples per second that get through when every replica is offered the same share."""
    out = 0.0
    for i in range(k.shape[0]):
        out += k[i] * min(rate / count, p.speedup[i] / p.mean)
    return out


@jit
def memoryless(p: Problem, plant: Plant, k: Integers, count: int, slowest: int, rate: float) -> Answer:
    """Utilisation, response time and output of the paper's plant."""
    s = p.speedup[p.order[slowest]]
    share = rate / count
    utilisation = share * p.mean / s
    response = mg1_response(share, p.mean, p.variance, s)
    return utilisation, response, rate if utilisation < 1.0 else even_output(p, k, count, rate)


@jit
def backlog(p: Problem, plant: Plant, k: Integers, count: int, slowest: int, rate: float) -> Answer:
    """Utilisation, response time and output of a plant that remembers; integrates the slot piece by piece."""
    left = plant.slot_s
    before = plant.queue[0]
    q = before
    area = 0.0
    possible = 0.0
    while left > 0.0:
        piece = left
        if plant.pause[0] > 0.0:
            piece = min(piece, plant.pause[0])
        if plant.booting[0] > 0:
            piece = min(piece, plant.boot_left[0])
        pace = 0.0 if plant.pause[0] > 0.0 else throughput(p, plant.serving)
        possible += pace * piece
        drift = rate - pace
        end = q + drift * piece
        if end >= 0.0:
            area += (q + end) / 2.0 * piece
            q = end
        else:
            area += q * q / (-2.0 * drift)
            q = 0.0
        pass_time(plant, piece)
        left -= piece
    plant.queue[0] = q
    served = before + rate * plant.slot_s - q
    waiting = area / served if served > 0.0 else (math.inf if area > 0.0 else 0.0)
    utilisation = min(1.0, served / possible) if possible > 0.0 else 1.0
    if q > 0.0:
        demand = rate + owed(plant)
        utilisation = max(1.0, demand / count * p.mean / p.speedup[p.order[slowest]])
    s = p.speedup[p.order[two_slowest(p, plant.serving)[0]]]
    steady = mg1_response(rate / max(1, plant.serving.sum()), p.mean, p.variance, s)
    return utilisation, waiting + (steady if math.isfinite(steady) else p.mean / s), served / plant.slot_s


@jit
def throughput(p: Problem, serving: Integers) -> float:
    """Tuples per second of the serving replicas under an even split: the slowest sets the pace."""
    return serving.sum() * p.speedup[p.order[two_slowest(p, serving)[0]]] / p.mean


@jit
def pass_time(plant: Plant, seconds: float) -> None:
    """Let pauses and start-ups run; a replica whose start-up ends begins to serve."""
    plant.pause[0] = max(0.0, plant.pause[0] - seconds)
    for j in range(plant.booting[0]):
        plant.boot_left[j] -= seconds
    while plant.booting[0] > 0 and plant.boot_left[0] <= 1e-9:
        plant.serving[plant.boot_type[0]] += 1
        plant.booting[0] -= 1
        for j in range(plant.booting[0]):
            plant.boot_left[j] = plant.boot_left[j + 1]
            plant.boot_type[j] = plant.boot_type[j + 1]


@jit
def settled(plant: Plant) -> float:
    """The memoryless plant keeps nothing that would wait."""
    return 0.0


@jit
def owed(plant: Plant) -> float:
    """Tuples per second that have to be served beside those that come."""
    return catch_up_rate(plant.queue[0], plant.slot_s)


@jit
def unchanged(plant: Plant, action: int) -> None:
    """The memoryless plant takes a change in its stride."""


@jit
def disturb(plant: Plant, action: int) -> None:
    """Start what was added, stop what was removed, and pause for the change.

    A replica still starting is given back before one that serves, the youngest first; the last that serves stays.
    """
    types = plant.serving.shape[0]
    plant.pause[0] += plant.pause_s
    if action > types:
        plant.boot_left[plant.booting[0]] = plant.start_s
        plant.boot_type[plant.booting[0]] = action - 1 - types
        plant.booting[0] += 1
        if plant.start_s == 0.0:
            pass_time(plant, 0.0)
        return
    i = action - 1
    for j in range(plant.booting[0] - 1, -1, -1):
        if plant.boot_type[j] == i:
            plant.booting[0] -= 1
            for later in range(j, plant.booting[0]):
                plant.boot_left[later] = plant.boot_left[later + 1]
                plant.boot_type[later] = plant.boot_type[later + 1]
            return
    if plant.serving.sum() == 1:
        plant.boot_left[0] = 0.0
        pass_time(plant, 0.0)
    plant.serving[i] -= 1
