"""Dhalion (Floratou et al., VLDB 2017): symptoms, a diagnosis, a resolution, and a check of its effect.

Symptoms over a window: *backpressure*, the share of time in which sources were held back; *idle queues*, hardly a tuple
pending at a replica. Diagnoses and resolutions: with backpressure the operator is under-provisioned, and grows by the
time held back over the time not held back; with idle queues it is over-provisioned, and shrinks by a fixed share. A
window after a resolution it is judged: a scale-out helped if there is less backpressure, a scale-in if there is none.
One that did not help is put on the black list, at that parallelism.

Deviations: backpressure is read from utilisation, where it exceeds 1 exactly (the excess would have been held back),
where it is capped as all of a saturated slot; growth is at most twofold; pending tuples are the backlog, and beside it,
where tuples do not wait for a trigger, what Little's law gives (share times response minus utilisation); skew and slow
instances do not occur here (load is split evenly); an entry of the black list lapses after a while, where the paper
weighs the share of times that a kind of action helped. Dhalion knows no latency bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem
from scaler.model.policy import Start
from scaler.policies.homogeneous import by_node, is_underway, read_count, read_number, scale_to, whole
from scaler.policies.rules.true_rate import RateWindow, clear, is_full, is_saturated, make_window, mean, push

WINDOW, BLACKLIST = 5, 120  # slots
PENDING = 0.25  # tuples waiting at a replica below which its queue counts as idle
SHRINK = 0.2
IN, OUT = 0, 1


class State(NamedTuple):
    kind: int
    pending_least: float
    blacklist: int
    held_back: RateWindow  # share of each slot in which sources would be held back
    pending: RateWindow
    barred: Integers  # [2, K + 1] slots for which scale-in and scale-out from a parallelism stay on the black list
    course: Integers  # [1] parallelism headed for, or 0
    trial: Integers  # [2] direction and parallelism of the resolution to be judged; parallelism 0: none
    complaint: Floats  # [1] backpressure that led to it


def prepare(start: Start, node_type: int) -> State:
    window = read_count(start.options, "window", WINDOW)
    return State(
        kind=node_type,
        pending_least=read_number(start.options, "pending", PENDING, 0.0, 1e9),
        blacklist=read_count(start.options, "blacklist", BLACKLIST, low=0),
        held_back=make_window(window),
        pending=make_window(window),
        barred=np.zeros((2, start.task.k_max + 1), np.int64),
        course=np.zeros(1, np.int64),
        trial=np.zeros(2, np.int64),
        complaint=np.zeros(1),
    )


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    return 0 if s.course[0] == 0 else scale_to(p, k, seen.count, s.kind, s.course[0])


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    if watch(s, action, action != 0, seen):
        judge(s)
        resolve(p, s, seen)


@jit
def watch(s: State, action: int, restless: bool, seen: KernelView) -> bool:
    """Take a slot's symptoms in; whether there is a window of them since anything last changed."""
    for direction in range(2):  # every entry of the black list has a slot less to stay
        for count in range(s.barred.shape[1]):
            s.barred[direction, count] = max(s.barred[direction, count] - 1, 0)
    if restless:
        clear(s.held_back)
        clear(s.pending)
    course = s.course[0]
    if is_underway(s.course, action, seen.count):
        return False
    if course != 0 and course != seen.count:
        s.trial[1] = 0  # what was not carried out is not judged
    push(s.held_back, held_back(seen))
    push(s.pending, pending(seen))
    return is_full(s.held_back)


@jit
def held_back(seen: KernelView) -> float:
    """The share of the slot in which backpressure would hold the sources back."""
    if is_saturated(seen):
        return 1.0
    return 1.0 - 1.0 / seen.utilisation if seen.utilisation > 1.0 else 0.0


@jit
def pending(seen: KernelView) -> float:
    """Tuples waiting at a replica, but for the one in service and for those that wait for their batch."""
    waiting = seen.backlog / seen.count if math.isfinite(seen.backlog) else 0.0
    if seen.batch_ratio > 0.0:
        return waiting
    if not math.isfinite(seen.response):
        return math.inf
    return max(waiting, seen.arrivals / seen.count * seen.response - seen.utilisation)


@jit
def judge(s: State) -> None:
    """Put the resolution under trial on the black list if it did not help."""
    if s.trial[1] == 0:
        return
    now = mean(s.held_back)
    helped = now < s.complaint[0] if s.trial[0] == OUT else now == 0.0
    if not helped:
        s.barred[s.trial[0], s.trial[1]] = s.blacklist
    s.trial[1] = 0


@jit
def resolve(p: Problem, s: State, seen: KernelView) -> None:
    """Diagnose, and set a course unless its resolution is on the black list."""
    back = mean(s.held_back)
    direction = OUT
    wanted = seen.count
    if back > 0.0:
        factor = min(back / (1.0 - back), 1.0) if back < 1.0 else 1.0
        wanted = whole(p, seen.count * (1.0 + factor))
    elif mean(s.pending) < s.pending_least:
        direction = IN
        wanted = max(1, min(seen.count - 1, math.floor(seen.count * (1.0 - SHRINK))))
    if wanted == seen.count or s.barred[direction, seen.count] > 0:
        return
    s.course[0] = wanted
    s.trial[0] = direction
    s.trial[1] = seen.count
    s.complaint[0] = back


DHALION_C, DHALION_S, DHALION_O, DHALION_P = by_node(
    "Dhalion", prepare, decide, learn, options=("window", "pending", "blacklist"), any_size=True
)
