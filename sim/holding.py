"""Course of holds in a plant: which arrivals a reconfiguration holds back, from when, and what it has come to.

A migration holds its keys step by step. A step may hold a share of the arrivals: these wait in a queue of their own,
with what waited of those keys before, and join the others at its end. A change during a migration follows it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats
from sim.hold_law import NONE, SPARK, STOP, HoldLaw, plan_hold

WAIT, SHARE, BINS, AT_ONCE, ALL, WHOLE, FIXED, SENDING, REST, HELD, RATE, USUAL, TUPLES = range(13)
HELD_S, MOVED, PEAK = range(3)


class Hold(NamedTuple):
    """What is held, and what follows."""

    law: HoldLaw
    pause: Floats  # [1] seconds of the present step still to come
    course: Floats  # [13] seconds until the next migration begins, share of arrivals that the present step holds, bins
    # still to move, bins of a step, all bins, share held by all steps, seconds of each step, seconds of sending over
    # all steps, seconds left over from the migration before, tuples held, last rate, usual response time, tuples served
    sums: Floats  # [3] seconds held, each by its share; bytes moved; most bytes beside the usual


def fresh_hold(law: HoldLaw) -> Hold:
    """Nothing is held."""
    return Hold(law, np.zeros(1), np.zeros(13), np.zeros(3))


@jit
def note_slot(hold: Hold, rate: float, usual_s: float, served: float) -> None:
    """Keep of a slot what the hold of a change depends on."""
    hold.course[RATE] = rate
    hold.course[USUAL] = usual_s
    hold.course[TUPLES] += served


@jit
def held_share(hold: Hold) -> float:
    """Share of the arrivals that is held now."""
    return hold.course[SHARE] if hold.pause[0] > 0.0 else 0.0


@jit
def begin_hold(
    hold: Hold,
    before: int,
    after: int,
    added: int,
    removed: int,
    capacity: float,
    bound: float,
    wait_s: float,
    pause_s: float,
    waiting: float,
) -> None:
    """Hold what a change holds, once replicas have started for `wait_s`: measured seconds, else the model's, else
    the constant's.
    """
    law, c = hold.law, hold.course
    base = law.out_base_s if after >= before else law.in_base_s
    each = law.out_each_s if after >= before else law.in_each_s
    known = base >= 0.0 and (law.kind == NONE or law.kind == SPARK)
    if law.kind == NONE and not known:
        hold.pause[0] += pause_s
        c[SHARE] = 1.0
        hold.sums[HELD_S] += pause_s
        return
    kind = SPARK if known else law.kind
    state = law.state_bytes + law.growth * c[TUPLES]
    slack = max(0.0, bound - c[USUAL])
    whole, fixed, sending, bins, at_once, moved, peak = plan_hold(
        law, kind, before, after, added, removed, state, c[RATE], capacity, slack
    )
    if known:
        fixed = base + each * max(added, removed)
    if c[BINS] > 0.0:
        c[REST] += steps_left(hold)
    c[WAIT] = 0.0 if kind == STOP else wait_s
    c[BINS], c[AT_ONCE], c[ALL] = float(bins), float(at_once), float(bins)
    c[WHOLE], c[FIXED], c[SENDING] = whole, fixed, sending
    part, last = at_once / bins, bins % at_once / bins
    hold.sums[HELD_S] += whole * (fixed + sending * (bins // at_once * part * part + last * last))
    hold.sums[MOVED] += moved
    hold.sums[PEAK] = max(hold.sums[PEAK], peak)
    await_hold(hold, 0.0, waiting)


@jit
def hold_left(hold: Hold) -> float:
    """Seconds that the present step and those that follow it last."""
    c = hold.course
    return hold.pause[0] + c[REST] + (steps_left(hold) if c[BINS] > 0.0 else 0.0)


@jit
def steps_left(hold: Hold) -> float:
    """Seconds of the steps that have not begun."""
    c = hold.course
    return -(-c[BINS] // c[AT_ONCE]) * c[FIXED] + c[BINS] / c[ALL] * c[SENDING]


@jit
def hold_with_others(hold: Hold, seconds: float) -> None:
    """Hold all arrivals as long as another operator of the application stops for."""
    more = seconds - hold_left(hold)
    if more > 0.0:
        hold.sums[HELD_S] += more
        hold.pause[0] += more
        hold.course[SHARE] = 1.0


@jit
def begin_step(hold: Hold, waiting: float) -> None:
    """Hold the keys of the next step, and what waits of them; steps that take no time are passed over."""
    pause, c = hold.pause, hold.course
    while pause[0] <= 0.0 and c[BINS] > 0.0:
        bins = min(c[AT_ONCE], c[BINS])
        part = bins / c[ALL]
        c[BINS] -= bins
        pause[0] = c[FIXED] + part * c[SENDING] + c[REST]
        c[REST] = 0.0
        c[SHARE] = c[WHOLE] * part
    c[HELD] = c[SHARE] * waiting if pause[0] > 0.0 and c[SHARE] < 1.0 else 0.0


@jit
def await_hold(hold: Hold, seconds: float, waiting: float) -> None:
    """Let the time pass until a migration begins; its first step follows what is held still."""
    c = hold.course
    if c[WAIT] > 0.0:
        c[WAIT] -= seconds
        if c[WAIT] <= 1e-9:
            c[WAIT] = 0.0
    if hold.pause[0] <= 0.0 and c[BINS] > 0.0 and c[WAIT] <= 0.0:
        begin_step(hold, waiting)


@jit
def run_hold(hold: Hold, seconds: float, waiting: float) -> None:
    """Let the present step pass; what it held is free at its end, and the next one begins."""
    hold.pause[0] = max(0.0, hold.pause[0] - seconds)
    if hold.pause[0] == 0.0:
        hold.course[HELD] = 0.0
    await_hold(hold, seconds, waiting)


@jit
def take_hold(hold: Hold) -> float:
    """Seconds that the next batch owes: those of one step, which the batch after it may follow with another."""
    owed_s = hold.pause[0]
    hold.pause[0] = 0.0
    await_hold(hold, 0.0, 0.0)
    return owed_s


@jit
def take_hold_within(hold: Hold, seconds: float) -> float:
    """Seconds that a batch owes which has so long to go, where the migration begins before its end."""
    c = hold.course
    if not 0.0 < c[WAIT] < seconds:
        return 0.0
    c[WAIT] = 0.0
    await_hold(hold, 0.0, 0.0)
    return take_hold(hold)
