"""Replay one operator under one policy over a stretch of arrival rates.

Slot t: the new rate arrives; the current deployment answers it, may violate the bound and is charged; the policy learns
from the slot before, sees the rate (with what waits, where the plant keeps it) and decides; the change holds from slot
t + 1.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import (
    Floats,
    Integers,
    KernelView,
    Problem,
    first_step,
    key_of,
    price_of,
    rate_level,
    split_action,
    two_slowest,
)
from scaler.model.policy import Decide, Kernel, Learn, State, narrow
from sim.compiler import compile_kernel
from sim.plants import PLANTS
from sim.replicas import Plant

VIOLATIONS, RECONFIGURATIONS, RESOURCES, SLOTS = range(4)


class Record(NamedTuple):
    """What a replay writes per slot; an array of length 0 is not written."""

    response: Floats
    output: Floats
    action: Integers


class Baton(NamedTuple):
    """Where one stretch of the replay hands over to the next: the last slot, and what was decided in it.

    Arrays that the loop writes, not a value that it returns: numba would build the value with Python's constructors,
    and a signal whose handler raises in there ends the process.
    """

    reals: Floats  # [7] rate, utilisation, response, price, arrivals, backlog, batch ratio
    whole: Integers  # [8] level, violated, key, count, slowest, second, action, begun


def fresh_baton() -> Baton:
    """Before the first slot."""
    return Baton(np.zeros(7), np.zeros(8, np.int64))


@jit
def take_over(baton: Baton) -> tuple[KernelView, int, bool]:
    """What the last slot of the stretch before was like, what was decided, and whether there was one."""
    r, w = baton.reals, baton.whole
    seen = KernelView(r[0], w[0], r[1], r[2], w[1] != 0, w[2], w[3], r[3], w[4], w[5], r[4], r[5], r[6])
    return seen, w[6], w[7] != 0


@jit
def hand_over(baton: Baton, seen: KernelView, action: int, begun: bool) -> None:
    """Keep the last slot for the next stretch."""
    reals, whole = baton
    reals[0], reals[1], reals[2], reals[3] = seen.rate, seen.utilisation, seen.response, seen.price
    reals[4], reals[5], reals[6] = seen.arrivals, seen.backlog, seen.batch_ratio
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


@jit
def measure_deployment(told: Problem, truth: Problem, k: Integers) -> tuple[int, int, float, int, int]:
    """Replicas in all, key, price, and the ranks of the slowest types of a deployment."""
    slowest, second = two_slowest(told, k)
    return k.sum(), key_of(told, k), price_of(truth, k), slowest, second


@jit
def apply_action(p: Problem, k: Integers, action: int, held: Integers, slots: int) -> None:
    """Change a deployment in place, and count the replicas held over the slots that remain."""
    if action > 0:
        delta, i = split_action(k.shape[0], action)
        k[i] += delta
        held[i] += delta * slots
        return
    key = -1 - action
    for i in range(k.shape[0]):
        wanted = (key // p.radix[i]) % (p.k_max + 1)
        held[i] += (wanted - k[i]) * slots
        k[i] = wanted


@cache
def make_loop(decide: Decide, learn: Learn, plant_kind: str) -> Any:
    """The loop with this policy and this plant built in, compiled under a name of its own, by which numba files it."""
    serve, change, measure_queue, _, price_leaving = PLANTS[plant_kind]

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
        count, key, price, slowest, second = measure_deployment(told, truth, k)
        for i in range(k.shape[0]):
            held[i] += k[i] * n
        t = 0
        for b in range(sums.shape[0]):
            violations, reconfigurations, resources = 0, 0, 0.0
            end = min(n, t + block)
            sums[b, SLOTS] += end - t
            while t < end:
                rate = rates[t]
                resources += price + price_leaving(truth, plant)
                utilisation, response, output = serve(truth, plant, k, count, slowest, rate)
                violated = response > truth.bound
                catch_up, waiting, ratio = measure_queue(plant)
                demand, level = rate + catch_up, rate_level(told, rate + catch_up)
                seen = KernelView(
                    demand, level, utilisation, response, violated, key, count, price, slowest, second, rate,
                    waiting, ratio,
                )  # fmt: skip
                if begun:
                    learn(told, s, k, before, action, seen)
                action = decide(told, s, k, seen)
                if action < 0 and told.one_at_a_time:
                    action = first_step(told, k, count, action)
                if violated:
                    violations += 1
                write(record, t, response, output, action)
                if action != 0:
                    reconfigurations += 1
                    change(told, plant, k, action)
                    apply_action(told, k, action, held, n - t - 1)
                    count, key, price, slowest, second = measure_deployment(told, truth, k)
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


def loop_for(kernel: Kernel, plant: str, one_at_a_time: bool) -> Any:
    """The compiled loop of a policy's kernel on a plant, for tasks of one replica at a time or of any number."""
    hot = narrow(kernel, one_at_a_time)
    return make_loop(hot.decide, hot.learn, plant)
