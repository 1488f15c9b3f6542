"""Interpreted replay loop, for policies that do not compile; the twin of sim/replay.py.

It follows the same slot order with the same plants, one Python step at a time.
"""

from __future__ import annotations

from scaler.model.kernel import Floats, Integers, KernelView, Problem, price_of, two_slowest, view_deployment
from scaler.model.policy import Policy
from sim.plant import Plant
from sim.replay import PLANTS, RECONFIGURATIONS, RESOURCES, SLOTS, VIOLATIONS, Baton, Record, hand_over, take_over


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
    """Replay `rates`; `sums` [blocks, 4] and `held` [N] are added to."""
    serve, change, backlog_rate = PLANTS[plant_kind]
    types = len(k)
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
            k[(action - 1) % types] += 1 if action > types else -1
        before, begun = seen, True
    hand_over(baton, before, action, begun)


def write(record: Record, t: int, response: float, output: float, action: int) -> None:
    """Note the slot in the lines that are kept."""
    if len(record.response) > 0:
        record.response[t] = response
    if len(record.output) > 0:
        record.output[t] = output
    if len(record.action) > 0:
        record.action[t] = action
