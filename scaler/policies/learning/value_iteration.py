"""Value iteration (VI): plan all decisions beforehand from a known operator and rate levels; learn nothing.

The service model is the task's own; how rate levels follow each other is counted in a training trace, the option
`history`, and without one taken for a slow walk between neighbouring levels. As published, a level violates the bound
when its middle does, and theta is 1e-5; but there it bounded the last change of the values, here it bounds their error.

Notation: D deployments of 1 to K replicas, L levels, A = 2 N + 1 actions; P[l, l'] the chance that level l' follows l;
g the discount; r(d) the resource cost of a slot, c the cost of a reconfiguration, v(d, l) that of a violation. A
decision leads at once to deployment d; what it costs from then on, but for what is charged for the decision itself, is

    U(d, l) = sum_l' P[l, l'] (v(d, l') + g min_a [c(a) + r(d_a) + U(d_a, l')]),

the value of a post-decision state. The rate does not depend on what is decided, so a sweep is a minimum over the at
most A neighbours of every deployment and one product with P.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.model.errors import BadInput
from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem, lay_out
from scaler.model.policy import Kernel
from scaler.model.task import Task
from scaler.policies.learning.q_values import DENSE_BYTES
from scaler.policies.rules.static import learn_nothing

THETA = 1e-5  # as published
MEMORY, MOST_MIXED = 3, 10_000
HIGHEST_GAMMA = 0.9999  # takes 5,000 sweeps; the number grows as 1 / (1 - g)
STAY, STRAY = 0.8, 0.1  # persistence: the level stays, or moves to either neighbour
FORBIDDEN = -1

Sweep = tuple[Floats, Floats]  # what a sweep changed, what it led to


class Space(NamedTuple):
    """All deployments of a task."""

    keys: Integers  # [D] ascending
    near: Integers  # [D, A] row of the deployment that each action leads to, FORBIDDEN if it may not be taken
    parallelism: Integers  # [D]
    slowest: Integers  # [D] rank of the slowest type present
    cost: Floats  # [D] r(d)


class MdpPlan(NamedTuple):
    """A space and what its post-decision states are worth."""

    space: Space
    values: Floats  # [D, L] U


def lay_out_space(task: Task) -> Space:
    """Every deployment, and where each action leads from it."""
    check_size(task)
    p = lay_out(task)
    replicas = deployments(len(task.types), task.k_max)
    replicas = replicas[np.argsort(replicas @ p.radix)]
    keys = replicas @ p.radix
    count = replicas.sum(axis=1)
    less = np.where((replicas > 0) & (count > 1)[:, None], np.searchsorted(keys, keys[:, None] - p.radix), FORBIDDEN)
    more = np.where((count < task.k_max)[:, None], np.searchsorted(keys, keys[:, None] + p.radix), FORBIDDEN)
    return Space(
        keys=keys,
        near=np.hstack([np.arange(len(keys))[:, None], less, more]).astype(np.int64),
        parallelism=count,
        slowest=np.argmax(replicas[:, p.order] > 0, axis=1).astype(np.int64),
        cost=p.w_res * (replicas @ p.price),
    )


def check_size(task: Task) -> None:
    """Refuse what is too large to plan for, or too far ahead, before any of it is built."""
    if task.gamma > HIGHEST_GAMMA:
        raise BadInput(f"gamma is {task.gamma}, and must be at most {HIGHEST_GAMMA} for planning to come to an end")
    types, k_max = len(task.types), task.k_max
    size = math.comb(k_max + types, types) - 1
    if size * task.levels * 8 > DENSE_BYTES:
        raise BadInput(
            f"{types} node types with up to {k_max} replicas are {size} deployments, at {task.levels} rate levels too "
            f"many to plan for (at most {DENSE_BYTES // 8 // task.levels}); name fewer types or lower k_max"
        )


def deployments(types: int, k_max: int) -> Integers:
    """Replicas per type of every deployment of 1 to K replicas, [D, N]."""
    rows = np.zeros((1, 0), np.int64)
    for _ in range(types):
        room = k_max - rows.sum(axis=1)
        start = np.repeat(np.cumsum(room + 1) - (room + 1), room + 1)
        more = np.arange(int((room + 1).sum())) - start  # 0 to what there is room for, after each row
        rows = np.column_stack([np.repeat(rows, room + 1, axis=0), more])
    return rows[1:]  # the first is the empty one


def plan(task: Task, transitions: Floats, violation: Floats, theta: float = THETA) -> MdpPlan:
    """Value iteration until no value is further than `theta` from the optimum.

    `transitions` [L, L] is P, `violation` [K + 1, N, L] the cost of a violation by parallelism and rank of the slowest
    type present. Sweeps contract by g, and so each bounds its own error by its largest change times g / (1 - g).
    """
    space = lay_out_space(task)
    violated = violation[space.parallelism, space.slowest]
    values = iterate(
        lambda values: back_up(task, space, transitions, violated, values), np.zeros_like(violated), task.gamma, theta
    )
    return MdpPlan(space, values)


def iterate(sweep: Callable[[Floats], Floats], start: Floats, gamma: float, theta: float = THETA) -> Floats:
    """Sweep until no value is further than `theta` from the fixed point of a sweep that contracts by `gamma`."""
    values = start
    past: list[Sweep] = []
    last = math.inf
    for done in count():
        swept = sweep(values)
        change = swept - values
        worst = float(np.abs(change).max())
        if worst * gamma <= theta * (1.0 - gamma):
            break
        if worst > 2.0 * last or done >= MOST_MIXED:
            past = []
        past = [*past[-MEMORY:], (change, swept)]
        values = mix(past)
        last = worst
    return swept


def mix(past: list[Sweep]) -> Floats:
    """Anderson's step: the combination of the last sweeps in which their changes cancel best.

    Saves three in four sweeps: deployments between which it never pays to move keep their differences, and plain sweeps
    bring these in at g a sweep (Geist & Scherrer 2018). Not sure to converge by itself: `plan` forgets what went wrong,
    and ends with plain sweeps at the latest after MOST_MIXED.
    """
    change, swept = past[-1]
    if len(past) == 1:
        return swept
    slopes = np.array([(change - c).ravel() for c, _ in past[:-1]])
    shares = np.linalg.lstsq(slopes @ slopes.T, slopes @ change.ravel(), rcond=1e-12)[0]
    values: Floats = swept - sum(share * (swept - s) for share, (_, s) in zip(shares, past, strict=False))
    return values


def back_up(task: Task, space: Space, transitions: Floats, violated: Floats, values: Floats) -> Floats:
    """One sweep: U once more from U."""
    stay = values + space.cost[:, None]
    moved = np.full((len(stay) + 1, task.levels), np.inf)  # FORBIDDEN finds the last row
    moved[:-1] = stay + task.weights.reconfiguration
    least = stay
    neighbour = np.empty_like(stay)
    for action in range(1, space.near.shape[1]):
        np.take(moved, space.near[:, action], axis=0, out=neighbour)
        np.minimum(least, neighbour, out=least)
    future: Floats = (violated + task.gamma * least) @ transitions.T
    return future


def plan_for(task: Task, model: Task, options: Mapping[str, Any]) -> MdpPlan:
    """The plan for a task on the service model of `model`, with levels that follow each other as in `history`."""
    return plan(task, transitions_from(task, options), violation_costs(task, model))


def violation_costs(task: Task, model: Task) -> Floats:
    """Cost of a violation [K + 1, N, L], where a level's middle violates the bound on the model service model."""
    bad = np.arange(task.levels) >= first_bad_level(model)[..., None]
    return np.where(bad, task.weights.performance, 0.0)


def transitions_from(task: Task, options: Mapping[str, Any]) -> Floats:
    """How levels followed each other in `history`, each start smoothed with one observation's worth of persistence."""
    counts = transition_counts(task, options) + persistence(task.levels)
    shares: Floats = counts / counts.sum(axis=1, keepdims=True)
    return shares


def transition_counts(task: Task, options: Mapping[str, Any]) -> Floats:
    """How often level l' followed l in `history` (arrival rates, one a slot), [L, L]; zeros without one."""
    counts = np.zeros((task.levels, task.levels))
    if options.get("history") is not None:
        rates = np.minimum(read_history(options["history"]), task.highest_rate)
        levels = np.minimum((rates / (task.highest_rate / task.levels)).astype(np.int64), task.levels - 1)
        np.add.at(counts, (levels[:-1], levels[1:]), 1.0)
    return counts


def read_history(history: Any) -> Floats:
    """The option as an array of rates."""
    try:
        rates: NDArray[Any] = np.asarray(history, dtype=np.float64)
    except (TypeError, ValueError):
        rates = np.zeros(0)
    if rates.ndim != 1 or len(rates) < 2 or not bool(np.all(np.isfinite(rates) & (rates >= 0.0))):
        raise BadInput("option 'history' must be a list of at least two arrival rates, finite and not negative")
    return rates


def persistence(levels: int) -> Floats:
    """P of a rate that mostly stays where it is and else moves to a neighbouring level, [L, L]."""
    p = STAY * np.eye(levels) + STRAY * (np.eye(levels, k=1) + np.eye(levels, k=-1))
    p += np.diag(1.0 - p.sum(axis=1))  # at either end there is one neighbour less
    return p


@jit
def find_row(keys: Integers, key: int) -> int:
    """Where a key stands in an ascending array that holds it."""
    low = 0
    high = keys.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def worth_in_row(p: Problem, plan: MdpPlan, row: int, level: int, action: int) -> float:
    """Cost of an action and of what follows it; infinite if it may not be taken."""
    to = plan.space.near[row, action]
    if to < 0:
        return np.inf
    cost = plan.space.cost[to] + plan.values[to, level]
    return cost + p.w_rcf if action != 0 else cost


@jit
def worth(p: Problem, s: MdpPlan, k: Integers, seen: KernelView, action: int) -> float:
    return worth_in_row(p, s, find_row(s.space.keys, seen.key), seen.level, action)


@jit
def decide(p: Problem, s: MdpPlan, k: Integers, seen: KernelView) -> int:
    """The cheapest action of any state with a space and values; ties go to the first."""
    row = find_row(s.space.keys, seen.key)
    choice = 0
    least = worth_in_row(p, s, row, seen.level, 0)
    for action in range(1, s.space.near.shape[1]):
        value = worth_in_row(p, s, row, seen.level, action)
        if value < least:
            least = value
            choice = action
    return choice


def first_bad_level(task: Task) -> Integers:
    """The lowest rate level whose middle violates the bound, by parallelism and rank of the slowest type; L if none."""
    p = lay_out(task)
    middles = (np.arange(task.levels) + 0.5) * p.quantum
    within = np.arange(task.k_max + 1)[:, None] * p.capacity[p.order]  # [K + 1, N] highest total rate in the bound
    return np.searchsorted(middles, within, side="right").astype(np.int64)


def violating_levels(model: Task, estimates: bool) -> Integers:
    """Lowest rate level that violates the bound on the model [K + 1, N]; none where nothing is estimated."""
    if estimates:
        return first_bad_level(model)
    return np.full((model.k_max + 1, len(model.types)), model.levels, np.int64)


VALUE_ITERATION = Kernel(
    title="VI",
    prepare=lambda start: plan_for(start.task, start.task, start.options),
    decide=decide,
    learn=learn_nothing,
    worth=worth,
    measure=lambda state: state.values.nbytes + state.space.near.nbytes,
    options=("history",),
)
