"""Course of an operator's micro-batches: when the next one starts, and how long its work takes.

Replicas that come during a batch take over tasks that have not begun; what those that go had still to do is left to the
others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit, uniform
from scaler.model.kernel import Floats, Integers, Problem, two_slowest
from scaler.model.micro_batches import MicroBatches, tuple_seconds
from scaler.model.nodes import Supply
from sim.hold_law import NONE, SPARK, HoldLaw
from sim.holding import WAIT, take_hold_within
from sim.replicas import NO_MODEL, Inertia, Plant, fresh_plant
from sim.spans import (
    SPANS,
    Spans,
    no_spans,
)

DUE, CUT, END, FLYING, EXCESS, NOISE, RATIO, WORKING, BEGINS = range(9)


class BatchPlant(NamedTuple):
    """What a micro-batch operator carries from slot to slot."""

    change: Plant  # replicas that serve and start, seconds that the next batch owes to reconfigurations, response times
    spans: Spans  # what waits
    drawn: Integers  # [1] batches so far whose noise was drawn
    clock: (
        Floats  # [9] next trigger, next cut, end of the newest batch, its tuples, backlog, newest noise, batch ratio,
    )
    # share of its replicas' time that the newest batch is at work, and when its work begins
    trigger: float
    overhead: float
    work: float
    noise: float
    correlation: float
    delay: float
    part: float
    partitions: int
    most: float
    merge: bool
    curve: Floats  # overhead by replicas; none: the same for any number
    seed: int


def fresh_batch_plant(
    p: Problem,
    k: Integers,
    inertia: Inertia,
    batches: MicroBatches,
    seed: int,
    law: HoldLaw = NO_MODEL,
    supplies: Sequence[Supply] = (),
) -> BatchPlant:
    """An operator that starts with these replicas serving and nothing waiting; its first trigger is due."""
    return BatchPlant(
        change=fresh_plant(p, k, inertia, law, supplies, seed + 1),
        spans=no_spans(SPANS),
        drawn=np.zeros(1, np.int64),
        clock=np.zeros(9),
        trigger=batches.trigger_s,
        overhead=batches.overhead_s,
        work=batches.work,
        noise=batches.noise_s,
        correlation=batches.correlation,
        delay=batches.delay_s,
        part=batches.part,
        partitions=batches.partitions,
        most=batches.most,
        merge=batches.merge,
        curve=np.array(batches.overhead_curve_s, np.float64),
        seed=seed,
    )


@jit
def next_start(plant: BatchPlant, now: float) -> float:
    """When the next batch may start: it needs a replica that serves."""
    ready = max(plant.clock[DUE] if plant.merge else plant.clock[CUT], plant.clock[END])
    change = plant.change
    return max(ready, now + change.boot_left[0]) if change.serving.sum() == 0 and change.booting[0] > 0 else ready


@jit
def advance_triggers(plant: BatchPlant, start: float) -> None:
    """Make the first trigger after this start due; unmerged, the next cut."""
    clock, trigger = plant.clock, plant.trigger
    if not plant.merge:
        clock[CUT] += trigger
    elif trigger > 0.0:
        clock[DUE] += trigger * (math.floor((start - clock[DUE]) / trigger) + 1.0)
    else:
        clock[DUE] = start


@jit
def first_trigger_after(plant: BatchPlant, moment: float) -> float:
    """The first trigger at or after a moment; the moment itself where batches follow each other at once."""
    due = plant.clock[DUE]
    if plant.trigger <= 0.0:
        return max(due, moment)
    return due + plant.trigger * max(0.0, math.ceil((moment - due) / plant.trigger))


@jit
def overhead_seconds(plant: BatchPlant) -> float:
    """The overhead of a batch on the replicas that serve."""
    if plant.curve.shape[0] == 0:
        return plant.overhead
    return plant.curve[min(max(1, plant.change.serving.sum()), plant.curve.shape[0]) - 1]


@jit
def seconds_each(p: Problem, plant: BatchPlant) -> float:
    """Seconds that each tuple adds to a batch on the replicas that serve."""
    serving = plant.change.serving
    if serving.sum() == 0:  # all were taken away
        return tuple_seconds(p.mean, plant.work, plant.partitions, p.speedup[p.order[0]], 1)
    speed = p.speedup[p.order[two_slowest(p, serving)[0]]]
    return tuple_seconds(p.mean, plant.work, plant.partitions, speed, serving.sum())


@jit
def share_work(
    p: Problem, plant: BatchPlant, each: float, tuples: float, begins_s: float, late_s: float = 0.0
) -> float:
    """Seconds of work that begins so soon: replicas that come before its end take over tasks not yet begun.

    They do so from `late_s` after they came on.
    """
    change, left, works = plant.change, tuples, 0.0
    for j in range(change.booting[0]):
        done = max(0.0, change.boot_left[j] + late_s - begins_s - works) / each
        if done >= left:
            break
        left -= done
        works += done * each
        each = seconds_each_after(p, plant, j + 1)
    return works + left * each


@jit
def put_off(p: Problem, plant: BatchPlant, each: float, tuples: float, begins_s: float, ends_s: float) -> float:
    """When a batch ends, which would end so soon, if replicas come during it: they hold it by their first tasks alone.

    Migrations other than Spark's hold all of it, and so does what is stated of DStreams, in seconds of whole batches.
    """
    hold = plant.change.hold
    come_s = hold.course[WAIT]
    hold_s = take_hold_within(hold, ends_s)
    if hold_s > 0.0 and plant.merge and (hold.law.kind == NONE or hold.law.kind == SPARK):
        later_s = share_work(p, plant, each, tuples, begins_s, hold_s) - share_work(p, plant, each, tuples, begins_s)
        return max(ends_s + later_s, come_s + hold_s)
    return ends_s + hold_s


@jit
def begin_of_work(plant: BatchPlant) -> float:
    """When the batch under way is at work: after its overhead, and once there is a replica that serves."""
    clock, change = plant.clock, plant.change
    begins = max(0.0, min(clock[BEGINS], clock[END]))
    if change.serving.sum() == 0 and change.booting[0] > 0:
        begins = max(begins, change.boot_left[0])
    return begins


@jit
def work_left(p: Problem, plant: BatchPlant) -> float:
    """Tuples that the batch under way has still to do: what `share_work` takes until its end for."""
    clock, change = plant.clock, plant.change
    if clock[END] <= 0.0 or clock[FLYING] <= 0.0:
        return 0.0
    now, tuples, each = begin_of_work(plant), 0.0, seconds_each(p, plant)
    for j in range(change.booting[0]):
        until = change.boot_left[j]
        if until >= clock[END]:
            break
        tuples += max(0.0, until - now) / each
        now = max(now, until)
        each = seconds_each_after(p, plant, j + 1)
    return tuples + max(0.0, clock[END] - now) / each


@jit
def seconds_each_after(p: Problem, plant: BatchPlant, starts: int) -> float:
    """Seconds that each tuple adds once so many more serve; with the last of these, those that it replaces stop."""
    change, count, speed = plant.change, 0, math.inf
    for i in range(change.serving.shape[0]):
        here = change.serving[i] - (change.leaving[i] if starts == change.booting[0] else 0)
        for j in range(starts):
            if change.boot_type[j] == i:
                here += 1
        count += here
        if here > 0:
            speed = min(speed, p.speedup[i])
    return tuple_seconds(p.mean, plant.work, plant.partitions, speed, count)


@jit
def service_seconds(plant: BatchPlant, each: float) -> float:
    """Seconds of a replica's time that each tuple takes, of those by which it lengthens a batch."""
    if plant.partitions == 0:
        return each / plant.work
    k = max(1, plant.change.serving.sum())
    return each / plant.work * plant.partitions / (k * math.ceil(plant.partitions / k))


@jit
def note_work(plant: BatchPlant, each: float, tuples: float, lasts: float, left: float) -> float:
    """Keep how busy its replicas are with a batch, and return their seconds of service in what is left of the slot."""
    plant.clock[WORKING] = min(1.0, service_seconds(plant, each) * tuples / lasts)
    return min(lasts, left) * float(plant.clock[WORKING])


@jit
def next_noise(plant: BatchPlant) -> float:
    """The noise of the next batch: AR(1), a function of the seed and the batch's number."""
    if plant.noise <= 0.0:
        return 0.0
    step = plant.drawn[0]
    plant.drawn[0] += 1
    r = plant.correlation
    size = math.sqrt(-2.0 * math.log(1.0 - uniform(plant.seed, 2 * step)))
    draw = size * math.cos(2.0 * math.pi * uniform(plant.seed, 2 * step + 1))
    plant.clock[NOISE] = r * plant.clock[NOISE] + math.sqrt(1.0 - r * r) * plant.noise * draw
    return plant.clock[NOISE]
