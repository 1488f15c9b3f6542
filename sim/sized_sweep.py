"""Backward dynamic programming over deployments of any size and the tuples that wait: the passes of the sized floor.

`sweep_back` takes replicas to serve at once. `sweep_with_starts` is for start-ups of a slot or more, where options are
sorted by what they get through. There a replica that serves in a slot was paid in that slot and in the one before, and
a slot's answers may count on what serves in the next. So let o(t) be the better of what serves at best in slots t and
t + 1. Then o(t) is paid in slot t; no more serves in slot t than the lesser of o(t - 1) and o(t); no slot is in time
that o(t) could not bring in time; and o changes no more often than what serves does, because a running maximum rises
and falls only where its terms do. Hence the least cost of all sequences o, at these terms, is a lower bound.

Notation: S deployments, Q levels of the queue.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, Problem


class Options(NamedTuple):
    """The deployments that may be wanted."""

    count: Integers  # type: ignore[assignment]  # [S]; shadows tuple.count
    rank: Integers  # [S] of the slowest type that it may have
    limit: Floats  # [S] highest rate that it answers in time, work that is left aside
    keeps_up: Floats  # [S] rate from which on that limit says nothing
    work_rate: Floats  # [S] tuples per second that get through
    wait: Floats  # [S] seconds that the fluid's mean wait may take
    patience: Floats  # [S] tuples that may wait all through a slot
    lost: Floats  # [S] tuples that a slot that is in time leaves for the overhead of a batch that it has to start
    share: (
        Floats  # [S] of the time that answers may take, what a tuple adds to its batch; 0 where no batch has to start
    )
    phase: Floats  # [S] of that time, what a second of waiting takes, of the tuple that decides


class Grid(NamedTuple):
    """The levels of the queue, and over how many slots before this one tuples may have come that are in time."""

    tuples: Floats  # [Q] rising, the first 0
    slot_s: float
    reach: int


@jit
def is_late(
    o: Options, s: int, slot_s: float, rate: float, least_rate: float, newest: float, waiting: float, left: float
) -> bool:
    """Whether a slot must be late that begins with so many tuples and ends with so many.

    Tuples that came at `newest` a second at most, and are answered together, have waited the longer the more they are.
    """
    if least_rate > o.limit[s] and rate < o.keeps_up[s]:
        return True
    patience = o.patience[s]
    if o.phase[s] > 0.0 and rate > 0.0:
        patience = min(patience, newest / (o.share[s] * newest + o.phase[s]))
    if min(waiting, left) > patience:
        return True
    if o.wait[s] == math.inf:
        return False
    if left > 0.0:
        return (waiting + left) / 2.0 / o.work_rate[s] > o.wait[s]
    served = waiting + rate * slot_s
    return waiting > 0.0 and waiting * waiting / 2.0 / (o.work_rate[s] - rate) / served > o.wait[s]


@jit
def highest_since(rates: Floats, t: int, slots: int) -> float:
    """The highest rate of a slot and of so many before it."""
    highest = rates[t]
    for before in range(max(0, t - slots), t):
        highest = max(highest, rates[before])
    return highest


@jit
def sweep_back(
    p: Problem,
    options: Options,
    grid: Grid,
    rates: Floats,
    prices: Floats,
    value: Floats,
    later: Floats,
    best: Floats,
) -> None:
    """One backward pass; `value` [S, Q] becomes the cost from the first slot on, `best` [Q] that of what is best."""
    states, levels, slots = value.shape[0], value.shape[1], rates.shape[0]
    for back in range(slots):
        t = slots - 1 - back
        row = t if prices.shape[0] > 1 else 0
        least_rate = min(rates[t], rates[max(0, t - 1)]) if levels > 1 else rates[t]
        newest = highest_since(rates, t, grid.reach)
        for q in range(levels):
            best[q] = math.inf
            for s in range(states):
                later[s, q] = value[s, q]
                best[q] = min(best[q], value[s, q])
        for s in range(states):
            place, kept = 0, 0
            lost = options.lost[s] if rates[t] > 0.0 else 0.0
            for q in range(levels):
                waiting = grid.tuples[q]
                left = waiting + (rates[t] - options.work_rate[s]) * grid.slot_s
                if levels > 1:
                    place = level_below(grid, place, left)
                    kept = level_below(grid, kept, left + lost)
                moved = p.w_perf + min(later[s, place], p.w_rcf + best[place])
                if not is_late(options, s, grid.slot_s, rates[t], least_rate, newest, waiting, left):
                    moved = min(moved, min(later[s, kept], p.w_rcf + best[kept]))
                value[s, q] = moved + p.w_res * prices[row, s]


@jit
def sweep_with_starts(
    p: Problem,
    options: Options,
    grid: Grid,
    rates: Floats,
    prices: Floats,
    value: Floats,
    later: Floats,
    above: Floats,
    below: Floats,
    alike: bool,
) -> None:
    """The same, of replicas that start in a slot or more, options sorted by work rate; `value` [S, Q] is by o(t - 1).

    `above` [S, Q] is the least from a slot on of an option and those beyond it, `below` [Q] of those before an option.
    No more than a first deployment that is `alike`, of one type, can serve in the second slot.
    """
    states, levels, slots = value.shape[0], value.shape[1], rates.shape[0]
    for back in range(slots):
        t = slots - 1 - back
        row = t if prices.shape[0] > 1 else 0
        least_rate, newest = min(rates[t], rates[max(0, t - 1)]), highest_since(rates, t, grid.reach)
        for q in range(levels):
            below[q] = math.inf
            least = math.inf
            for step in range(states):
                s = states - 1 - step
                later[s, q] = value[s, q]
                least = min(least, value[s, q] + p.w_res * prices[row, s])
                above[s, q] = least
        for s in range(states):
            place, kept, enough = 0, 0, s + 1
            lost = options.lost[s] if rates[t] > 0.0 else 0.0
            for q in range(levels):
                waiting = grid.tuples[q]
                left = waiting + (rates[t] - options.work_rate[s]) * grid.slot_s
                place = level_below(grid, place, left)
                kept = level_below(grid, kept, left + lost)
                stays = p.w_perf + later[s, place]
                if not is_late(options, s, grid.slot_s, rates[t], least_rate, newest, waiting, left):
                    stays = min(stays, later[s, kept])
                stays += p.w_res * prices[row, s]
                moves = below[q]
                if s + 1 < states:
                    moves = min(moves, p.w_perf + above[s + 1, place])
                while enough < states and is_late(
                    options, enough, grid.slot_s, rates[t], least_rate, newest, waiting, left
                ):
                    enough += 1
                if enough < states:
                    moves = min(moves, above[enough, kept])
                value[s, q] = stays if alike and t == 0 else min(stays, p.w_rcf + moves)
                below[q] = min(below[q], stays)


@jit
def level_below(grid: Grid, place: int, tuples: float) -> int:
    """The highest level up to so many tuples, from this one on."""
    while place + 1 < grid.tuples.shape[0] and grid.tuples[place + 1] <= tuples:
        place += 1
    return place
