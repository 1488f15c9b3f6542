"""Markov chain of the load's level: where rates stand in the next slot, and where the level moves.

The level follows the rates smoothly while they scatter about it, the faster the longer they stay on one side of it
(Trigg and Leach, 1967: it does not lag behind a ramp), and goes at once to one that is far off: so noise is told from
changes. A load that falls silent from one slot to the next proves nothing at first, for an upstream that lost its
replicas puts out nothing, and the load is as it was: `silence` says so for some slots. Levels and rates are counted in
logarithmic bins. What a level has shown rarely is filled in by how far rates and levels were from where they had been
at all levels together (the pool).

Actions do not change arrivals, so every slot teaches, whatever is deployed.

Notation: L bins; a bin's rates are taken to be spread evenly about their mean.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers

BINS = 64
BIN_WIDTH = 0.05  # of the rate's logarithm
TOP_MARGIN = 1.1  # over the highest rate that was stated, where bins end
LEAST_SMOOTHING, SIDE_GAIN = 0.15, 0.2  # of the level; weight of a slot in the mean distance from it
JUMP_FACTOR = 3.5  # times the usual distance from the level, beyond which the level has moved
SPREAD_GAIN, FIRST_SPREAD, LEAST_SPREAD = 0.05, 0.1, 1e-3  # of that distance; shares of the level
DEVIATION_PER_DISTANCE = 1.25  # standard deviation over mean distance, of normal noise
SILENT_SHARE = 0.05  # of the level, below which a load is silent
SLOTS_OF_SILENCE = 3  # in which it does not come back, after which the load is taken to have gone
PRIOR_VISITS = 3.0  # visits at one level that what all levels show stands for
VISITS_TO_HALVE = 2000.0  # at so many visits a level's counts are halved: what was seen long ago fades
SHIFTS_TO_HALVE = 50_000.0
BIN_GAIN = 0.02  # weight of a rate in its bin's mean once there are many


class LoadChain(NamedTuple):
    level: Floats  # [2] level, and the usual distance of rates from it
    side: Floats  # [2] mean distance of the last rates from the level, with its sign and without
    place: Integers  # [2] bin of the level; slots seen
    rates: Floats  # [L, L] by the level's bin, how often the next rate was in each bin
    levels: Floats  # [L, L] and the next level
    visits: Floats  # [L]
    shifts: Floats  # [2, 2 L + 1] bins from the level to the next rate, and to the next level
    shifted: Floats  # [1] how many of each
    middle: Floats  # [L] mean of a bin's rates
    spread: Floats  # [L] their variance
    reach: Floats  # [L, 2] from where to where they are taken to be spread evenly
    sights: Integers  # [L] rates seen in a bin
    lowest: Floats  # [1] rate up to which the first bin reaches
    silence: Floats  # [2] slots since the load fell silent, 0 once it is back or gone; the level before


def make_chain(highest_rate: float, bins: int = BINS) -> LoadChain:
    """Nothing seen yet: the load is taken to stay where it is."""
    lowest = TOP_MARGIN * highest_rate * math.exp(-BIN_WIDTH * (bins - 1))
    shifts = np.zeros((2, 2 * bins + 1))
    shifts[:, bins] = 1.0
    middle = lowest * np.exp(BIN_WIDTH * (np.arange(bins) - 0.5))
    return LoadChain(
        level=np.zeros(2),
        side=np.zeros(2),
        place=np.zeros(2, np.int64),
        rates=np.zeros((bins, bins)),
        levels=np.zeros((bins, bins)),
        visits=np.zeros(bins),
        shifts=shifts,
        shifted=np.ones(1),
        middle=middle,
        spread=(BIN_WIDTH * middle) ** 2 / 12.0,
        reach=middle[:, None] * (1.0 + BIN_WIDTH * np.array([-0.5, 0.5])),
        sights=np.zeros(bins, np.int64),
        lowest=np.array([lowest]),
        silence=np.zeros(2),
    )


@jit
def bin_of(c: LoadChain, rate: float) -> int:
    """The bin that a rate falls into; the last has all that exceed it."""
    if rate <= c.lowest[0]:
        return 0
    return min(c.visits.shape[0] - 1, 1 + int(math.log(rate / c.lowest[0]) / BIN_WIDTH))


@jit
def highest_level(c: LoadChain) -> float:
    """Where the last bin begins, which has all rates beyond."""
    return c.lowest[0] * math.exp(BIN_WIDTH * (c.visits.shape[0] - 2))


@jit
def begin_level(c: LoadChain, rate: float) -> None:
    """The first rate is where the load is taken to stand."""
    c.level[0] = rate
    c.level[1] = FIRST_SPREAD * rate
    c.side[1] = c.level[1]
    c.place[0] = bin_of(c, rate)


@jit
def observe_level(c: LoadChain, rate: float) -> None:
    """Take one slot's rate in."""
    note_silence(c, rate)
    bins, was = c.visits.shape[0], c.place[0]
    follow_level(c, rate)
    seen, now = bin_of(c, rate), bin_of(c, c.level[0])
    note_rate(c, seen, rate)
    c.rates[was, seen] += 1.0
    c.levels[was, now] += 1.0
    c.visits[was] += 1.0
    c.shifts[0, bins + seen - was] += 1.0
    c.shifts[1, bins + now - was] += 1.0
    c.shifted[0] += 1.0
    if c.visits[was] >= VISITS_TO_HALVE:
        c.visits[was] *= 0.5
        for j in range(bins):
            c.rates[was, j] *= 0.5
            c.levels[was, j] *= 0.5
    if c.shifted[0] >= SHIFTS_TO_HALVE:
        c.shifted[0] *= 0.5
        for j in range(2 * bins + 1):
            c.shifts[0, j] *= 0.5
            c.shifts[1, j] *= 0.5
    c.place[0] = now
    c.place[1] += 1


@jit
def note_silence(c: LoadChain, rate: float) -> None:
    """Count slots from the first in which next to nothing comes of a load that scatters less, until it is all back."""
    if c.silence[0] > 0.0:
        c.silence[0] += 1.0
        if rate >= c.silence[1] or c.silence[0] >= SLOTS_OF_SILENCE:
            c.silence[0] = 0.0
    elif rate < SILENT_SHARE * c.level[0] and c.level[0] - rate > JUMP_FACTOR * c.level[1]:
        c.silence[0], c.silence[1] = 1.0, c.level[0]


@jit
def follow_level(c: LoadChain, rate: float) -> None:
    """Move the level towards a rate that scatters as usual, and to one that does not."""
    off, usual = rate - c.level[0], c.level[1]
    if abs(off) > JUMP_FACTOR * usual:
        c.level[0] = rate
        c.level[1] += SPREAD_GAIN * (JUMP_FACTOR - 1.0) * usual
        c.side[0], c.side[1] = 0.0, usual
    else:
        c.side[0] += SIDE_GAIN * (off - c.side[0])
        c.side[1] += SIDE_GAIN * (abs(off) - c.side[1])
        c.level[0] += max(LEAST_SMOOTHING, abs(c.side[0]) / c.side[1] if c.side[1] > 0.0 else 0.0) * off
        c.level[1] += SPREAD_GAIN * (DEVIATION_PER_DISTANCE * abs(off) - usual)
    c.level[1] = max(c.level[1], LEAST_SPREAD * c.level[0])


@jit
def note_rate(c: LoadChain, place: int, rate: float) -> None:
    """Learn where the rates of a bin lie in it."""
    c.sights[place] += 1
    weight = max(1.0 / c.sights[place], BIN_GAIN)
    off = rate - c.middle[place]
    c.middle[place] += weight * off
    c.spread[place] += weight * ((1.0 - weight) * off * off - c.spread[place])
    half = math.sqrt(3.0 * c.spread[place])
    c.reach[place, 0], c.reach[place, 1] = c.middle[place] - half, c.middle[place] + half


@jit
def weigh_counts(c: LoadChain, level: int) -> tuple[float, float]:
    """Chance that a count at a level stands for, and one of all levels' shifts: less than 1 in all, near the ends."""
    own = 1.0 / (c.visits[level] + PRIOR_VISITS)
    return own, PRIOR_VISITS * own / c.shifted[0]


@jit
def slightly_late(rate: float, capacity: float, tolerance: float) -> float:
    """Weight of a rate that exceeds the capacity by less than is tolerated: the square of its share of that."""
    excess, ramp = rate - capacity, tolerance * capacity
    return (excess / ramp) ** 2 if 0.0 < excess < ramp else 0.0


@jit
def share_slightly_late(low: float, high: float, capacity: float, tolerance: float) -> float:
    """Mean of that over rates that are spread evenly."""
    if not high > low:
        return slightly_late(low, capacity, tolerance)
    ramp = tolerance * capacity
    if not ramp > 0.0:
        return 0.0
    to, begin = min(max(high - capacity, 0.0), ramp), min(max(low - capacity, 0.0), ramp)
    return (to * to * to - begin * begin * begin) / (3.0 * ramp * ramp * (high - low))


@jit
def share_overloaded(low: float, high: float, capacity: float, tolerance: float) -> float:
    """Share of rates spread evenly that exceed the capacity by more than is tolerated."""
    limit = (1.0 + tolerance) * capacity
    if not high > low:
        return 1.0 if low > capacity and low >= limit else 0.0
    return min(1.0, max(0.0, (high - limit) / (high - low)))


def forecast_rates(c: LoadChain, shares: Sequence[float]) -> list[float]:
    """Rates that the next slot's stays below with these chances."""
    level, bins = int(c.place[0]), len(c.visits)
    own, pool = weigh_counts(c, level)
    chances = np.cumsum(own * c.rates[level] + pool * c.shifts[0, bins - level : 2 * bins - level])
    rates = []
    for share in shares:
        wanted = share * chances[-1]
        place = int(np.searchsorted(chances, wanted))
        below = chances[place - 1] if place > 0 else 0.0
        low, high = c.reach[place].tolist()
        rates.append(max(0.0, low + (high - low) * float((wanted - below) / (chances[place] - below))))
    return rates


def inherit_chain(own: LoadChain, before: LoadChain) -> LoadChain:
    """Hand what was seen over to bins that may end elsewhere: each goes to where its mean rate falls."""
    chain = copy.deepcopy(own)
    places = [int(bin_of(own, rate)) for rate in before.middle.tolist()]
    for name in ("rates", "levels"):
        np.add.at(getattr(chain, name), np.ix_(places, places), getattr(before, name))
    np.add.at(chain.visits, places, before.visits)
    for old, new in enumerate(places):
        if before.sights[old] > chain.sights[new]:
            for name in ("middle", "spread", "reach", "sights"):
                getattr(chain, name)[new] = getattr(before, name)[old]
    for name in ("level", "side", "shifts", "shifted"):
        getattr(chain, name)[...] = getattr(before, name)
    chain.place[:] = bin_of(own, float(before.level[0])), before.place[1]
    return chain
