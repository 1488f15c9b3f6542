"""Replay an application whose operators share the slots of an estate, with a pool policy in every region.

Slot t: the new rate arrives and the replicas answer it; every operator, upstream first, learns from what was really
done, decides and requests one replica more or fewer; the grant refuses some with a reason; others are placed on active
nodes, or refused where none has a free slot. Then every region's pool policy sees its nodes after that, learns, and
orders or releases nodes. Everything holds from slot t + 1 on.

The slots are the published world's: an operator's plant remembers nothing, and one replica changes at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.jit import jit
from scaler.model.joint_changes import weigh_wish
from scaler.model.kernel import Floats, Integers, KernelView, Problem, first_step, split_action
from scaler.model.policy import Decide, Learn
from scaler.model.pool import (
    GRANTED,
    NO_SLOT,
    REFUSALS,
    VIEW_FIELDS,
    GrantKernel,
    PoolKernel,
    PoolStart,
    Requests,
    keep_view,
    read_view,
)
from scaler.policies.grants import find_grant, start_grant
from scaler.policies.pools import find_pool, start_pool
from sim.compiler import compile_kernel, start_compiling
from sim.estate import (
    ABSENT,
    Estate,
    Site,
    count_hosted,
    lay_out_estate,
    pass_slot,
    path_delays,
    pick_node,
    remove_replica,
    resize_region,
    view_region,
)
from sim.operator_replay import begin_replay
from sim.plant import memoryless, no_queue
from sim.replay import Baton, apply_action, hand_over, measure_deployment, take_over
from sim.setting import Setting, tasks
from sim.sharing import Course, Links, gather, inflow, is_late, link, look
from sim.simulate import operator_seed

SLOTS, LATE, MOVED, REPLICAS, NODES, NODE_PRICE, SHORT, POOL_COST = range(8)  # columns of the sums
COLUMNS = 8


@dataclass(frozen=True, slots=True)
class EstateSetting:
    """An application on an estate: who decides on replicas, on requests and on nodes."""

    setting: Setting
    site: Site
    pool: str
    pool_options: Mapping[str, Any] = field(default_factory=dict)
    grant: str = "all"
    grant_options: Mapping[str, Any] = field(default_factory=dict)
    empties: bool = False  # whether scale-in picks the replica whose node empties soonest; else any
    w_refused: float = 0.7  # of the pools' cost, by which they are compared

    def __post_init__(self) -> None:
        if self.setting.plant != "memoryless" or self.setting.one_at_a_time is False:
            raise BadInput("an estate is replayed in slots without memory, one replica at a time")
        if len(self.setting.infrastructure.types) != 1:
            raise BadInput("replicas on an estate are alike; name one node type")


@dataclass(frozen=True, slots=True)
class EstateRun:
    """Averages over all slots, and the same by block of slots."""

    slots: int
    violations: float
    reconfigurations: float
    replicas: float
    nodes: float
    node_price: float  # per hour
    short: float  # share of slots in which a request found no slot
    refused: Mapping[str, int]  # requests, by reason
    blocks: Mapping[str, Floats]  # of each measure, by block


class EstateCourse(NamedTuple):
    """What is carried from slot to slot beside the operators' course."""

    requests: Requests
    reasons: Integers  # [n]
    refused: Integers  # [reasons] requests so far
    short: Integers  # [R] requests of the slot that found no slot
    busy: Floats  # [R, 2] utilisation of the slot's replicas, summed, and their number
    views: Floats  # [R, VIEW_FIELDS] of the slot before
    done: Integers  # [R] nodes ordered or released then
    w_refused: float
    empties: bool
    seed: int


def replay_estate(stated: EstateSetting, seed: int = 0, block: int | None = None) -> EstateRun:
    """Replay the whole trace; `block` slots are summed together (default: all)."""
    start_compiling()
    setting, site = stated.setting, stated.site
    operations = [
        begin_replay(task, setting, operator, operator_seed(seed, i))
        for i, (task, operator) in enumerate(zip(tasks(setting), setting.application.operators, strict=True))
    ]
    pool, grant, n = find_pool(stated.pool), find_grant(stated.grant), len(operations)
    starts = (PoolStart(region, stated.pool_options) for region in site.regions)
    pools = tuple(start_pool(pool, start) for start in starts)
    estate = lay_out_estate(site, setting.application)
    links = link(setting)
    links = links._replace(limits=links.limits - path_delays(site, setting.application))
    rates = setting.trace.rates[:]
    block = block or len(rates)
    sums = np.zeros((-(-len(rates) // block), COLUMNS))
    course = gather(operations, np.zeros(n, np.int64), np.zeros(2), 1)
    beside = start_course(stated, n, seed)
    world = (pools, start_grant(grant, n, stated.grant_options), estate, links, course, beside, rates, block, sums)
    first = operations[0].policy.kernel
    for one in operations:
        one.policy.state = first.grow(one.policy.state, len(rates))
    loop = make_estate_loop(first.decide, first.learn, pool, grant)
    (compile_kernel(loop) if first.compiles else loop)(
        tuple(one.told for one in operations),
        tuple(one.policy.state for one in operations),
        tuple(one.plant for one in operations),
        *world,
    )
    return summarise_estate(sums, beside)


def start_course(stated: EstateSetting, n: int, seed: int) -> EstateCourse:
    regions = len(stated.site.regions)
    return EstateCourse(
        requests=Requests(
            delta=np.zeros(n, np.int64),
            node=np.zeros(n, np.int64),
            room=np.zeros(n, np.int64),
            wish=np.zeros(n, np.int64),
            worth=np.ones(n),
        ),
        reasons=np.zeros(n, np.int64),
        refused=np.zeros(len(REFUSALS) + 1, np.int64),
        short=np.zeros(regions, np.int64),
        busy=np.zeros((regions, 2)),
        views=np.zeros((regions, VIEW_FIELDS)),
        done=np.zeros(regions, np.int64),
        w_refused=stated.w_refused,
        empties=stated.empties,
        seed=seed,
    )


def summarise_estate(sums: Floats, beside: EstateCourse) -> EstateRun:
    slots = sums[:, SLOTS]
    names = {"violations": LATE, "reconfigurations": MOVED, "replicas": REPLICAS, "nodes": NODES,
             "node_price": NODE_PRICE, "short": SHORT}  # fmt: skip
    return EstateRun(
        slots=int(slots.sum()),
        **{name: float(sums[:, column].sum() / slots.sum()) for name, column in names.items()},
        refused={REFUSALS[reason]: int(beside.refused[reason]) for reason in REFUSALS},
        blocks={name: sums[:, column] / slots for name, column in {**names, "pool_cost": POOL_COST}.items()},
    )


@jit
def serve_region(estate: Estate, beside: EstateCourse, o: int, count: int, utilisation: float) -> None:
    """Add an operator's replicas to the load of its region."""
    beside.busy[estate.home[o], 0] += count * min(1.0, utilisation)
    beside.busy[estate.home[o], 1] += count


@jit
def charge_slot(estate: Estate, course: Course, sums: Floats) -> None:
    """Count the slot's replicas and nodes."""
    sums[SLOTS] += 1.0
    for o in range(course.k.shape[0]):
        sums[REPLICAS] += course.k[o, 0]
    for r in range(estate.most.shape[0]):
        for node in range(estate.most[r]):
            if estate.until_active[r, node] != ABSENT:
                sums[NODES] += 1.0
                sums[NODE_PRICE] += estate.price[r]


@jit
def request_slot(p: Problem, estate: Estate, course: Course, beside: EstateCourse, o: int, seen: KernelView) -> None:
    """Write what an operator's action requests, and where a new replica would be placed."""
    action, r, node = course.actions[0, o], estate.home[o], -1
    beside.requests.delta[o] = split_action(1, action)[0]
    if beside.requests.delta[o] > 0:
        node = pick_node(estate, r)
    beside.requests.node[o] = node if node < 0 else r * estate.hosted.shape[1] + node
    beside.requests.room[o] = 0 if node < 0 else estate.slots[r] - count_hosted(estate, r, node)
    beside.requests.wish[o] = weigh_wish(p, course.k[o], seen, action, True)


@jit
def place_requests(
    tolds: tuple[Problem, ...], links: Links, estate: Estate, course: Course, beside: EstateCourse, t: int
) -> bool:
    """Make the granted requests, upstream first; an action that is refused becomes none."""
    moved = False
    n = course.k.shape[0]
    for place in range(n):
        o = links.sequence[place]
        delta, reason = beside.requests.delta[o], beside.reasons[o]
        if delta > 0 and reason == GRANTED:
            node = pick_node(estate, estate.home[o])
            if node < 0:
                reason = NO_SLOT
                beside.short[estate.home[o]] += 1
            else:
                estate.hosted[estate.home[o], node, o] += 1
        elif delta < 0 and reason == GRANTED:
            remove_replica(estate, o, beside.empties, beside.seed, t * n + o)
        if delta != 0:
            beside.refused[reason] += 1
        if reason != GRANTED:
            course.actions[0, o] = 0
        course.whole[o, 6] = course.actions[0, o]
        if course.actions[0, o] != 0:
            moved = True
            apply_action(tolds[o], course.k[o], course.actions[0, o], course.held[o], 0)
    return moved


@cache
def make_estate_loop(decide: Decide, learn: Learn, pool: PoolKernel, grant: GrantKernel) -> Any:
    """The loop with these policies built in, under a name of its own, by which numba files it."""
    decide_pool, learn_pool, settle = pool.decide, pool.learn, grant.grant

    def estate_loop(
        tolds: tuple[Problem, ...],
        states: tuple[Any, ...],
        plants: tuple[Any, ...],
        pools: tuple[Any, ...],
        granting: Any,
        estate: Estate,
        links: Links,
        course: Course,
        beside: EstateCourse,
        rates: Floats,
        block: int,
        sums: Floats,
    ) -> None:
        n, regions = course.k.shape[0], estate.most.shape[0]
        for t in range(rates.shape[0]):
            here = sums[t // block]
            charge_slot(estate, course, here)
            beside.busy[:] = 0.0
            beside.short[:] = 0
            for place in range(n):
                o = links.sequence[place]
                p, k = tolds[o], course.k[o]
                rate = inflow(links, o, rates[t], course.outputs[0])
                measured = measure_deployment(p, p, k)
                answered = memoryless(p, plants[o], k, measured[0], measured[3], rate)
                seen = look(p, p.bound, measured, rate, answered, no_queue(plants[o]))
                baton = Baton(course.reals[o], course.whole[o])
                before, action, begun = take_over(baton)
                if begun:
                    learn(p, states[o], k, before, action, seen)
                action = first_step(p, k, seen.count, decide(p, states[o], k, seen))
                hand_over(baton, seen, action, True)
                course.responses[0, o], course.outputs[0, o] = answered[1], answered[2]
                course.actions[0, o] = action
                serve_region(estate, beside, o, measured[0], answered[0])
                request_slot(p, estate, course, beside, o, seen)
            here[LATE] += is_late(links, course.responses[0], links.own)
            settle(granting, beside.requests, beside.reasons)
            here[MOVED] += place_requests(tolds, links, estate, course, beside, t)
            short = 0
            for r in range(regions):
                used = beside.busy[r, 0] / beside.busy[r, 1] if beside.busy[r, 1] > 0.0 else 0.0
                view = view_region(estate, r, used, beside.short[r])
                if t > 0:
                    learn_pool(pools[r], read_view(beside.views[r]), beside.done[r], view)
                keep_view(view, beside.views[r])
                beside.done[r] = resize_region(estate, r, decide_pool(pools[r], view))
                nodes = view.active + view.starting + beside.done[r]
                here[POOL_COST] += (1.0 - beside.w_refused) * nodes / estate.most[r] / regions
                here[POOL_COST] += beside.w_refused * (beside.short[r] > 0) / regions
                short += beside.short[r]
            here[SHORT] += short > 0
            pass_slot(estate)

    names = (decide, learn, decide_pool, settle)
    parts = "_".join(f"{one.__module__.rpartition('.')[2]}_{one.__name__}" for one in names)
    estate_loop.__qualname__ = f"estate_{parts}"
    return estate_loop
