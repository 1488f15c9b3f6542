"""Floor of the world with changes of any size: the least cost per slot of any policy, all rates known beforehand.

A change leads from any deployment to any other at the price of one reconfiguration, so that of two deployments with
equal capacity only the cheaper one is ever wanted: with R types and up to K replicas, at most R K are. Backward dynamic
programming over these, and over the tuples that wait where the plant keeps them.

In `memoryless` the floor is exact, unless prices change over time or supply ends: then each deployment is charged at
the cheapest make-up of the slot, and what is found is a lower bound. It is one in the plants with memory, too: changes
take no time, work is done at the full rate of the replicas (what waits is rounded down to levels), and replicas serve
at once, but in batches where start-ups take a slot or more: there none serves before it has been paid for a slot
(sized_sweep.py). A slot is then late only where it must be:

    backlog  the fluid's wait, or the queue's answer at a rate that the replicas keep up with, exceeds the bound
    batches  the shortest cycle does (`batch_limit`), or the batch of all that waits over the whole slot, with the time
             for which so many have waited (`measure_batches`); a slot in time has to start a batch, whose overhead
             does no work (`must_start`)

What an exchange of types replaces serves on until its replacements do, and is paid: at no time is more served with than
what is paid for. Where replicas start one after another, both serve side by side for a while, in up to twice the most
replicas and as one reconfiguration: each is then taken for two, of half the price.

Notation: S deployments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from scaler.model.kernel import Floats, Integers, Problem, lay_out, replica_response
from scaler.model.micro_batches import MicroBatches, phase_of, tuple_seconds
from scaler.model.task import Task
from sim.compiler import compile_kernel
from sim.floor import Bound, rate_limit
from sim.sized_sweep import Grid, Options, sweep_back, sweep_with_starts

LEVELS = 48  # of the queue, at least
FINEST_STEP = 0.01  # from level to level, of the work of a slot with the least that may be deployed
STEP_GROWTH = 0.03  # of a level, to the next
ROUNDING = 1e-9
QUEUE_MARGIN = 1.25  # over the longest queue that may wait all through a slot, where levels end


@dataclass(frozen=True, slots=True, eq=False)
class SizedWorld:
    """What the floor depends on beside the task."""

    first: Integers  # [N] deployment
    plant: str
    slot_s: float
    prices: Floats  # [T, N], or [0, N]: they stay
    staggered: bool = False  # whether the replicas of an exchange may start one after another
    start_s: float = 0.0  # no replica serves sooner after its order, and none that serves is ever lost; 0: not known


def has_floor(task: Task) -> bool:
    """Whether a lower bound is known: not where batches are cut apart, limited in size or noisy."""
    b = task.batches
    return b is None or (b.merge and b.most == 0.0 and b.noise_s == 0.0)


def sized_floor(
    task: Task, rates: Floats, world: SizedWorld, bound: float | None = None, shares: tuple[float, float] = (1.0, 1.0)
) -> Bound:
    """The least average slot cost over these rates.

    As one of several operators, with another bound and a share of the weights: of what happens, of resources.
    """
    p = lay_out(task if bound is None else replace(task, bound=bound))
    p = p._replace(w_perf=p.w_perf * shares[0], w_rcf=p.w_rcf * shares[0], w_res=p.w_res * shares[1])
    if world.staggered:
        p = p._replace(w_rcf=0.5 * p.w_rcf)
    options = list_options(task, p, rates, world)
    remembers = world.plant != "memoryless"
    queue = list_levels(options, world.slot_s) if remembers else np.zeros(1)
    grid = Grid(queue, world.slot_s, count_slots_reached(options, world.slot_s))
    levels = len(grid.tuples)
    varied = world.prices.shape[0] > 0
    prices = price_options(p, options, world.prices if varied else p.price[None, :], world.first)
    value, first = np.zeros((len(options.count), levels)), len(options.count) - 1
    if has_slow_starts(task, p, world):
        ranked = np.argsort(options.work_rate, kind="stable")
        first, columns = int(np.argmax(ranked)), (column[ranked] for column in options[2:])
        options = Options(options.count[ranked], options.rank[ranked], *columns)
        scratch, alike = (value.copy(), value.copy(), np.zeros(levels)), bool((world.first > 0).sum() == 1)
        compile_kernel(sweep_with_starts)(p, options, grid, rates, prices[:, ranked].copy(), value, *scratch, alike)
    else:
        compile_kernel(sweep_back)(p, options, grid, rates, prices, value, value.copy(), np.zeros(levels))
    exact = not remembers and not varied and bool((p.most >= p.k_max).all())
    return Bound(float(value[first, 0]) / max(1, len(rates)), exact)


def has_slow_starts(task: Task, p: Problem, world: SizedWorld) -> bool:
    """Whether replicas of batches start in a slot or more, and an answer in time takes no longer than one."""
    b = task.batches
    if b is None or world.plant != "batches" or world.staggered or not world.start_s >= world.slot_s:
        return False
    in_time = b.part > 0.0 and (p.bound - b.delay_s) / b.part <= world.slot_s
    return in_time and must_start(b, p.bound, p.quantile, world.slot_s)


def count_slots_reached(options: Options, slot_s: float) -> int:
    """Slots before a slot in which tuples may have come that it answers in time."""
    waits = float(options.phase.min(initial=math.inf))
    return math.ceil(1.0 / waits / slot_s) if waits > 0.0 else 0


def list_levels(options: Options, slot_s: float) -> Floats:
    """Levels of the queue: fine near zero, coarser by a share of themselves.

    What waits is rounded down, so in every slot up to a step is worked off for nothing: it has to be little beside the
    work of the deployments that so much waits for.
    """
    longest = QUEUE_MARGIN * float(options.patience[np.isfinite(options.patience)].max(initial=0.0))
    if longest <= 0.0:
        return np.array([0.0, 1.0])  # nothing may wait, yet slots depend on the one before
    finest = min(FINEST_STEP * float(options.work_rate.min()) * slot_s, longest / LEVELS)
    levels = [0.0]
    while levels[-1] < longest:
        levels.append(levels[-1] + max(finest, STEP_GROWTH * levels[-1]))
    return np.array(levels)


def list_options(task: Task, p: Problem, rates: Floats, world: SizedWorld) -> Options:
    """Every number of replicas with every slowest type that there is supply for."""
    most = 2 * p.k_max if world.staggered else p.k_max
    pairs = [(n, r) for n in range(p.k_min, most + 1) for r in range(len(p.order))]
    pairs = [(n, r) for n, r in pairs if int(p.most[p.order[r:]].sum()) >= n]
    pairs.append((int(world.first.sum()), min(int(p.rank[i]) for i in np.flatnonzero(world.first))))
    highest = float(rates.max()) if len(rates) else 0.0
    figures = [measure(task, p, n, float(p.speedup[p.order[r]]), highest, world) for n, r in pairs]
    columns = [np.array(column, np.float64) for column in zip(*figures, strict=True)]
    return Options(np.array([n for n, _ in pairs]), np.array([r for _, r in pairs]), *columns)


def measure(task: Task, p: Problem, count: int, speed: float, highest: float, world: SizedWorld) -> tuple[float, ...]:
    """Limit, the rate up to which it holds, tuples per second, wait, patience, loss, and shares of a batch's time."""
    if world.plant == "memoryless":
        return rate_limit(p, count, speed), math.inf, math.inf, math.inf, math.inf, 0.0, 0.0, 0.0
    if task.batches is not None:
        return measure_batches(task.batches, p, count, speed, world.slot_s)
    work_rate = count * speed / p.mean
    if p.quantile > 0.0:  # who leaves a queue has waited for as long as it took all in it to come
        return rate_limit(p, count, speed), work_rate, work_rate, math.inf, p.bound * highest, 0.0, 0.0, 0.0
    wait = p.bound - replica_response(p, 0.0, speed)
    return rate_limit(p, count, speed), work_rate, work_rate, wait, max(0.0, wait) * work_rate, 0.0, 0.0, 0.0


def measure_batches(b: MicroBatches, p: Problem, count: int, speed: float, slot_s: float) -> tuple[float, ...]:
    """The same of batches.

    Where a slot that is in time has to start a batch, that takes all n tuples that wait. Having come at r a second at
    most, they have waited n / 2r in the mean, and all but r y of them longer than y: the slot's response is at least
    delay + part (overhead + n each) + phase n / r.
    """
    each = tuple_seconds(p.mean, b.work, b.partitions, speed, count)
    b = replace(b, overhead_s=min(b.overhead_s, *b.overhead_curve_s)) if b.overhead_curve_s else b
    limit = batch_limit(b, p.bound, p.quantile, each, slot_s)
    spare = p.bound - b.delay_s - b.part * b.overhead_s
    patience = max(0.0, spare / b.part / each) if b.part > 0.0 else math.inf
    if not must_start(b, p.bound, p.quantile, slot_s):
        return limit, math.inf, 1.0 / each, math.inf, patience, 0.0, 0.0, 0.0
    lost, within = b.overhead_s / each, max(spare, ROUNDING)
    phase = phase_of(p.quantile) / within * (1.0 - ROUNDING)
    return limit, math.inf, 1.0 / each, math.inf, patience, lost, b.part * each / within, phase


def must_start(b: MicroBatches, bound: float, quantile: float, slot_s: float) -> bool:
    """Whether a slot with arrivals is late unless a batch starts before its last `overhead_s` seconds.

    Without one all that come until then wait for so long; those after them are that small a share of the slot's.
    """
    waits = phase_of(quantile) * (slot_s - 2.0 * b.overhead_s)
    return waits + b.delay_s + b.part * b.overhead_s > bound


def batch_limit(b: MicroBatches, bound: float, quantile: float, each: float, slot_s: float) -> float:
    """The highest rate of two slots in a row that batches may answer within the bound; below zero if none.

    Each trigger starts one batch at most, so that the m batches of a slot gather what came in m - 2 triggers or more.
    Over gaps g, a share u of each waited for, the response is u g + delay + part (overhead + each rate g); its mean and
    its quantiles are the lower, the more equal the gaps are (Jensen).
    """
    spare = bound - b.delay_s - b.part * b.overhead_s
    batches = slot_s / b.trigger_s if b.trigger_s > 0.0 else 0.0
    gap = b.trigger_s * max(0.0, 1.0 - 2.0 / batches) if batches > 0.0 else b.overhead_s / 2.0
    phase = phase_of(quantile)
    if spare < phase * gap:
        return -1.0
    share = b.part * (quantile if quantile > 0.0 else 1.0) * gap * each
    return math.inf if share <= 0.0 else (spare - phase * gap) / share


def price_options(p: Problem, options: Options, prices: Floats, first: Integers) -> Floats:
    """The least that each option costs in every slot [T or 1, S]; the first deployment costs what it is."""
    columns = []
    for count, rank in zip(options.count[:-1].tolist(), options.rank[:-1].tolist(), strict=True):
        types = p.order[rank:]
        ranked = np.argsort(prices[:, types], axis=1, kind="stable")
        cheap, most = np.take_along_axis(prices[:, types], ranked, axis=1), p.most[types][ranked]
        taken = np.minimum(np.maximum(count - (np.cumsum(most, axis=1) - most), 0), most)
        columns.append((taken * cheap).sum(axis=1))
    columns.append(prices @ first)
    return np.ascontiguousarray(np.array(columns).T)
