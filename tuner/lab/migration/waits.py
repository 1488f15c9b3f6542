"""Latency over time of one change of replicas: how long tuples wait that come in each moment of a migration.

Tuples fall into classes that wait alike: those of keys that stay where no state comes in, those of the receiving
replicas' own keys, and those of the keys that each step moves. Held tuples join the queue of their receiver, in the
order in which they came, when their step ends; a queue is a fluid. Where all arrivals are held there is one class, on
all replicas together. Replicas keep their pace while state moves (no interference).

Notation: times in seconds from the beginning of the migration, a moment every STEP_S.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scaler.model.kernel import Floats
from sim.hold_law import KINDS
from sim.migration import Change, Migration, MigrationCost, list_receivers, plan_change, price_change

STEP_S = 0.01
WHOLE = ("stop", "pause", "spark")  # strategies that hold all arrivals


@dataclass(frozen=True, slots=True)
class TracedWaits:
    """What tuples wait by the moment in which they come, beyond what they usually do."""

    migration_s: float  # until the last step has ended
    mean_s: Floats  # [T] over the tuples of each moment
    longest_s: float
    late_s: float  # seconds of arrivals that wait longer than the slack
    waiting: float  # tuple-seconds in all
    cost: MigrationCost  # the closed form's


@dataclass(frozen=True, slots=True)
class HeldQueue:
    """One replica, or all of them together, and what comes to it."""

    many: int  # replicas alike
    own: float  # tuples per second of keys that it has already
    capacity: float
    steps: tuple[tuple[float, float, float], ...]  # begins, ends, tuples per second that it holds


def trace_waits(migration: Migration, change: Change, until_s: float) -> TracedWaits:
    """The waits of all tuples that come within so many seconds."""
    cost = price_change(migration, change)
    queues = lay_out_queues(migration, change, cost)
    moments = np.arange(0.0, until_s, STEP_S)
    total, late, longest = np.zeros_like(moments), 0.0, 0.0
    for queue in queues:
        for rate, waits in trace_queue(queue, moments):
            total += queue.many * rate * waits
            late += queue.many * rate * STEP_S * int(np.count_nonzero(waits > change.slack_s))
            longest = max(longest, float(waits.max(initial=0.0)))
    ends = max((end for queue in queues for _, end, _ in queue.steps), default=0.0)
    waiting = float(total.sum() * STEP_S)
    return TracedWaits(ends, total / change.rate, longest, late / change.rate, waiting, cost)


def lay_out_queues(migration: Migration, change: Change, cost: MigrationCost) -> list[HeldQueue]:
    """The queues that a migration fills, each with the steps that hold its tuples."""
    if migration.kind in WHOLE:
        held = ((0.0, cost.hold_s, change.rate),)
        return [HeldQueue(1, 0.0, change.after * change.capacity, held)]
    _, fixed, sending, bins, at_once, _, _ = plan_change(migration, change, KINDS.index(migration.kind))
    parts = [min(at_once, bins - done) / bins for done in range(0, bins, at_once)]
    ends = np.cumsum([fixed + part * sending for part in parts]).tolist()
    begins = [0.0, *ends[:-1]]
    return [
        HeldQueue(
            many,
            change.rate * own,
            change.capacity,
            tuple((a, b, change.rate * gets * part) for a, b, part in zip(begins, ends, parts, strict=True)),
        )
        for many, gets, own in list_receivers(migration, change)
        if many > 0
    ]


def trace_queue(queue: HeldQueue, moments: Floats) -> list[tuple[float, Floats]]:
    """The rate and the waits of each class of a queue's tuples, by the moment in which they come."""
    inflow = np.full(moments.size, queue.own * STEP_S)
    releases = np.zeros(moments.size)
    for begins, ends, rate in queue.steps:
        inflow += np.where(moments >= ends, rate * STEP_S, 0.0)
        last = math.ceil(ends / STEP_S - 1e-9)
        if last < moments.size:
            releases[last] += rate * (ends - begins)
    backlog = run_queue(inflow + releases, queue.capacity * STEP_S) / queue.capacity
    found: list[tuple[float, Floats]] = [(queue.own, backlog)]
    for begins, ends, rate in queue.steps:
        first, last = np.searchsorted(moments, [begins, ends - 1e-9])
        waits = np.where(moments < begins, 0.0, backlog)
        held = slice(int(first), int(last))
        ahead = backlog[last - 1] if last > 0 else 0.0
        waits[held] = (ends - moments[held]) + ahead + rate * (moments[held] - begins) / queue.capacity
        found.append((rate, waits))
    return found


def run_queue(work: Floats, served: float) -> Floats:
    """What is left after each moment of a queue that gets this work and gets through so much."""
    left = np.cumsum(work - served)
    return left - np.minimum.accumulate(np.minimum(left, 0.0))
