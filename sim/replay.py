"""The compiled loop: one operator, its policy and a stretch of arrival rates in; sums by block and a record out.

Slot t: the new rate arrives; the current deployment answers it, may violate the bound and is charged; the policy learns
from the slot before, sees the rate and decides; the change holds from slot t + 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.policy import Kernel, State
from scaler.problem import Floats, Integers, Problem, Seen, key_of, price_of, rate_level, two_slowest
from sim.plant import Plant, backlog, disturb, memoryless, unchanged
from sim.stamp import stamp

VIOLATIONS, RECONFIGURATIONS, RESOURCES, SLOTS = range(4)


class Record(NamedTuple):
    """What a replay writes per slot; an array of length 0 is not written."""

    response: Floats
    output: Floats
    action: NDArray[np.int8]


class Baton(NamedTuple):
    """Where one stretch of the replay hands over to the next."""

    seen: Seen
    action: int
    begun: bool


START = Baton(Seen(0.0, 0, 0.0, 0.0, False, 0, 0, 0.0, 0, 0), 0, False)


def decide(p: Problem, s: State, k: Integers, seen: Seen) -> int:  # stands for the policy's
    raise NotImplementedError


def learn(p: Problem, s: State, k: Integers, before: Seen, action: int, seen: Seen) -> None:  # stands for the policy's
    raise NotImplementedError


def serve(
    p: Problem, plant: Plant, k: Integers, count: int, slowest: int, rate: float
) -> tuple[float, float, float]:  # stands for the plant's
    raise NotImplementedError


def change(plant: Plant, action: int) -> None:  # stands for the plant's
    raise NotImplementedError


def stretch(
    told: Problem,
    truth: Problem,
    s: State,
    plant: Plant,
    k: Integers,
    baton: Baton,
    rates: Floats,
    block: int,
    sums: Floats,
    held: Integers,
    record: Record,
) -> Baton:
    """Replay `rates`; `sums` [blocks, 4] and `held` [N] are added to."""
    n = rates.shape[0]
    before, action, begun = baton
    types = k.shape[0]
    count = k.sum()
    key = key_of(told, k)
    price = price_of(truth, k)
    slowest, second = two_slowest(told, k)
    for i in range(k.shape[0]):
        held[i] += k[i] * n
    t = 0
    for b in range(sums.shape[0]):
        violations = 0
        reconfigurations = 0
        resources = 0.0
        end = min(n, t + block)
        sums[b, SLOTS] += end - t
        while t < end:
            rate = rates[t]
            utilisation, response, output = serve(truth, plant, k, count, slowest, rate)
            violated = response > truth.bound
            level = rate_level(told, rate)
            seen = Seen(rate, level, utilisation, response, violated, key, count, price, slowest, second)
            if begun:
                learn(told, s, k, before, action, seen)
            action = decide(told, s, k, seen)
            if violated:
                violations += 1
            resources += price
            if record.response.shape[0] > 0:
                record.response[t] = response
            if record.output.shape[0] > 0:
                record.output[t] = output
            if record.action.shape[0] > 0:
                record.action[t] = action
            if action != 0:
                reconfigurations += 1
                change(plant, action)
                i, delta = (action - 1 - types, 1) if action > types else (action - 1, -1)
                k[i] += delta
                held[i] += delta * (n - t - 1)
                count += delta
                key += delta * told.radix[i]
                price = price_of(truth, k)
                if k[i] < 2:
                    slowest, second = two_slowest(told, k)
            before = seen
            begun = True
            t += 1
        sums[b, VIOLATIONS] += violations
        sums[b, RECONFIGURATIONS] += reconfigurations
        sums[b, RESOURCES] += resources
    return Baton(before, action, begun)


PLANTS: dict[str, dict[str, Any]] = {
    "memoryless": {"serve": memoryless, "change": unchanged},
    "backlog": {"serve": backlog, "change": disturb},
}


def loop_for(kernel: Kernel, plant: str) -> Any:
    """The loop with this policy and this plant built in."""
    name = f"{kernel.decide.__module__.rpartition('.')[2]}_{plant}"
    return stamp(stretch, name, decide=kernel.decide, learn=kernel.learn, **PLANTS[plant])
