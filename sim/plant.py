"""Model an operator's response to a slot's arrivals: utilisation, response time and output.

`memoryless` is the paper's plant: each slot stands alone and an overloaded operator is infinitely slow in it. `backlog`
keeps what was not served: tuples queue, and policies see the rate at which these have to be worked off beside that of
what comes; a reconfiguration holds arrivals, all of them or the share whose state moves (in a queue of their own,
sim/holding.py); a new replica is paid at once and serves after its start-up, and one that is taken away (spot) starts
anew. Both split arrivals evenly, so that the slowest replica sets the pace. Utilisation is what is asked for: above 1
where that is more than the deployment can serve, exactly 1 where replicas only never rest.

Response times are means, or the quantile that the task's bound is about: in `memoryless` that of the M/G/1 queue; in
`backlog` that quantile of the fluid's wait, over the tuples served in the slot, plus that of the M/G/1 queue. Quantiles
add up where either is the same for all tuples of the slot; else the sum is somewhat high for the upper ones. While a
share of the arrivals is held, quantiles take tuples for served as they came, which is too low for the held ones.

Notation: C tuples per second that the serving replicas get through, Q tuples waiting, area the integral of Q over the
slot. By Little's law the mean wait of the slot is area over the tuples that came through.
"""

from __future__ import annotations

import math

from scaler.model.jit import jit
from scaler.model.kernel import Integers, Problem, replica_response, two_slowest
from scaler.model.queueing import catch_up_rate
from sim.holding import HELD, WAIT, held_share, note_slot
from sim.replicas import Plant, lose_replicas, pass_time, throughput
from sim.spans import (
    add_span,
    part_quantile,
    pass_spans,
    serve_spans,
)

Answer = tuple[float, float, float]  # utilisation, response time, output rate
Queue = tuple[float, float, float]  # rate that works the backlog off, tuples that wait, batch time over trigger


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
    response = replica_response(p, share, s)
    return utilisation, response, rate if utilisation < 1.0 else even_output(p, k, count, rate)


@jit
def backlog(p: Problem, plant: Plant, k: Integers, count: int, slowest: int, rate: float) -> Answer:
    """Utilisation, response time and output of a plant that remembers; integrates the slot piece by piece."""
    lose_replicas(p, plant)
    left = plant.slot_s
    before = plant.queue[0]
    q = before
    area = 0.0
    possible = 0.0
    plant.parts.many[0] = 0
    if p.quantile > 0.0:
        add_span(plant.spans, plant.slot_s, rate)
    while left > 0.0:
        piece = left
        if plant.hold.pause[0] > 0.0:
            piece = min(piece, plant.hold.pause[0])
        if plant.hold.course[WAIT] > 0.0:
            piece = min(piece, plant.hold.course[WAIT])
        if plant.booting[0] > 0:
            piece = min(piece, plant.boot_left[0])
        share = held_share(plant.hold)
        pace = throughput(p, plant.serving) if share < 1.0 else 0.0
        inflow = rate
        if 0.0 < share < 1.0:
            pace *= 1.0 - plant.hold.law.interference
            inflow = rate * (1.0 - share)
            held = plant.hold.course[HELD]
            more = share * rate * piece
            plant.hold.course[HELD] = held + more
            area += (held + more / 2.0) * piece
            q = max(0.0, q - held)
        possible += pace * piece
        if p.quantile > 0.0 and pace > 0.0:
            outflow = pace if share == 0.0 else min(pace, q / piece + inflow)
            serve_spans(plant.spans, plant.parts, plant.slot_s - left, plant.slot_s - left + piece, outflow)
        drift = inflow - pace
        end = q + drift * piece
        if end >= 0.0:
            area += (q + end) / 2.0 * piece
            q = end
        else:
            area += q * q / (-2.0 * drift)
            q = 0.0
        if 0.0 < share < 1.0:
            q += plant.hold.course[HELD]
        plant.queue[0] = q
        pass_time(plant, piece)
        left -= piece
    served = before + rate * plant.slot_s - q
    waiting = area / served if served > 0.0 else (math.inf if area > 0.0 else 0.0)
    if p.quantile > 0.0:
        waiting = part_quantile(plant.parts, p.quantile) if plant.parts.many[0] > 0 else waiting
        pass_spans(plant.spans, plant.slot_s)
    utilisation = min(1.0, served / possible) if possible > 0.0 else 1.0
    if q > 0.0:
        demand = rate + catch_up_rate(q, plant.slot_s)
        utilisation = max(1.0, demand / count * p.mean / p.speedup[p.order[slowest]])
    s = p.speedup[p.order[slowest if plant.serving.sum() == 0 else two_slowest(p, plant.serving)[0]]]
    steady = replica_response(p, rate / max(1, plant.serving.sum()), s)
    if not math.isfinite(steady):  # what waits is the fluid
        steady = replica_response(p, 0.0, s)
    note_slot(plant.hold, rate, steady, served)
    return utilisation, waiting + steady, served / plant.slot_s


@jit
def no_queue(plant: Plant) -> Queue:
    """The memoryless plant keeps nothing that would wait."""
    return 0.0, 0.0, 0.0


@jit
def fluid_queue(plant: Plant) -> Queue:
    """Tuples that wait, and the rate that works them off."""
    return catch_up_rate(plant.queue[0], plant.slot_s), plant.queue[0], 0.0


@jit
def none_leaving(p: Problem, plant: Plant) -> float:
    """The memoryless plant replaces at once."""
    return 0.0


@jit
def unchanged(p: Problem, plant: Plant, k: Integers, action: int) -> None:
    """The memoryless plant takes a change in its stride."""
