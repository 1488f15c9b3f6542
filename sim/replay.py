"""Replay one operator under one policy over a stretch of arrival rates: compiled, or step by step in Python.

Slot t: the new rate arrives; the current deployment answers it, may violate the bound and is charged; the policy learns
from the slot before, sees the rate (with what waits, where the plant keeps it) and decides; the change holds from slot
t + 1.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.model.jit import jit
from scaler.model.kernel import (
    Floats,
    Integers,
    KernelView,
    Problem,
    key_of,
    price_of,
    rate_level,
    split_action,
    two_slowest,
    view_deployment,
)
from scaler.model.policy import Decide, Kernel, Learn, Policy, State
from sim.compiler import compile_kernel
from sim.plant import Plant, backlog, disturb, memoryless, owed, settled, unchanged

VIOLATIONS, RECONFIGURATIONS, RESOURCES, SLOTS = range(4)


class Record(NamedTuple):
    """What a replay writes per slot; an array of length 0 is not written."""

    response: Floats
    output: Floats
    action: NDArray[np.int8]


class Baton(NamedTuple):
    """Where one stretch of the replay hands over to the next: the last slot, and what was decided in it.

    Arrays that the loop writes, not a value that it returns: numba would build the value with Python's constructors,
    and a signal whose handler raises in there ends the process.
    """

    reals: Floats  # [4] rate, utilisation, response, price
    whole: Integers  # [8] level, violated, key, count, slowest, second, action, begun


def fresh_baton() -> Baton:
    """Before the first slot."""
    return Baton(np.zeros(4), np.zeros(8, np.int64))


@jit
def take_over(baton: Baton) -> tuple[KernelView, int, bool]:
    """What the last slot of the stretch before was like, what was decided, and whether there was one."""
    rate, utilisation, response, price = baton.reals[0], baton.reals[1], baton.reals[2], baton.reals[3]
    w = baton.whole
    return KernelView(rate, w[0], utilisation, response, w[1] != 0, w[2], w[3], price, w[4], w[5]), w[6], w[7] != 0


@jit
def hand_over(baton: Baton, seen: KernelView, action: int, begun: bool) -> None:
    """Keep the last slot for the next stretch."""
    reals, whole = baton
    reals[0], reals[1], reals[2], reals[3] = seen.rate, seen.utilisation, seen.response, seen.price
    whole[0], whole[1], whole[2], whole[3] = seen.level, seen.violated, seen.key, seen.count
    whole[4], whole[5], whole[6], whole[7] = seen.slowest, seen.second, action, begun


@jit
def write(record: Record, t: int, response: float, output: float, action: int) -> None:
    """Write the slot to those arrays that are kept."""
    if record.response.shape[0] > 0:
        record.response[t] = response
    if record.output.shape[0] > 0:
        record.output[t] = output
    if record.action.shape[0] > 0:
        record.action[t] = action


PLANTS: dict[str, tuple[Any, Any, Any]] = {  # serve a slot, change the deployment, rate that works off the backlog
    "memoryless": (memoryless, unchanged, settled),
    "backlog": (backlog, disturb, owed),
}


@cache
def make_loop(decide: Decide, learn: Learn, plant_kind: str) -> Any:
    """The loop with this policy and this plant built in, compiled under a name of its own, by which numba files it."""
    serve, change, backlog_rate = PLANTS[plant_kind]

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
    ) -> None:
        """Replay `rates`; add to `sums` [blocks, 4] and `held` [N], leave `k` and `baton` as they end."""
        n = rates.shape[0]
        before, action, begun = take_over(baton)
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
                demand = rate + backlog_rate(plant)
                level = rate_level(told, demand)
                seen = KernelView(demand, level, utilisation, response, violated, key, count, price, slowest, second)
                if begun:
                    learn(told, s, k, before, action, seen)
                action = decide(told, s, k, seen)
                if violated:
                    violations += 1
                resources += price
                write(record, t, response, output, action)
                if action != 0:
                    reconfigurations += 1
                    change(plant, action)
                    delta, i = split_action(types, action)
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
        hand_over(baton, before, action, begun)

    module = decide.__module__.rpartition(".")[2]
    stretch.__qualname__ = f"stretch_{module}_{decide.__name__}_{learn.__name__}_{plant_kind}"
    return compile_kernel(stretch)


def loop_for(kernel: Kernel, plant: str) -> Any:
    """The compiled loop of a policy's kernel on a plant."""
    return make_loop(kernel.decide, kernel.learn, plant)


def walk(
    told: Problem,
    truth: Problem,
    policy: Policy,
    plant_kind: str,
    plant: Plant,
    k: Integers,
    baton: Baton,
    rates: Floats,
    block: int,
    sums: Floats,
    held: Integers,
    record: Record,
) -> None:
    """Do the same in Python, slot by slot, for a policy that does not compile."""
    serve, change, backlog_rate = PLANTS[plant_kind]
    before, action, begun = take_over(baton)
    for t, rate in enumerate(rates.tolist()):
        utilisation, response, output = serve(truth, plant, k, int(k.sum()), two_slowest(told, k)[0], rate)
        seen: KernelView = view_deployment(told, k, rate + backlog_rate(plant), utilisation, response)
        seen = seen._replace(violated=response > truth.bound, price=float(price_of(truth, k)))
        if begun:
            policy.absorb(k, before, action, seen)
        action = policy.choose(k, seen)
        write(record, t, response, output, action)
        row = sums[t // block]
        row[SLOTS] += 1
        row[VIOLATIONS] += seen.violated
        row[RECONFIGURATIONS] += action != 0
        row[RESOURCES] += seen.price
        held += k
        if action != 0:
            change(plant, action)
            delta, i = split_action(len(k), action)
            k[i] += delta
        before, begun = seen, True
    hand_over(baton, before, action, begun)
