"""Plan of deployments of any size: from each level of the load, what each costs beyond the best one.

Where changes may be of any size, one reconfiguration leads to any rung of the ladder. So with D(x, m) the cost of being
at rung m when the load's level is x, beyond that of the best rung,

    D(x, m) = min( late(x, m) + ahead(x, m),  c_out + late(x, m) + min_{m' > m} ahead(x, m'),
                   c_in + min_{m' < m} late(x, m') + ahead(x, m') ),  less the least of all m,
    ahead(x, m) = rent(m) + sum_y P(y | x) D(y, m),

late(x, m) the chance that the next rate is above the rung's capacity times what that costs: replicas that are added
serve one slot later, those that are removed are gone at once. D is at most a change, because one can always change;
hence no discount is needed. A few levels are swept a slot, that of the present first; and more for some slots once a
capacity was learned to be another, because costs that were found for the old one would hold up what is needed now.

How many slots are late for each that is overloaded, the plant's memory included, is learned: apart for rates that
exceed the capacity by no more than the bound tolerates in one slot, and for those beyond.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scaler.model.hold import late_seconds
from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem
from scaler.model.queueing import CATCH_UP_SLOTS
from scaler.policies.planner.ladder import Ladder, effective_replicas
from scaler.policies.planner.load_chain import (
    LoadChain,
    share_overloaded,
    share_slightly_late,
    slightly_late,
    weigh_counts,
)

SWEEPS_PER_SLOT = 2  # of other levels, beside the present one and the one before
REPLANNING_SWEEPS_PER_SLOT, REPLANNING_SLOTS = 16, 4  # where a capacity has moved
CAPACITY_TOLERANCE = 0.03  # by which a capacity may move before that
FEW_VISITS, LEVELS_AHEAD, SWEEPS_OF_NEW_LEVELS = 4.0, 3, 2  # at levels that the load seldom came to
MAX_SKIPPED_LEVELS = 16  # never visited, passed over in a slot at most
PRIOR_SLIGHT = 4.0, 4.0  # slots slightly overloaded, and late for these, before any were seen
PRIOR_OVERLOADED = 4.0, 6.0  # likewise, of those overloaded by more
MAX_LATE_PER_OVERLOADED = 3.0
MAX_TOLERANCE = 0.25  # of an excess, however wide the bound: what lasts adds up
SLACK_SHARE = 0.6  # of the slack that what waits may take: it makes batches longer besides
LATENESS_MEMORY = 0.999
HOLD_SCATTER = 1.25  # times what is known of a hold, which changes are to have room for


class DeploymentPlan(NamedTuple):
    extra: Floats  # [L, O] D
    late: Floats  # [O] by rung, of the level last looked ahead from: the present one, after each slot
    ahead: Floats  # [O]
    full: Floats  # [O] scratch
    # [6] slots slightly overloaded, and late for these; by more, and late; all fading. Capacity of the deployment
    # before; whether the last overload was by more
    overloads: Floats
    turn: Integers  # [2] the next level to sweep; slots of replanning left
    planned_for: Floats  # [N] capacities of a replica that the costs were found for


def make_course(p: Problem, bins: int, deployments: int) -> DeploymentPlan:
    """Every deployment is as good as any other, one change away."""
    return DeploymentPlan(
        extra=np.full((bins, deployments), p.w_rcf),
        late=np.zeros(deployments),
        ahead=np.zeros(deployments),
        full=np.zeros(deployments),
        overloads=np.array([*PRIOR_SLIGHT, *PRIOR_OVERLOADED, 0.0, 1.0]),
        turn=np.zeros(2, np.int64),
        planned_for=np.zeros(len(p.price)),
    )


@jit
def price_slight(p: Problem, course: DeploymentPlan) -> float:
    """Cost of a slot that is slightly overloaded, with the late ones that follow it."""
    return p.w_perf * min(MAX_LATE_PER_OVERLOADED, course.overloads[1] / course.overloads[0])


@jit
def price_late(p: Problem, course: DeploymentPlan) -> float:
    """Cost of a slot that is overloaded by more, with the late ones that follow it."""
    return p.w_perf * min(MAX_LATE_PER_OVERLOADED, course.overloads[3] / course.overloads[2])


@jit
def hold_seconds(p: Problem, added: int, removed: int) -> float:
    """Seconds that a change of so many replicas may hold arrivals: what is known of it, and room for its scatter."""
    known = 0.0
    if added > 0 and p.hold_out_s > 0.0:
        known = p.hold_out_s + p.hold_out_each_s * (added - 1)
    elif added == 0 and removed > 0 and p.hold_in_s > 0.0:
        known = p.hold_in_s + p.hold_in_each_s * (removed - 1)
    return HOLD_SCATTER * known


@jit
def price_out(p: Problem, rate: float, capacity: float, usual_s: float, added: int = 1) -> float:
    """Cost of a change that adds so many replicas, from this capacity."""
    if not p.hold_out_s > 0.0:
        return p.w_rcf
    late = hold_s = hold_seconds(p, added, 0)
    if rate < capacity:
        late = min(late_seconds(hold_s, p.bound - usual_s, rate, 0.0, capacity, capacity), hold_s)
    return p.w_rcf + p.w_perf * late / p.slot_s


@jit
def price_in(p: Problem, rate: float, capacity: float, usual_s: float, removed: int = 1) -> float:
    """Cost of a change that removes so many replicas, down to this capacity."""
    if not p.hold_in_s > 0.0:
        return p.w_rcf
    hold_s = hold_seconds(p, 0, removed)
    late = late_seconds(hold_s, p.bound - usual_s, rate, 0.0, capacity, capacity)
    return p.w_rcf + p.w_perf * min(late / p.slot_s, CATCH_UP_SLOTS)


@jit
def overload_tolerance(p: Problem, usual_s: float) -> float:
    """Excess over capacity, as a share of it, that makes one whole slot late.

    Where batches take what has waited, a slot's excess is late by as many seconds as it takes to work off.
    """
    return min(MAX_TOLERANCE, SLACK_SHARE * max(0.0, p.bound - usual_s) / p.slot_s) if p.batched else 0.0


@jit
def look_ahead(p: Problem, course: DeploymentPlan, c: LoadChain, ladder: Ladder, x: int, usual_s: float) -> None:
    """Fill in late and ahead of every rung from a level."""
    bins, size, tolerance = c.visits.shape[0], ladder.size[0], overload_tolerance(p, usual_s)
    slight, price = price_slight(p, course), price_late(p, course)
    for m in range(size):
        course.late[m] = 0.0
        course.ahead[m] = 0.0
    own, pool = weigh_counts(c, x)
    total = 0.0
    moves = 0.0
    for y in range(bins):
        chance = own * c.rates[x, y] + pool * c.shifts[0, bins + y - x]
        if chance > 0.0:
            total += chance
            add_late(course, c, ladder, y, chance, tolerance, slight, price)
        chance = own * c.levels[x, y] + pool * c.shifts[1, bins + y - x]
        if chance > 0.0:
            moves += chance
            for m in range(size):
                course.ahead[m] += chance * course.extra[y, ladder.rungs[m]]
    full = 0.0  # of what all capacities from here on exceed
    for step in range(size):
        m = size - 1 - step
        full += course.full[m]
        course.full[m] = 0.0
        course.late[m] = (course.late[m] + price * full) / total
        course.ahead[m] = course.ahead[m] / moves + p.w_res * ladder.price[ladder.rungs[m]]


@jit
def add_late(
    course: DeploymentPlan, c: LoadChain, ladder: Ladder, y: int, chance: float, tolerance: float, slight: float,
    price: float,
) -> None:  # fmt: skip
    """Add the chance of a bin to the steps that its rates exceed: where all do by more than is tolerated, to `full`."""
    low, high = c.reach[y, 0], c.reach[y, 1]
    for step in range(ladder.size[0]):
        m = ladder.size[0] - 1 - step
        capacity = ladder.capacity[ladder.rungs[m]]
        if (1.0 + tolerance) * capacity < low:
            course.full[m] += chance
            return
        if capacity < high:
            share = slight * share_slightly_late(low, high, capacity, tolerance)
            course.late[m] += chance * (share + price * share_overloaded(low, high, capacity, tolerance))


@jit
def sweep_level(p: Problem, course: DeploymentPlan, c: LoadChain, ladder: Ladder, x: int, usual_s: float) -> None:
    """Bring D of one level up to date."""
    look_ahead(p, course, c, ladder, x, usual_s)
    size, rate = ladder.size[0], c.middle[x]
    above = math.inf
    least = math.inf
    for step in range(size):
        m = size - 1 - step
        o = ladder.rungs[m]
        out = price_out(p, rate, ladder.capacity[o], usual_s)
        course.extra[x, o] = course.late[m] + min(course.ahead[m], out + above)
        above = min(above, course.ahead[m])
    below = math.inf
    for m in range(size):
        o = ladder.rungs[m]
        course.extra[x, o] = min(course.extra[x, o], below)
        into = price_in(p, rate, ladder.capacity[o], usual_s)
        below = min(below, into + course.late[m] + course.ahead[m])
        least = min(least, course.extra[x, o])
    for m in range(size):
        course.extra[x, ladder.rungs[m]] -= least


@jit
def plan_course(p: Problem, course: DeploymentPlan, c: LoadChain, ladder: Ladder, before: int, usual_s: float) -> None:
    """A bounded piece of planning: some levels in turn, that of the slot before, and the present one."""
    bins, sweeps, skipped = c.visits.shape[0], SWEEPS_PER_SLOT, MAX_SKIPPED_LEVELS
    note_capacities(course, ladder)
    if course.turn[1] > 0:
        course.turn[1] -= 1
        sweeps, skipped = REPLANNING_SWEEPS_PER_SLOT, bins
    swept = 0
    for _ in range(skipped):
        x = course.turn[0]
        course.turn[0] = (x + 1) % bins
        if c.visits[x] > 0.0:
            sweep_level(p, course, c, ladder, x, usual_s)
            swept += 1
            if swept == sweeps:
                break
    if before != c.place[0]:
        sweep_level(p, course, c, ladder, before, usual_s)
    if c.visits[c.place[0]] < FEW_VISITS:
        explore_levels(p, course, c, ladder, usual_s)
    sweep_level(p, course, c, ladder, c.place[0], usual_s)


@jit
def explore_levels(p: Problem, course: DeploymentPlan, c: LoadChain, ladder: Ladder, usual_s: float) -> None:
    """Plan for a level that is new, and for those above it, which the load may come to next."""
    highest = min(c.visits.shape[0] - 1, c.place[0] + LEVELS_AHEAD)
    for _ in range(SWEEPS_OF_NEW_LEVELS):
        for below in range(highest - c.place[0] + 1):
            sweep_level(p, course, c, ladder, highest - below, usual_s)


@jit
def note_capacities(course: DeploymentPlan, ladder: Ladder) -> None:
    """Plan all levels anew over a few slots where a capacity is no longer what costs were found for."""
    for i in range(ladder.stood.shape[0]):
        each = ladder.stood[i, 0]
        if abs(each - course.planned_for[i]) > CAPACITY_TOLERANCE * course.planned_for[i]:
            course.planned_for[i] = each
            course.turn[1] = REPLANNING_SLOTS


@jit
def note_lateness(course: DeploymentPlan, seen: KernelView, arrivals: float, capacity: float, tolerance: float) -> None:
    """Count overloaded and late slots, the late ones for the last overload.

    What was added in this slot serves already where it is not late.
    """
    counts = course.overloads
    serves = min(capacity, counts[4]) if counts[4] > 0.0 else capacity
    counts[4] = capacity
    overloaded = arrivals > capacity or (arrivals > serves and seen.violated)
    if not overloaded and not seen.violated:
        return
    if overloaded:
        counts[5] = 1.0 if arrivals >= (1.0 + tolerance) * serves else 0.0
    first = 2 if counts[5] > 0.0 else 0
    for place in range(first, first + 2):
        counts[place] *= LATENESS_MEMORY
    if overloaded:
        counts[first] += 1.0 if first > 0 else slightly_late(arrivals, serves, tolerance)
    counts[first + 1] += seen.violated


@jit
def deployment_capacity(p: Problem, each: float, count: int) -> float:
    """Highest rate of a deployment whose slowest replicas are good for so much each."""
    return effective_replicas(p, count) * each
