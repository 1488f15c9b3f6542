"""The plain loop: the replay of sim/replay.py in a driver's terms, for policies that do not compile.

It follows the same slot order with the same plants, one Python step at a time.
"""

from __future__ import annotations

from scaler.policy import Policy
from scaler.problem import Floats, Integers, Problem, Seen, look, price_of, two_slowest
from sim.plant import Plant
from sim.replay import PLANTS, RECONFIGURATIONS, RESOURCES, SLOTS, START, VIOLATIONS, Baton, Record


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
) -> Baton:
    """Replay `rates`; `sums` [blocks, 4] and `held` [N] are added to."""
    serve, change = PLANTS[plant_kind]["serve"], PLANTS[plant_kind]["change"]
    types = len(k)
    before, action, begun = baton
    for t, rate in enumerate(rates.tolist()):
        utilisation, response, output = serve(truth, plant, k, int(k.sum()), two_slowest(told, k)[0], rate)
        seen: Seen = look(told, k, rate, utilisation, response)
        seen = seen._replace(violated=response > truth.bound, price=float(price_of(truth, k)))
        if begun:
            policy.absorb(k, before, action, seen)
        action = policy.choose(k, seen)
        for line, value in zip(record, (response, output, action), strict=True):
            if len(line) > 0:
                line[t] = value
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
    return Baton(before, action, begun)
