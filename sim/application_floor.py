"""Floor under a whole application whose slots stand alone: all operators are planned together, all rates known.

Backward dynamic programming over what the operators have together. A slot is late if any path is, and is charged one
reconfiguration however many operators change; from one slot to the next each operator may stay or change, so that the
least cost to go is a minimum over a box: one operator's neighbours after the other's. Where changes are of any size
that is the minimum over all.

Exact where everything that the operators may have together is a state. Where that is too much, a lower bound: each
operator alone, late only where it alone takes longer than its path may, with an equal share of what a late slot and a
reconfiguration cost: a slot that is late for one is late for all, and the largest of n is no less than their mean.

Notation: n operators, S_o states of operator o, J = S_1 ... S_n of all together, the last operator's counting fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, Problem, lay_out, replica_response
from scaler.model.task import Task
from sim.compiler import compile_kernel
from sim.floor import Bound
from sim.setting import Setting, first_deployment, gains, is_one_at_a_time, is_supply_ample, tasks
from sim.sharing import Links, is_late, link
from sim.sized_floor import SizedWorld, sized_floor

MOST_STATES = 100_000  # of all operators together
MOST_STEPS = 1e9  # states times slots: half a minute


class Choices(NamedTuple):
    """The states of all operators, one operator's after the other's: operator o's begin at `begin[o]`."""

    begin: Integers  # [n + 1]
    count: Integers  # type: ignore[assignment]  # [sum S] replicas; shadows tuple.count
    speed: Floats  # [sum S] of the slowest
    price: Floats  # [sum S]
    any_size: bool  # whether a change leads to any state, or to neighbours:
    near_first: Integers  # [sum S + 1] neighbours of a state, counted within its operator
    near: Integers
    stride: Integers  # [n] of an operator's state in the number of a joint one


def has_application_floor(setting: Setting) -> bool:
    """Whether a floor is known: not where a plant remembers, supply may run out or prices change."""
    return setting.plant == "memoryless" and is_supply_ample(setting) and not setting.infrastructure.prices


def application_floor(setting: Setting) -> Bound:
    """The least average slot cost of all operators together."""
    stated = tasks(setting)
    choices, start = list_choices(stated, setting)
    joint = prod(np.diff(choices.begin).tolist())
    rates = setting.trace.rates
    if joint > MOST_STATES or joint * len(rates) > MOST_STEPS:
        return share_bound(stated, setting)
    value, later, near = np.zeros(joint), np.zeros(joint), np.zeros(joint)
    responses = np.zeros(len(choices.count))
    links, problems = link(setting), tuple(map(lay_out, stated))
    w_res = setting.weights.resources / sum(task.dearest for task in stated)
    compile_kernel(sweep_together)(
        problems, choices, np.array(gains(setting.application)), links, w_res, rates, value, later, near, responses,
        np.zeros(len(problems), np.int64),
    )  # fmt: skip
    return Bound(float(value[start]) / len(rates), True)


def list_choices(stated: Sequence[Task], setting: Setting) -> tuple[Choices, int]:
    """Every operator's deployments, and the joint state that they start in."""
    begin, count, speed, price, near, near_first, starts = [0], [], [], [], [], [0], []
    for task, operator in zip(stated, setting.application.operators, strict=True):
        p, first = lay_out(task), tuple(first_deployment(setting, operator).tolist())
        states = list_states(p, first) if not task.one_at_a_time else every_state(p)
        number = {k: at for at, k in enumerate(states)}
        for k in states:
            count.append(sum(k))
            speed.append(min(float(p.speedup[i]) for i, many in enumerate(k) if many))
            price.append(float(np.dot(k, p.price)))
            steps = [(*k[:i], k[i] + d, *k[i + 1 :]) for i in range(len(k)) for d in (-1, 1)]
            near += [number[s] for s in steps if s in number] if task.one_at_a_time else []
            near_first.append(len(near))
        begin.append(begin[-1] + len(states))
        starts.append(number[first])
    sizes = np.diff(begin).tolist()
    stride = [prod(sizes[o + 1 :]) for o in range(len(sizes))]
    choices = Choices(
        begin=np.array(begin),
        count=np.array(count),
        speed=np.array(speed),
        price=np.array(price),
        any_size=not is_one_at_a_time(setting),
        near_first=np.array(near_first),
        near=np.array(near, np.int64),
        stride=np.array(stride),
    )
    return choices, sum(s * many for s, many in zip(starts, stride, strict=True))


def every_state(p: Problem) -> list[tuple[int, ...]]:
    every = product(range(p.k_max + 1), repeat=len(p.price))
    return [k for k in every if p.k_min <= sum(k) <= p.k_max]


def list_states(p: Problem, first: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The cheapest make-up of so many replicas of at least some speed, and the first deployment."""
    found = {first: None}
    for n in range(p.k_min, p.k_max + 1):
        for r in range(len(p.order)):
            cheapest = min(p.order[r:].tolist(), key=lambda i: float(p.price[i]))
            found[tuple(n if i == cheapest else 0 for i in range(len(p.price)))] = None
    return list(found)


@jit
def sweep_together(
    problems: tuple[Problem, ...],
    choices: Choices,
    gain: Floats,
    links: Links,
    w_res: float,
    rates: Floats,
    value: Floats,
    later: Floats,
    near: Floats,
    responses: Floats,
    place: Integers,
) -> None:
    """One backward pass; `value` [J] becomes the cost from the first slot on."""
    p = problems[0]
    for back in range(rates.shape[0]):
        respond_all(problems, choices, gain, rates[rates.shape[0] - 1 - back], responses)
        least_in_box(choices, value, later, near)
        for j in range(value.shape[0]):
            price = place_all(choices, j, place)
            late = is_late(links, responses, place)
            value[j] = min(value[j], p.w_rcf + near[j]) + w_res * price + (p.w_perf if late else 0.0)


@jit
def respond_all(problems: tuple[Problem, ...], choices: Choices, gain: Floats, rate: float, responses: Floats) -> None:
    """Response times [sum S] of every operator's states at one rate of the external stream."""
    for o in range(gain.shape[0]):
        for s in range(choices.begin[o], choices.begin[o + 1]):
            share = rate * gain[o] / choices.count[s]
            responses[s] = replica_response(problems[o], share, choices.speed[s])


@jit
def place_all(choices: Choices, joint: int, place: Integers) -> float:
    """Write where each operator's part of a joint state stands; the price of the joint state."""
    price = 0.0
    for o in range(place.shape[0]):
        place[o] = state_of(choices, joint, o)
        price += choices.price[place[o]]
    return price


@jit
def state_of(choices: Choices, joint: int, operator: int) -> int:
    """Where an operator's state stands that is part of a joint one."""
    states = choices.begin[operator + 1] - choices.begin[operator]
    return choices.begin[operator] + (joint // choices.stride[operator]) % states


@jit
def least_in_box(choices: Choices, value: Floats, later: Floats, near: Floats) -> None:
    """The least value within one change of each operator: neighbours of one after the other."""
    states = value.shape[0]
    if choices.any_size:
        least = math.inf
        for j in range(states):
            least = min(least, value[j])
        for j in range(states):
            near[j] = least
        return
    for j in range(states):
        near[j] = value[j]
    for o in range(choices.stride.shape[0]):
        for j in range(states):
            later[j] = near[j]
        begin = choices.begin[o]
        own = choices.begin[o + 1] - begin
        stride = choices.stride[o]
        for block in range(0, states, own * stride):
            for s in range(own):
                for e in range(choices.near_first[begin + s], choices.near_first[begin + s + 1]):
                    here = block + s * stride
                    there = block + choices.near[e] * stride
                    for i in range(stride):
                        near[here + i] = min(near[here + i], later[there + i])


def share_bound(stated: Sequence[Task], setting: Setting) -> Bound:
    """The sum of what each operator must cost alone, with its share of the weights."""
    links, n, total = link(setting), len(stated), 0.0
    dearest = sum(task.dearest for task in stated)
    for o, (task, gain) in enumerate(zip(stated, gains(setting.application), strict=True)):
        ends = zip(links.path_first, links.path_first[1:], links.limits, strict=False)
        limit = max(float(limit) for begin, end, limit in ends if o in links.path_of[begin:end])
        first = first_deployment(setting, setting.application.operators[o])
        world = SizedWorld(first, "memoryless", setting.inertia.slot_s, np.zeros((0, len(first))))
        shares = 1.0 / n, task.dearest / dearest
        total += sized_floor(task, setting.trace.rates * gain, world, bound=limit, shares=shares).lower
    return Bound(total, False)
