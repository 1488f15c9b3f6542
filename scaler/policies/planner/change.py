"""Choose a change of any size: the cost of staying and of every change, from the level that the load stands at.

While answers are late or tuples wait nothing is given away, by what is learned and by what is stated, because what is
learned then is of bad moments; nor in the first slots in which nothing comes any more. What it takes to catch up is
part of the cost, of deployments that are wanted for nothing else, too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scaler.model.jit import jit, jit_apart
from scaler.model.kernel import Integers, KernelView, Problem, action_of, delta_of
from scaler.policies.planner.catch_up import catch_up_slots, count_waiting, is_behind
from scaler.policies.planner.deployment_plan import (
    hold_seconds,
    overload_tolerance,
    price_in,
    price_late,
    price_out,
    price_slight,
)
from scaler.policies.planner.ladder import effective_replicas
from scaler.policies.planner.load_chain import share_overloaded, share_slightly_late, weigh_counts
from scaler.policies.planner.state import State

SAFE_FACTOR = 1.1  # by which an exchange must lead to more, while it is behind


class Deployed(NamedTuple):
    """A deployment that a change may lead to, and the direction of it."""

    slowest: int  # node type
    replicas: int
    price: float
    added: int
    removed: int
    place: int  # among the deployments of one type; -1 for a mixed one
    rung: int  # -1: none


class Present(NamedTuple):
    """The deployment of the slot, as changes are held against it."""

    slowest: int
    replicas: int
    capacity: float
    late: float  # expected cost of late answers in the next slot
    leaves: float  # what comes after the next slot for a deployment that is no rung: a change
    puts_off: float  # the same of this one where it stays: a change that comes later has its own slot to be late in
    behind: bool
    silent: bool  # whether the load fell silent, and may be back any slot


@jit
def arrivals_of(seen: KernelView) -> float:
    """Tuples that came a second; where nobody counted them apart, what there was to be served."""
    return seen.arrivals if math.isfinite(seen.arrivals) else seen.rate


@jit
def place_of(p: Problem, k: Integers, replicas: int) -> int:
    """The place of a deployment of one type; -1 for a mixed one."""
    for i in range(k.shape[0]):
        if k[i] == replicas and replicas > 0:
            return i * p.k_max + replicas - 1
    return -1


@jit
def capacity_of(p: Problem, s: State, slowest: int, replicas: int) -> float:
    """Highest rate that a deployment answers in time, all of it serving."""
    return effective_replicas(p, replicas) * float(s.capacity.each[slowest])


@jit
def begin_choice(p: Problem, s: State, k: Integers, seen: KernelView) -> Present:
    """What the present deployment makes of the next slot."""
    slowest = int(p.order[seen.slowest])
    capacity = capacity_of(p, s, slowest, seen.count)
    rung, least, later = rung_of(s, place_of(p, k, seen.count)), math.inf, math.inf
    late = s.course.late[rung] if rung >= 0 else late_at(p, s, capacity)
    for m in range(s.ladder.size[0]):
        o = s.ladder.rungs[m]
        after = s.course.ahead[m] - p.w_res * s.ladder.price[o]
        least = min(least, after)
        later = min(later, after + (late if s.ladder.capacity[o] > capacity else s.course.late[m]))
    silent = bool(s.chain.silence[0] > 0.0)
    return Present(slowest, seen.count, capacity, late, p.w_rcf + least, p.w_rcf + later, is_behind(seen), silent)


@jit
def late_at(p: Problem, s: State, capacity: float) -> float:
    """Expected cost of late answers in the next slot at a capacity."""
    c, tolerance, x = s.chain, overload_tolerance(p, s.usual[0]), s.chain.place[0]
    slight, price = price_slight(p, s.course), price_late(p, s.course)
    own, pool = weigh_counts(c, x)
    bins, cost, total = c.visits.shape[0], 0.0, 0.0
    for y in range(bins):
        here, low, high = own * c.rates[x, y] + pool * c.shifts[0, bins + y - x], c.reach[y, 0], c.reach[y, 1]
        total += here
        if here > 0.0:
            cost += here * slight * share_slightly_late(low, high, capacity, tolerance)
            cost += here * price * share_overloaded(low, high, capacity, tolerance)
    return cost / total


@jit
def deploy_alone(p: Problem, k: Integers, seen: KernelView, place: int, rung: int) -> Deployed:
    """A deployment of one type, by its place."""
    kind, wanted = place // p.k_max, place % p.k_max + 1
    added, removed = max(0, wanted - k[kind]), seen.count - min(wanted, k[kind])
    return Deployed(kind, wanted, wanted * p.price[kind], added, removed, place, rung)


@jit
def deploy_beside(p: Problem, s: State, k: Integers, seen: KernelView, kind: int, added: int) -> Deployed:
    """So many replicas of a type more."""
    slowest = kind if p.rank[kind] < seen.slowest else int(p.order[seen.slowest])
    replicas = seen.count + added
    place = place_of(p, k, seen.count)
    if place >= 0 and place // p.k_max == kind:
        place += added
    else:
        place = -1
    return Deployed(slowest, replicas, seen.price + added * p.price[kind], added, 0, place, rung_of(s, place))


@jit
def deploy_after(p: Problem, s: State, k: Integers, action: int) -> Deployed:
    """The deployment to which an action leads."""
    replicas, price, added, removed, place = 0, 0.0, 0, 0, -1
    slowest = int(p.order[0])
    for i in range(k.shape[0]):
        replicas += k[i] + delta_of(p, k, action, i)
    for r in range(k.shape[0]):
        i = int(p.order[k.shape[0] - 1 - r])
        delta = delta_of(p, k, action, i)
        price += (k[i] + delta) * p.price[i]
        added, removed = added + max(0, delta), removed + max(0, -delta)
        if k[i] + delta > 0:
            slowest = i
        if k[i] + delta == replicas:
            place = i * p.k_max + replicas - 1
    return Deployed(slowest, replicas, price, added, removed, place, rung_of(s, place))


@jit
def rung_of(s: State, place: int) -> int:
    """The rung that a deployment of one type is; -1 for none."""
    for m in range(s.ladder.size[0]):
        if s.ladder.rungs[m] == place:
            return m
    return -1


@jit
def cost_of(p: Problem, s: State, seen: KernelView, present: Present, to: Deployed) -> float:
    """Cost of a change, of staying for none; infinite where it would give away what is needed."""
    level, usual_s = s.chain.level[0], s.usual[0]
    capacity = capacity_of(p, s, to.slowest, to.replicas)
    if present.behind and to.added + to.removed > 0 and not is_surely_more(p, present, to, capacity):
        return math.inf
    if present.silent and to.removed > 0 and capacity < present.capacity:
        return math.inf
    cost = p.w_res * to.price + (present.leaves if to.added + to.removed > 0 else present.puts_off)
    if to.rung >= 0:
        cost = float(s.course.ahead[to.rung])
    if to.added > 0:
        cost += present.late + price_out(p, level, present.capacity, usual_s, to.added)
    elif to.removed > 0:
        cost += float(s.course.late[to.rung]) if to.rung >= 0 else late_at(p, s, capacity)
        cost += price_in(p, level, capacity, usual_s, to.removed)
    else:
        cost += present.late
    if seen.violated:
        cost += cost_to_catch_up(p, s, seen, present, to)
    return cost


@jit
def is_surely_more(p: Problem, present: Present, to: Deployed, capacity: float) -> bool:
    """Whether a change leads to more, as learned and as stated; an exchange to clearly more."""
    factor = SAFE_FACTOR if to.removed > 0 else 1.0
    stated = to.replicas * p.speedup[to.slowest] > factor * present.replicas * p.speedup[present.slowest]
    return to.added > 0 and stated and capacity > factor * present.capacity


@jit
def cost_to_catch_up(p: Problem, s: State, seen: KernelView, present: Present, to: Deployed) -> float:
    """Late slots and rent until what waits is worked off; what is added serves after the next slot, and may hold it."""
    arrivals, service = arrivals_of(seen), s.capacity.service
    serves = effective_replicas(p, present.replicas) / service[present.slowest]
    will = effective_replicas(p, to.replicas) / service[to.slowest]
    waiting = count_waiting(seen, arrivals, s.usual[0]) + arrivals * hold_seconds(p, to.added, to.removed)
    return catch_up_slots(p, waiting, arrivals, serves, will) * (p.w_perf + p.w_res * to.price)


@jit
def is_to_be_had(p: Problem, k: Integers, kind: int, added: int, replicas: int) -> bool:
    """Whether supply and the limits of replicas allow an addition."""
    return k[kind] + added <= p.most[kind] and p.k_min <= replicas <= p.k_max


@jit
def action_to(p: Problem, k: Integers, count: int, kind: int, wanted: int) -> int:
    """The action that leads to so many replicas of one type and no others."""
    others = count - k[kind]
    if others == 0:
        return action_of(p, k, kind, wanted - k[kind])
    if others == 1 and wanted == k[kind]:
        for i in range(k.shape[0]):
            if i != kind and k[i] == 1:
                return 1 + i
    return -1 - wanted * int(p.radix[kind])


@jit_apart
def choose_change(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    """The action that costs least."""
    if s.chain.place[1] == 0:
        return 0
    present = begin_choice(p, s, k, seen)
    best = 0
    least = cost_of(p, s, seen, present, deploy_after(p, s, k, 0))
    for m in range(s.ladder.size[0]):
        kind, wanted = s.ladder.rungs[m] // p.k_max, s.ladder.rungs[m] % p.k_max + 1
        if (wanted == k[kind] and wanted == seen.count) or (wanted > k[kind] and wanted > p.most[kind]):
            continue
        cost = cost_of(p, s, seen, present, deploy_alone(p, k, seen, s.ladder.rungs[m], m))
        if cost < least:
            best, least = action_to(p, k, seen.count, kind, wanted), cost
    return catch_up(p, s, k, seen, present, best, least) if seen.violated else best


@jit
def catch_up(p: Problem, s: State, k: Integers, seen: KernelView, present: Present, best: int, least: float) -> int:
    """The same among all that is more, other types beside the present ones included."""
    for i in range(k.shape[0]):
        for n in range(1, p.k_max + 1):
            if is_to_be_had(p, k, i, n, seen.count + n):
                cost = cost_of(p, s, seen, present, deploy_beside(p, s, k, seen, i, n))
                if cost < least:
                    best, least = action_of(p, k, i, n), cost
            if k[i] < min(n, seen.count) and is_to_be_had(p, k, i, n - k[i], n):
                place = i * p.k_max + n - 1
                cost = cost_of(p, s, seen, present, deploy_alone(p, k, seen, place, rung_of(s, place)))
                if cost < least:
                    best, least = action_to(p, k, seen.count, i, n), cost
    return best


@jit_apart
def worth_of(p: Problem, s: State, k: Integers, seen: KernelView, action: int) -> float:
    """What an action costs beyond staying."""
    if action == 0 or s.chain.place[1] == 0:
        return 0.0 if action == 0 else p.w_rcf
    present = begin_choice(p, s, k, seen)
    cost = cost_of(p, s, seen, present, deploy_after(p, s, k, action))
    return cost - cost_of(p, s, seen, present, deploy_after(p, s, k, 0)) if math.isfinite(cost) else p.w_rcf
