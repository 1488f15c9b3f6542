"""Q-learning with linear function approximation (QL+FA): weights of tiles over the post-decision state, not a table.

Notation: x the parallelism that the action leads to, y the rate level, mask the set of node types then present, as a
binary number. Q(s, a) sums five features, of which three or four are active: one weight if the action scales in, one
if it scales out, and one tile of each tiling: rectangles over (x, y), the same shifted down in y by half a tile, and
stripes of slope 2 in the (x, y) plane. Every tiling is repeated per mask.

Every active weight moves by the whole alpha x error, as in the published code. So Q moves three or four times too far
while alpha is near 1, and a run lives with whatever that leaves behind: the cost varies widely between seeds, on
infrastructure B from .01 to .7. That variant, with gamma .99, is the one that agrees with the published rows, to the
digit where seeds do not matter (taxi, A, N_res 10, K_max 10) and within the spread of seeds in nearly all others; to
share alpha or not to discount is off by up to a factor of 30. `shared_step` divides alpha among the active features, as
Sutton & Barto (9.6) advise: steady, and with three node types of B far cheaper.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem, allowed, split_action
from scaler.model.policy import Kernel, Start
from scaler.policies.learning.q_values import cool_down, exploration, explores, first_rates, has_floors, slot_cost

LEVELS_PER_TILE = 2
SLOPE = 2


class State(NamedTuple):
    scaling: Floats  # [3] weights of doing nothing (stays 0), of scaling in, of scaling out
    grid: Floats  # [2^N, K + 1, tiles]
    shifted: Floats  # [2^N, K + 1, tiles]
    stripes: Floats  # [2^N, stripes]
    row: Integers  # [L] the tile of a level in `grid`
    shifted_row: Integers  # [L]
    stripe: Integers  # [K + 1, L]
    rates: Floats  # [2] alpha, epsilon
    clock: Integers  # [1]
    seed: Integers  # [1]
    shared_step: bool
    floors: bool  # of learning rate and exploration


def prepare(start: Start) -> State:
    task = start.task
    masks = 1 << len(task.types)
    tiles = math.ceil(task.levels / LEVELS_PER_TILE)
    half = task.levels / tiles / 2.0
    stripe = cut_stripes(task.k_max, task.levels)
    return State(
        scaling=np.zeros(3),
        grid=np.zeros((masks, task.k_max + 1, tiles + 1)),
        shifted=np.zeros((masks, task.k_max + 1, tiles + 1)),
        stripes=np.zeros((masks, int(stripe.max()) + 1)),
        row=cut_levels(task.levels, tiles, 0.0, task.levels),
        shifted_row=cut_levels(task.levels, tiles, -half, task.levels + 1.0),
        stripe=stripe,
        rates=first_rates(),
        clock=np.zeros(1, np.int64),
        seed=np.array([start.seed], np.int64),
        shared_step=bool(start.options.get("shared_step", False)),
        floors=has_floors(start.options),
    )


def cut_levels(levels: int, tiles: int, low: float, high: float) -> Integers:
    """The tile of each level when [low, high] is cut into `tiles` intervals open at the left: `low` has its own."""
    return np.array([math.ceil(tiles / (high - low) * (level - low)) for level in range(levels)], np.int64)


def cut_stripes(k_max: int, levels: int) -> Integers:
    """The stripe of each (parallelism, level): the offset q = y - SLOPE x cut into whole widths."""
    lowest = -SLOPE * (k_max + 1)
    highest = levels - SLOPE
    width = (highest - lowest) // (k_max + 1)
    offset = np.arange(levels)[None, :] - SLOPE * np.arange(k_max + 1)[:, None]
    return ((offset - lowest) // width).astype(np.int64)


@jit
def mask_of(k: Integers) -> int:
    """The set of node types present, as a binary number."""
    mask = 0
    for i in range(k.shape[0]):
        if k[i] > 0:
            mask |= 1 << i
    return mask


@jit
def mask_after(k: Integers, mask: int, action: int) -> int:
    """The set of node types present once an action has been taken."""
    delta, i = split_action(k.shape[0], action)
    if delta < 0:
        return mask ^ (1 << i) if k[i] == 1 else mask
    return mask | (1 << i) if delta > 0 else mask


@jit
def kind_of(types: int, action: int) -> int:
    """0 for nothing, 1 for one replica less, 2 for one more."""
    if action == 0:
        return 0
    return 1 if action <= types else 2


@jit
def value(s: State, kind: int, mask: int, count: int, level: int) -> float:
    """The sum of the active weights."""
    rectangles = s.grid[mask, count, s.row[level]] + s.shifted[mask, count, s.shifted_row[level]]
    return s.scaling[kind] + rectangles + s.stripes[mask, s.stripe[count, level]]


@jit
def move(s: State, kind: int, mask: int, count: int, level: int, step: float) -> None:
    """Add a step to every active weight."""
    s.grid[mask, count, s.row[level]] += step
    s.shifted[mask, count, s.shifted_row[level]] += step
    s.stripes[mask, s.stripe[count, level]] += step
    if kind != 0:
        s.scaling[kind] += step


@jit
def worth_from(p: Problem, s: State, k: Integers, seen: KernelView, mask: int, action: int) -> float:
    after = mask_after(k, mask, action)
    return value(s, kind_of(k.shape[0], action), after, seen.count + split_action(k.shape[0], action)[0], seen.level)


@jit
def worth(p: Problem, s: State, k: Integers, seen: KernelView, action: int) -> float:
    return worth_from(p, s, k, seen, mask_of(k), action)


@jit
def best(p: Problem, s: State, k: Integers, seen: KernelView) -> tuple[int, float]:
    """The cheapest allowed action and its value; ties go to the first."""
    mask = mask_of(k)
    choice = 0
    least = worth_from(p, s, k, seen, mask, 0)
    for action in range(1, 2 * k.shape[0] + 1):
        if allowed(p, k, seen.count, action):
            q = worth_from(p, s, k, seen, mask, action)
            if q < least:
                least = q
                choice = action
    return choice, least


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    if explores(s.seed[0], s.clock[0], s.rates[1]):
        return exploration(p, k, seen.count, s.seed[0], s.clock[0])
    return best(p, s, k, seen)[0]


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    target = slot_cost(p, action, seen) + p.gamma * best(p, s, k, seen)[1]
    kind = kind_of(k.shape[0], action)
    mask = mask_of(k)
    step = s.rates[0] * (target - value(s, kind, mask, seen.count, before.level))
    if s.shared_step:
        step /= 3 if kind == 0 else 4
    move(s, kind, mask, seen.count, before.level, step)
    cool_down(s.rates, s.clock, s.floors)


QL_FA = Kernel(
    title="QL+FA",
    prepare=prepare,
    decide=decide,
    learn=learn,
    worth=worth,
    measure=lambda s: s.grid.nbytes + s.shifted.nbytes + s.stripes.nbytes,
    options=("shared_step", "schedules_as_written"),
)
