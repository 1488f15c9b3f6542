"""What the operators of an application share: streams, paths, and the supply of each node type.

Notation: n operators, N node types, T slots, P paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scaler.model.jit import jit
from scaler.model.joint_changes import NO_WISH, UNLIMITED, is_made, settle_slot
from scaler.model.kernel import Floats, Integers, KernelView, Problem, delta_of, rate_level, within_supply
from sim.application import order, upstream
from sim.operator_replay import OperatorReplay
from sim.plant import Answer, Queue
from sim.replay import Record
from sim.setting import Setting, is_joint, path_limits

NO_LIMIT = 1 << 40


class Links(NamedTuple):
    """How the operators of an application hang together, and what they share."""

    sequence: Integers  # [n] upstream first
    shares: Floats  # [n] of the external stream
    feed_first: Integers  # [n + 1] what feeds operator i is feed_from[feed_first[i] : feed_first[i + 1]]
    feed_from: Integers
    feed_factor: Floats  # tuples that arrive for each that the feeding operator gets through
    path_first: Integers  # [P + 1]
    path_of: Integers
    limits: Floats  # [P] seconds
    capacity: Integers  # [N] replicas of all operators together
    own: Integers  # [n] 0, 1, ..., n - 1
    stops: bool  # whether a change of one operator stops all
    together: bool  # whether operators make changes together that do not pay alone
    per_slot: float  # tokens of the budget of changes
    depth: float  # of the budget; below 0: there is none


class Course(NamedTuple):
    """What the operators carry from slot to slot, and what is written of them."""

    k: Integers  # [n, N]
    reals: Floats  # [n, 7] their batons
    whole: Integers  # [n, 8]
    held: Integers  # [n, N]
    gains: Floats  # [n] what the replicas asked for are worth
    wishes: Integers  # [n] what each operator's change is to the slot (scaler/model/joint_changes.py)
    worths: Floats  # [n] what it is worth without the pause, in units of the pause's price
    account: Floats  # [2] tokens of the budget of changes, and those owed
    served: npt.NDArray[np.bool_]  # [n] whose turn for them is over
    free: Integers  # [N] replicas that nobody has
    refused: Integers  # [n] replicas that were asked for and could not be had, summed over slots
    responses: Floats  # [T, n], or [1, n] where they are not kept
    outputs: Floats  # the same
    actions: Integers  # the same


def link(setting: Setting) -> Links:
    """The links of a setting's operators."""
    application, feeds, limits = setting.application, upstream(setting.application), path_limits(setting)
    capacities = [node.supply.capacity for node in setting.infrastructure.types]
    budget = setting.change_budget
    return Links(
        sequence=np.array(order(application), np.int64),
        shares=np.array([application.sources.get(operator.name, 0.0) for operator in application.operators]),
        feed_first=np.cumsum([0, *map(len, feeds)]),
        feed_from=np.array([j for some in feeds for j, _ in some], np.int64),
        feed_factor=np.array([factor for some in feeds for _, factor in some], np.float64),
        path_first=np.cumsum([0, *map(len, limits)]),
        path_of=np.array([i for path in limits for i in path], np.int64),
        limits=np.array(list(limits.values()), np.float64),
        capacity=np.array([NO_LIMIT if some is None else some for some in capacities], np.int64),
        own=np.arange(len(application.operators)),
        stops=stops_all(setting),
        together=is_joint(setting),
        per_slot=0.0 if budget is None else budget.per_slot,
        depth=UNLIMITED if budget is None else budget.depth,
    )


@jit
def inflow(links: Links, i: int, rate: float, outputs: Floats) -> float:
    """Tuples per second that reach an operator."""
    total = rate * links.shares[i]
    for e in range(links.feed_first[i], links.feed_first[i + 1]):
        total += outputs[links.feed_from[e]] * links.feed_factor[e]
    return total


@jit
def is_late(links: Links, responses: Floats, place: Integers) -> bool:
    """Whether any path takes longer than it may; operator o's response time stands at place[o]."""
    for path in range(links.limits.shape[0]):
        total = 0.0
        for e in range(links.path_first[path], links.path_first[path + 1]):
            total += responses[place[links.path_of[e]]]
        if total > links.limits[path]:
            return True
    return False


@jit
def count_free(links: Links, course: Course) -> None:
    """How many replicas of each node type nobody has."""
    for i in range(links.capacity.shape[0]):
        course.free[i] = links.capacity[i]
        for o in range(course.k.shape[0]):
            course.free[i] -= course.k[o, i]


@jit
def hold_all(course: Course, slots: int) -> None:
    """Count the replicas as held over so many slots."""
    for o in range(course.k.shape[0]):
        for i in range(course.k.shape[1]):
            course.held[o, i] += course.k[o, i] * slots


@jit
def offer(told: Problem, truth: Problem, k: Integers, free: Integers, prices: Floats, t: int) -> None:
    """Tell an operator how many replicas it may have, and the prices of the slot."""
    for i in range(k.shape[0]):
        told.most[i] = k[i] + free[i]
        if prices.shape[0] > 0:
            told.price[i] = truth.price[i] = prices[t, i]


@jit
def look(
    told: Problem,
    bound: float,
    measured: tuple[int, int, float, int, int],
    rate: float,
    answered: Answer,
    queued: Queue,
) -> KernelView:
    """What kernels see of a slot: its deployment, what came, how it was answered and what waits."""
    count, key, price, slowest, second = measured
    utilisation, response, _ = answered
    demand, level = rate + queued[0], rate_level(told, rate + queued[0])
    return KernelView(
        demand, level, utilisation, response, response > bound, key, count, price, slowest, second, rate,
        queued[1], queued[2],
    )  # fmt: skip


@jit
def share_out(tolds: tuple[Problem, ...], course: Course, row: int) -> None:
    """Cut the slot's actions to what is free: whoever gains most is served first."""
    course.served[:] = False
    for _ in range(course.gains.shape[0]):
        o = -1
        for other in range(course.gains.shape[0]):
            if not course.served[other] and (o < 0 or course.gains[other] > course.gains[o]):
                o = other
        course.served[o] = True
        told, k, action = tolds[o], course.k[o], course.actions[row, o]
        for i in range(k.shape[0]):
            told.most[i] = k[i] + course.free[i]
        granted = within_supply(told, k, action)
        course.actions[row, o] = granted
        for i in range(k.shape[0]):
            course.refused[o] += max(0, delta_of(told, k, action, i)) - max(0, delta_of(told, k, granted, i))
            course.free[i] -= max(0, delta_of(told, k, granted, i))


@jit
def settle(links: Links, course: Course, row: int) -> bool:
    """Make the slot's changes together, within the budget of changes, or take those back that are not granted."""
    moved = False
    for o in range(course.wishes.shape[0]):
        if course.actions[row, o] == 0:
            course.wishes[o] = NO_WISH
    outcome = settle_slot(course.wishes, course.worths, course.account, links.depth)
    for o in range(course.wishes.shape[0]):
        if is_made(outcome, course.wishes[o]):
            moved = True
        else:
            course.actions[row, o] = 0
    return moved


def stops_all(setting: Setting) -> bool:
    """Whether a change of one operator stops the whole application, as stop-and-restart does."""
    return setting.migration.kind == "stop" and len(setting.application.operators) > 1


def gather(operations: Sequence[OperatorReplay], refused: Integers, account: Floats, slots: int) -> Course:
    """What the operators carry, side by side."""
    n, types = len(operations), len(operations[0].k)
    return Course(
        k=np.array([one.k for one in operations]),
        reals=np.array([one.baton.reals for one in operations]),
        whole=np.array([one.baton.whole for one in operations]),
        held=np.array([one.held for one in operations]),
        gains=np.zeros(n),
        wishes=np.zeros(n, np.int64),
        worths=np.zeros(n),
        account=account,
        served=np.zeros(n, np.bool_),
        free=np.zeros(types, np.int64),
        refused=refused,
        responses=np.zeros((slots, n)),
        outputs=np.zeros((slots, n)),
        actions=np.zeros((slots, n), np.int64),
    )


def keep(course: Course, operations: Sequence[OperatorReplay], records: Sequence[Record]) -> None:
    """Hand back to the operators what they carry, and write the records that are kept."""
    for o, operation in enumerate(operations):
        operation.k[:], operation.held[:] = course.k[o], course.held[o]
        operation.baton.reals[:], operation.baton.whole[:] = course.reals[o], course.whole[o]
    for o, record in enumerate(records):
        record.response[:], record.output[:] = course.responses[:, o], course.outputs[:, o]
        record.action[:] = course.actions[:, o]
