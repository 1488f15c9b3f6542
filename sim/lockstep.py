"""Replay all operators of an application slot by slot, where they share something: supply, or one coordinator.

In each slot every operator, upstream first, answers its arrivals and decides; then the supply of each node type is
handed out, to those first for whom it is worth most. The changes share a pause and a budget
(scaler/model/joint_changes.py), and those that are made hold from the next slot on. Where nothing is shared, the result
is that of replaying one operator after another (sim/simulate.py), which is faster.

Notation: n operators, N node types, T slots, P paths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from scaler.model.jit import jit
from scaler.model.joint_changes import NO_WISH, open_account, price_pause, refill, value_wish, weigh_wish
from scaler.model.kernel import (
    Floats,
    Integers,
    KernelView,
    Problem,
    first_step,
)
from scaler.model.policy import Decide, Kernel, Learn, Worth, narrow
from scaler.policies import COORDINATORS, find_coordinator
from scaler.policies.coordinator import CoordinatorStart, start_coordinator
from sim.application import upstream
from sim.compiler import compile_kernel
from sim.holding import hold_left, hold_with_others
from sim.infrastructure import price_slots
from sim.operator_replay import OperatorReplay, first_addition, urgency
from sim.plants import PLANTS
from sim.replay import (
    RECONFIGURATIONS,
    RESOURCES,
    SLOTS,
    VIOLATIONS,
    Baton,
    Record,
    apply_action,
    hand_over,
    measure_deployment,
    take_over,
)
from sim.setting import Setting, is_joint, is_supply_ample, tasks
from sim.sharing import (
    NO_LIMIT,
    Course,
    Links,
    count_free,
    gather,
    hold_all,
    inflow,
    is_late,
    keep,
    link,
    look,
    offer,
    settle,
    share_out,
    stops_all,
)

# An action, what it is to the slot, its worth in units of the pause's price, and what the first replica of it gains.
Wish = tuple[int, int, float, float]


@cache
def make_wish(decide: Decide, worth: Worth) -> Callable[..., Wish]:
    """The kernel that states what an operator wants of a slot."""
    valued = worth is not urgency

    @jit
    def wish(
        told: Problem, whole: Problem, free: Problem, s: Any, k: Integers, seen: KernelView, joint: bool
    ) -> tuple[int, int, float, float]:
        """The action that pays alone, else one that may pay with others."""
        action = decide(whole, s, k, seen)
        alone = action != 0
        if joint and not alone:
            action = decide(free, s, k, seen)
        if told.one_at_a_time:
            action = first_step(told, k, seen.count, action)
        if action == 0:
            return 0, NO_WISH, 0.0, 0.0
        addition = first_addition(told, k, action)
        urgent = worth(told, s, k, seen, 0) - worth(told, s, k, seen, addition) if addition != 0 else 0.0
        gain = np.inf
        if valued:
            gain = value_wish(whole, worth(free, s, k, seen, action), worth(free, s, k, seen, 0), alone)
        return action, weigh_wish(told, k, seen, action, alone), gain, urgent

    return wish


@cache
def make_lockstep(decide: Decide, learn: Learn, worth: Worth, plant_kind: str) -> Any:
    """The loop with this policy and this plant built in, compiled; all operators have the same of both."""
    serve, change, measure_queue, find_hold, price_leaving = PLANTS[plant_kind]

    wish = make_wish(decide, worth)

    def together(
        tolds: tuple[Problem, ...],
        wholes: tuple[Problem, ...],
        frees: tuple[Problem, ...],
        truths: tuple[Problem, ...],
        states: tuple[Any, ...],
        plants: tuple[Any, ...],
        links: Links,
        course: Course,
        rates: Floats,
        prices: Floats,
        block: int,
        sums: Floats,
    ) -> None:
        """Replay `rates` at `prices` [T, N] (or [0, N]: they stay); add to `sums` [blocks, 4]."""
        n, slots = course.k.shape[0], rates.shape[0]
        hold_all(course, slots)
        for t in range(slots):
            row = t if course.actions.shape[0] == slots else 0
            block_sums = sums[t // block]
            block_sums[SLOTS] += 1.0
            count_free(links, course)
            moved = False
            for place in range(n):
                o = links.sequence[place]
                told, truth, s, plant, k = tolds[o], truths[o], states[o], plants[o], course.k[o]
                offer(told, truth, k, course.free, prices, t)
                rate = inflow(links, o, rates[t], course.outputs[row])
                measured = measure_deployment(told, truth, k)
                block_sums[RESOURCES] += measured[2] + price_leaving(truth, plant)
                answered = serve(truth, plant, k, measured[0], measured[3], rate)
                seen = look(told, truth.bound, measured, rate, answered, measure_queue(plant))
                baton = Baton(course.reals[o], course.whole[o])
                before, action, begun = take_over(baton)
                if begun:
                    learn(told, s, k, before, action, seen)
                found = wish(told, wholes[o], frees[o], s, k, seen, links.together)
                action, course.wishes[o], course.worths[o], course.gains[o] = found
                hand_over(baton, seen, action, True)
                course.responses[row, o], course.outputs[row, o] = answered[1], answered[2]
                course.actions[row, o] = action
                moved = moved or action != 0
            block_sums[VIOLATIONS] += is_late(links, course.responses[row], links.own)
            refill(course.account, links.per_slot, links.depth, 1.0)
            if not moved:
                continue
            share_out(tolds, course, row)
            moved = settle(links, course, row)
            longest = 0.0
            for o in range(n):
                action = course.actions[row, o]
                course.whole[o, 6] = action
                if action != 0:
                    change(tolds[o], plants[o], course.k[o], action)
                    apply_action(tolds[o], course.k[o], action, course.held[o], slots - t - 1)
                    longest = max(longest, hold_left(find_hold(plants[o])))
            for o in range(n if links.stops else 0):
                hold_with_others(find_hold(plants[o]), longest)
            block_sums[RECONFIGURATIONS] += moved

    module = decide.__module__.rpartition(".")[2]
    together.__qualname__ = f"together_{module}_{decide.__name__}_{learn.__name__}_{worth.__name__}_{plant_kind}"
    return compile_kernel(together)


def loop_together(kernel: Kernel, plant_kind: str, one_at_a_time: bool) -> Any:
    """The compiled loop of a policy's kernel on a plant, for tasks of one replica at a time or of any number."""
    hot = narrow(kernel, one_at_a_time)
    return make_lockstep(hot.decide, hot.learn, hot.worth or urgency, plant_kind)


DecideAll = Callable[[Sequence[Integers], Sequence[KernelView]], Sequence[Wish]]


def walk_together(
    operations: Sequence[OperatorReplay],
    decide_all: DecideAll,
    links: Links,
    course: Course,
    rates: Floats,
    prices: Floats,
    block: int,
    sums: Floats,
) -> None:
    """Do the same in Python: coordinators, policies that do not compile, and operators that differ in kind."""
    views: list[KernelView] = [take_over(one.baton)[0] for one in operations]
    begun = bool(operations[0].baton.whole[7])
    tolds = tuple(one.told for one in operations)
    for t, rate in enumerate(rates.tolist()):
        row = t if course.actions.shape[0] == len(rates) else 0
        block_sums = sums[t // block]
        count_free(links, course)
        course.held[:] += course.k
        for o in links.sequence.tolist():
            operation, k = operations[o], course.k[o]
            operation.told.most[:] = k + course.free
            for problem in (operation.told, operation.truth) if len(prices) else ():
                problem.price[:] = prices[t]
            plant = PLANTS[operation.plant_kind]
            block_sums[RESOURCES] += plant.price_leaving(operation.truth, operation.plant)
            view, output = operation.answer(k, inflow(links, o, rate, course.outputs[row]))
            if begun:
                operation.policy.absorb(k, views[o], int(course.whole[o, 6]), view)
            views[o] = view
            course.responses[row, o], course.outputs[row, o] = view.response, output
            block_sums[RESOURCES] += view.price
        begun = True
        for o, wish in enumerate(decide_all(list(course.k), views)):
            course.actions[row, o], course.wishes[o], course.worths[o], course.gains[o] = wish
        block_sums[SLOTS] += 1
        block_sums[VIOLATIONS] += is_late(links, course.responses[row], links.own)
        share_out(tolds, course, row)
        refill(course.account, links.per_slot, links.depth, 1.0)
        settle(links, course, row)
        block_sums[RECONFIGURATIONS] += bool(course.actions[row].any())
        for o, operation in enumerate(operations):
            action = int(course.actions[row, o])
            hand_over(Baton(course.reals[o], course.whole[o]), views[o], action, True)
            if action != 0:
                PLANTS[operation.plant_kind].change(operation.told, operation.plant, course.k[o], action)
                apply_action(operation.told, course.k[o], action, course.held[o], 0)
        if links.stops and course.actions[row].any():
            holds = [PLANTS[one.plant_kind].find_hold(one.plant) for one in operations]
            longest = max(float(hold_left(holds[o])) for o in np.flatnonzero(course.actions[row]))
            for hold in holds:
                hold_with_others(hold, longest)


def shares_anything(setting: Setting) -> bool:
    """Whether the operators of a setting share more than rates: supply, stops, or a coordinator."""
    nodes = setting.infrastructure
    ample = is_supply_ample(setting)
    joint = setting.policy in COORDINATORS or is_joint(setting) or setting.change_budget is not None
    return joint or bool(nodes.prices) or not ample or stops_all(setting)


def decide_each(operations: Sequence[OperatorReplay], joint: bool) -> DecideAll:
    """Every operator's policy for itself."""

    def decide(ks: Sequence[Integers], views: Sequence[KernelView]) -> list[Wish]:
        wishes = []
        for one, k, seen in zip(operations, ks, views, strict=True):
            wish = make_wish(one.policy.hot.decide, one.policy.hot.worth or urgency)
            wishes.append(wish(one.told, *price_pause(one.told), one.policy.state, k, seen, joint))
        return wishes

    return decide


def coordinate(setting: Setting, operations: Sequence[OperatorReplay], seed: int) -> DecideAll:
    """A coordinator, prepared for the setting's application."""
    application, coordinator = setting.application, find_coordinator(setting.policy)
    start = CoordinatorStart(
        tasks=tuple(tasks(setting)),
        edges=tuple((j, i, factor) for i, feeds in enumerate(upstream(application)) for j, factor in feeds),
        sources=tuple(application.sources.get(operator.name, 0.0) for operator in application.operators),
        r_max=setting.r_max,
        seed=seed,
        options=setting.options,
    )
    state = start_coordinator(coordinator, start)

    def decide(ks: Sequence[Integers], views: Sequence[KernelView]) -> list[Wish]:
        tolds = tuple(one.told for one in operations)
        found = []
        for one, k, seen, wanted in zip(
            operations, ks, views, coordinator.decide(state, tolds, ks, views), strict=True
        ):
            action = int(first_step(one.told, k, seen.count, wanted)) if one.told.one_at_a_time else wanted
            wish = weigh_wish(one.told, k, seen, action, True)
            found.append((action, wish, math.inf, one.gain(k, seen, action)))
        return found

    return decide


class LockstepReplay:
    """All operators of an application in the course of a replay in lockstep."""

    def __init__(self, setting: Setting, operations: Sequence[OperatorReplay], seed: int) -> None:
        joint = setting.policy in COORDINATORS
        self.decide_all = coordinate(setting, operations, seed) if joint else decide_each(operations, is_joint(setting))
        self.operations = operations
        self.links = link(setting)
        self.prices = price_slots(setting.infrastructure, setting.trace)
        self.finite = bool((self.links.capacity < NO_LIMIT).any())
        self.refused = np.zeros(len(operations), np.int64)
        self.account = open_account(setting.change_budget)
        alike = {type(operation.plant) for operation in operations}
        self.compiles = len(alike) == 1 and not joint and operations[0].policy.kernel.compiles

    def advance(self, rates: Floats, first: int, block: int, sums: Floats, records: Sequence[Record]) -> None:
        """Replay one stretch that begins at slot `first`."""
        operations, kernel = self.operations, self.operations[0].policy.kernel
        course = gather(operations, self.refused, self.account, len(rates) if records else 1)
        rates = rates[:]
        prices = self.prices[first : first + len(rates)]
        rates.flags.writeable = prices.flags.writeable = False
        world = (self.links, course, rates, prices, block, sums)
        if self.compiles:
            priced = [price_pause(one.told) for one in operations]
            problems = tuple(one.told for one in operations), *zip(*priced, strict=True)
            problems = *problems, tuple(one.truth for one in operations)
            plants = tuple(one.plant for one in operations)
            for one in operations:
                one.policy.state = kernel.grow(one.policy.state, len(rates))
            states = tuple(one.policy.state for one in operations)
            loop_together(kernel, operations[0].plant_kind, operations[0].told.one_at_a_time)(
                *problems, states, plants, *world
            )
        else:
            walk_together(operations, self.decide_all, *world)
        keep(course, operations, records)
