"""Replicas of an operator: which serve, start and leave, and what changing them holds.

A new replica is paid at once and serves after its start-up; one that is replaced serves on until its replacements do;
one that is taken away (spot) starts anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.jit import jit, uniform
from scaler.model.kernel import Floats, Integers, Problem, delta_of, two_slowest
from scaler.model.nodes import ENDLESS, Supply
from sim.hold_law import HoldLaw
from sim.holding import Hold, begin_hold, fresh_hold, run_hold
from sim.migration import Migration, lay_out_hold
from sim.spans import (
    PARTS,
    SPANS,
    Parts,
    Spans,
    no_parts,
    no_spans,
)


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

    queue: Floats  # [1] tuples waiting, held ones included
    spans: Spans  # the same by when they came, and
    parts: Parts  # response times of the slot's tuples, where a quantile of them is asked for
    hold: Hold  # of reconfigurations
    serving: Integers  # [N] replicas past their start-up
    leaving: Integers  # [N] of these, how many stop once no replica starts any more
    boot_left: Floats  # [K] seconds until each starting replica serves, the first to do so first
    boot_type: Integers  # [K]
    booting: Integers  # [1] how many are starting
    slot_s: float
    pause_s: float
    starts: Floats  # [N, Q] equally likely seconds of start-up
    start_choices: Integers  # [N] how many of these a type has
    loss: Floats  # [N] chance that a replica is taken away in a slot
    spot: bool  # whether any may be
    seed: int
    drawn: Integers  # [1] random numbers so far


NO_MODEL = lay_out_hold(Migration())  # every reconfiguration holds alike


def fresh_plant(
    p: Problem,
    k: Integers,
    inertia: Inertia,
    law: HoldLaw = NO_MODEL,
    supplies: Sequence[Supply] = (),
    seed: int = 0,
) -> Plant:
    """An operator that starts with these replicas already serving; supplies are by node type."""
    stated = tuple(supplies) or (ENDLESS,) * len(k)
    choices = [supply.start_s or (inertia.start_s,) for supply in stated]
    most = max(map(len, choices))
    loss = np.array([1.0 - math.exp(-supply.lost_per_hour * inertia.slot_s / 3600.0) for supply in stated])
    return Plant(
        queue=np.zeros(1),
        spans=no_spans(SPANS if p.quantile > 0.0 else 0),
        parts=no_parts(PARTS if p.quantile > 0.0 else 0),
        hold=fresh_hold(law),
        serving=k.copy(),
        leaving=np.zeros_like(k),
        boot_left=np.zeros(p.k_max),
        boot_type=np.zeros(p.k_max, np.int64),
        booting=np.zeros(1, np.int64),
        slot_s=inertia.slot_s,
        pause_s=inertia.pause_s,
        starts=np.array([[*some, *[0.0] * (most - len(some))] for some in choices]),
        start_choices=np.array([len(some) for some in choices], np.int64),
        loss=loss,
        spot=bool(loss.any()),
        seed=seed,
        drawn=np.zeros(1, np.int64),
    )


@jit
def throughput(p: Problem, serving: Integers) -> float:
    """Tuples per second of the serving replicas under an even split: the slowest sets the pace."""
    if serving.sum() == 0:
        return 0.0
    return serving.sum() * p.speedup[p.order[two_slowest(p, serving)[0]]] / p.mean


@jit
def pass_time(plant: Plant, seconds: float) -> None:
    """Let holds and start-ups run."""
    run_hold(plant.hold, seconds, plant.queue[0])
    run_starts(plant, seconds)


@jit
def run_starts(plant: Plant, seconds: float) -> None:
    """Let start-ups run; a replica whose start-up ends begins to serve, and those it replaces stop."""
    for j in range(plant.booting[0]):
        plant.boot_left[j] -= seconds
    while plant.booting[0] > 0 and plant.boot_left[0] <= 1e-9:
        plant.serving[plant.boot_type[0]] += 1
        drop_boot(plant, 0)
    if plant.booting[0] == 0:
        for i in range(plant.serving.shape[0]):
            plant.serving[i] -= plant.leaving[i]
            plant.leaving[i] = 0


@jit
def drop_boot(plant: Plant, place: int) -> None:
    """Take a replica off the list of those that start."""
    plant.booting[0] -= 1
    for j in range(place, plant.booting[0]):
        plant.boot_left[j] = plant.boot_left[j + 1]
        plant.boot_type[j] = plant.boot_type[j + 1]


@jit
def price_leaving(p: Problem, plant: Plant) -> float:
    """What replicas cost that serve on until those that replace them do; they are paid for each slot they begin."""
    price = 0.0
    for i in range(plant.leaving.shape[0]):
        price += plant.leaving[i] * p.price[i]
    return price


@jit
def disturb(p: Problem, plant: Plant, k: Integers, action: int) -> None:
    """Start what a change adds, stop what it removes, and hold what it moves; `k` is the deployment before it.

    A replica still starting is given back before one that serves, the youngest first. What is replaced serves until
    the replacements do, and so does the last one that serves.
    """
    added = 0
    removed = 0
    for i in range(k.shape[0]):
        added += max(0, delta_of(p, k, action, i))
        removed += max(0, -delta_of(p, k, action, i))
    for i in range(k.shape[0]):
        for _ in range(-delta_of(p, k, action, i)):
            stop_replica(plant, i, added > 0)
    for i in range(k.shape[0]):
        for _ in range(delta_of(p, k, action, i)):
            start_replica(plant, i)
    hold_change(p, plant, k.sum(), added, removed)
    pass_time(plant, 0.0)


@jit
def hold_change(p: Problem, plant: Plant, before: int, added: int, removed: int) -> None:
    """Hold what a change moves; state moves once the new replicas serve."""
    wait_s = 0.0
    for j in range(plant.booting[0]):
        wait_s = max(wait_s, plant.boot_left[j])
    serving = plant.serving
    capacity = throughput(p, serving) / (max(1, serving.sum()) * plant.hold.law.work)
    after = before + added - removed
    begin_hold(plant.hold, before, after, added, removed, capacity, p.bound, wait_s, plant.pause_s, plant.queue[0])


@jit
def start_replica(plant: Plant, node_type: int) -> None:
    """Start a replica, or let one stay that was to stop."""
    if plant.leaving[node_type] > 0:
        plant.leaving[node_type] -= 1
        return
    choice = 0
    if plant.start_choices[node_type] > 1:
        choice = int(draw(plant) * plant.start_choices[node_type])
    seconds = plant.starts[node_type, choice]
    place = plant.booting[0]
    while place > 0 and plant.boot_left[place - 1] > seconds:
        plant.boot_left[place] = plant.boot_left[place - 1]
        plant.boot_type[place] = plant.boot_type[place - 1]
        place -= 1
    plant.boot_left[place] = seconds
    plant.boot_type[place] = node_type
    plant.booting[0] += 1


@jit
def draw(plant: Plant) -> float:
    """The next random number of the plant's own."""
    plant.drawn[0] += 1
    return uniform(plant.seed, plant.drawn[0])


@jit
def take_away(p: Problem, plant: Plant, node_type: int, many: int) -> None:
    """Take replicas away; each starts anew, unless it was to stop anyway, and moves what any that starts does."""
    if many == 0:
        return
    plant.serving[node_type] -= many
    for _ in range(many):
        start_replica(plant, node_type)
    hold_change(p, plant, plant.serving.sum(), many, 0)


@jit
def lose_replicas(p: Problem, plant: Plant) -> None:
    """Take replicas away at a slot's start, by chance."""
    if not plant.spot:
        return
    for i in range(plant.loss.shape[0]):
        lost = 0
        if plant.loss[i] > 0.0:
            for _ in range(plant.serving[i]):
                if draw(plant) < plant.loss[i]:
                    lost += 1
        take_away(p, plant, i, lost)


@jit
def stop_replica(plant: Plant, node_type: int, replaced: bool) -> None:
    """Stop a replica, the youngest that still starts if there is one; later, where it is replaced or the last."""
    for j in range(plant.booting[0] - 1, -1, -1):
        if plant.boot_type[j] == node_type:
            drop_boot(plant, j)
            return
    if replaced or plant.serving.sum() - plant.leaving.sum() == 1:
        plant.leaving[node_type] += 1
    else:
        plant.serving[node_type] -= 1


@jit
def hold_of(plant: Plant) -> Hold:
    """What reconfigurations hold."""
    return plant.hold
