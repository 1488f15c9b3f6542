"""Hold of one change of replicas by every strategy of migration, compiled; sim/migration.py has the notation.

Replicas of another type that replace some of the same number receive the keys of these: an `added` of k'.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scaler.model.jit import jit

NONE, STOP, PAUSE, AT_ONCE, PROGRESSIVE, SPARK = range(6)
KINDS = ("none", "stop", "pause", "at-once", "progressive", "spark")
Moves = tuple[float, float, float, int, int, float, float]  # share held in all, seconds of each step, seconds of
# sending over all, bins, bins of a step, bytes moved, peak bytes


class HoldLaw(NamedTuple):
    """A `Migration` as scalars, and the seconds measured by direction (NaN: not known)."""

    kind: int
    modulo: bool
    partitions: int
    state_bytes: float
    growth: float  # bytes per tuple
    read_rate: float
    write_rate: float
    network_rate: float
    stop_s: float
    deploy_s: float
    checkpoint_age_s: float
    step_s: float
    bins: int
    at_once: int
    interference: float
    tuple_bytes: float
    store_s: float  # to open a store and replay its changelogs
    work: float  # of a tuple, in service times
    out_base_s: float
    out_each_s: float
    in_base_s: float
    in_each_s: float


@jit
def moved_share(law: HoldLaw, before: int, after: int, added: int, removed: int) -> float:
    """Share of the keys that change their replica."""
    if law.modulo and before != after:
        return 1.0 - min(before, after) / (before * after // math.gcd(before, after))
    return removed / before if removed > added else added / after


@jit
def count_links(law: HoldLaw, before: int, after: int, added: int, removed: int) -> int:
    """The lesser of the replicas that send keys and those that receive some."""
    if law.modulo and before != after:
        return min(before, after)
    return min(removed, after) if removed > added else min(before, added)


@jit
def choose_step(law: HoldLaw, sending_s: float, slack_s: float) -> int:
    """The most bins whose step keeps within the slack; one where none does."""
    if sending_s == 0.0:
        return law.bins
    most = law.bins * (slack_s - law.step_s) / sending_s
    return math.floor(max(1.0, min(float(law.bins), most + 1e-9)))


@jit
def count_loads(partitions: int, before: int, after: int, added: int, removed: int) -> int:
    """Stores that the busiest executor loads; none where partitions are too few for the new ones to get any."""
    if added > 0:
        return 0 if removed == 0 and before >= partitions else -(-partitions // after)
    return -(-partitions * removed // (before * after))


@jit
def plan_hold(
    law: HoldLaw,
    kind: int,
    before: int,
    after: int,
    added: int,
    removed: int,
    state: float,
    rate: float,
    capacity: float,
    slack_s: float,
) -> Moves:
    """Hold of a change with `state` bytes, at `rate` tuples/s on replicas of `capacity`."""
    if kind == NONE or added + removed == 0:
        return 0.0, 0.0, 0.0, 1, 1, 0.0, 0.0
    if kind == STOP:
        hold = law.stop_s + law.deploy_s + state / (after * law.read_rate)
        if law.checkpoint_age_s > 0.0:
            return 1.0, hold + rate * law.checkpoint_age_s / (after * capacity), 0.0, 1, 1, state, 0.0
        return 1.0, hold + state / (before * law.write_rate), 0.0, 1, 1, 2.0 * state, 0.0
    share = moved_share(law, before, after, added, removed)
    moved = share * state
    if kind == SPARK:
        loads = count_loads(law.partitions, before, after, added, removed)
        if loads == 0:
            return 1.0, 0.0, 0.0, 1, 1, 0.0, 0.0
        each = law.store_s + state / (law.partitions * law.read_rate)
        return 1.0, loads * each, 0.0, 1, 1, moved, moved
    sending = moved / (count_links(law, before, after, added, removed) * law.network_rate)
    if kind == PAUSE:
        return 1.0, law.step_s + sending, 0.0, 1, 1, moved, rate * (law.step_s + sending) * law.tuple_bytes
    at_once = law.bins
    if kind == PROGRESSIVE:
        at_once = law.at_once if law.at_once > 0 else choose_step(law, sending, slack_s)
    part = at_once / law.bins
    longest = law.step_s + part * sending
    peak = share * part * (2.0 * state + rate * longest * law.tuple_bytes)
    return share, law.step_s, sending, law.bins, at_once, moved, peak
