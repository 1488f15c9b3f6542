"""States, first values and rewards of Azimi's learner: levels of latency, and whether the load rises.

A state is (L, rising): L the mean latency of a window in steps of the granularity, G the level of the target. L < G is
safe, all else in danger. Values are by action, in the order in which ties are broken: nothing, out, in.

    first values (n = L / G)       out            nothing   in
    safe, rising                   n              1 - n     0
    danger, rising                 1 (text: n)    0 (n - 1) -1
    danger, not rising             0              1         -1
    safe, not rising               0              n         1 - n

The reward of an action is that of the thesis's code, not of its four rules. With depth = L - G + 1, room = G - L and
scarcity = K / k: in danger + depth where latency or the queue fell, where it scaled out into rising trouble, or where
nothing was done and nothing grew worse; else - depth. In safety + 1, but - max(scarcity, room) where it did nothing as
load and latency fell, or scaled out needlessly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit, uniform
from scaler.model.kernel import Floats

NOTHING, OUT, IN = range(3)
STARTS = ("optimized", "as-written", "zero", "random")
PREFER_IN, PREFER_NOTHING = range(2)
REWARDS = ("scale-in", "nothing")


class Sight(NamedTuple):
    """What a decision sees."""

    level: int
    rising: bool
    queue: float  # batches that wait


def first_values(start: str, levels: int, danger: int, seed: int) -> Floats:
    """Values by state and action [2 levels, 3]; `danger` is G."""
    if start == "random":
        draws = [uniform(seed, i) for i in range(levels * 2 * 3)]
        return 2.0 * np.array(draws).reshape(levels * 2, 3) - 1.0
    q = np.zeros((levels * 2, 3))
    if start == "zero":
        return q
    for level in range(levels):
        n = level / danger
        falling, rising = 2 * level, 2 * level + 1
        if level < danger:
            q[rising] = 1.0 - n, n, 0.0
            q[falling] = n, 0.0, 1.0 - n
        else:
            q[rising] = (n - 1.0, n, -1.0) if start == "as-written" else (0.0, 1.0, -1.0)
            q[falling] = 1.0, 0.0, -1.0
    return q


@jit
def row_of(sight: Sight) -> int:
    return 2 * sight.level + (1 if sight.rising else 0)


@jit
def reward(
    before: Sight, action: int, now: Sight, danger: int, count: int, least: int, most: int, prefers: int
) -> float:
    """What the action was worth, by what came of it on `count` of `least` to `most` replicas."""
    if now.level >= danger:
        return reward_in_danger(before, action, now, danger, count == most)
    room, scarcity = float(danger - now.level), most / count
    if prefers == PREFER_NOTHING:
        return -max(scarcity, room) if before.level < danger and action == OUT else min(scarcity, room)
    falls = now.level < before.level or (now.level == 0 and before.level == 0)
    if before.level < danger and action == NOTHING and not now.rising and count != least and falls:
        return -max(scarcity, room)
    if action == OUT and now.level >= before.level and not now.rising:
        return -max(scarcity, room)
    return 0.0 if action == NOTHING and count == least else 1.0


@jit
def reward_in_danger(before: Sight, action: int, now: Sight, danger: int, full: bool) -> float:
    """Deeper is both worse and, once things mend, worth more."""
    depth = float(now.level - danger + 1)
    if now.level < before.level or now.queue < before.queue:
        return depth
    if action == OUT and (now.level == before.level or now.rising):
        return depth
    if action == NOTHING and full:
        return 1.0
    if action == NOTHING and now.level == before.level and not now.rising:
        return depth
    return -depth


@jit
def is_barred(action: int, last: int, before: int, level: int) -> bool:
    """Monotonicity: no way back from a change that was answered by latency going the same way as before it."""
    return (action == IN and last == OUT and level > before) or (action == OUT and last == IN and level < before)
