"""Autoscaler of Flink's Kubernetes operator: target utilisation, stabilisation after a change, delayed scale-in.

Each slot, from metrics averaged over a window, with T the true processing rate of a replica (true_rate.py):

    wanted = ceil((lag / catch-up duration + rate / target) / T), at least (1 - max scale-down factor) of what there is,

carried out once T times the replicas is outside what `target` + `boundary` and `target` - `boundary` would ask for.
After a change no metrics are taken for a stabilisation interval, then the window has to fill. A scale-in waits until
one has been called for throughout a delay, and then goes to the highest parallelism called for in it.

Defaults are those of the operator (.7, .3, a window of 15 min, 5 min, 1 h, 30 min, .6) at one slot a minute.

Deviations: one operator; the lag is the backlog, and none where that is not known; no allowance for a restart, which
here takes seconds; ineffective scalings are not looked for (the operator does not act on them by default); the bounds
are looked at when the delay is over.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.jit import jit
from scaler.model.kernel import Integers, KernelView, Problem
from scaler.model.policy import Start
from scaler.policies.homogeneous import by_node, is_underway, read_count, read_number, scale_to, whole
from scaler.policies.rules.true_rate import (
    RateWindow,
    TrueRate,
    clear,
    forget,
    gauge,
    highest,
    is_full,
    make_true_rate,
    make_window,
    mean,
    parallelism_for,
    push,
)

TARGET, BOUNDARY = 0.7, 0.3
WINDOW, STABILISATION, DELAY = 15, 5, 60  # slots
CATCH_UP = 1800.0  # seconds
MAX_SCALE_DOWN = 0.6


class State(NamedTuple):
    kind: int
    target: float
    busiest: float  # utilisation above which to scale out
    idlest: float  # and below which to scale in
    stabilisation: int
    catch_up: float
    rate: RateWindow
    true_rate: TrueRate
    fewer: RateWindow  # parallelisms that called for a scale-in, since the first of them
    course: Integers  # [2] parallelism headed for or 0, slots of stabilisation still to come


def prepare(start: Start, node_type: int) -> State:
    target = read_number(start.options, "target", TARGET, 0.01, 1.0)
    boundary = read_number(start.options, "boundary", BOUNDARY, 0.0, 1.0)
    if boundary >= target:
        raise BadInput(f"option 'boundary' is {boundary:g}, and must be less than 'target', which is {target:g}")
    window = read_count(start.options, "window", WINDOW)
    return State(
        kind=node_type,
        target=target,
        busiest=min(1.0, target + boundary),
        idlest=target - boundary,
        stabilisation=read_count(start.options, "stabilisation", STABILISATION, low=0),
        catch_up=read_number(start.options, "catch_up", CATCH_UP, 1.0, 1e9),
        rate=make_window(window),
        true_rate=make_true_rate(window, 0),
        fewer=make_window(read_count(start.options, "scale_down_delay", DELAY)),
        course=np.zeros(2, np.int64),
    )


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    return 0 if s.course[0] == 0 else scale_to(p, k, seen.count, s.kind, s.course[0])


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    if action != 0:
        s.course[1] = s.stabilisation
        forget(s.true_rate)  # what was gathered before the change no longer counts
        clear(s.rate)
        clear(s.fewer)
    if is_underway(s.course, action, seen.count):
        return
    if s.course[1] > 0:
        s.course[1] -= 1
        return
    gauge(p, s.true_rate, before, action, seen)
    push(s.rate, seen.arrivals)
    if is_full(s.rate):
        weigh(p, s, k, seen)


@jit
def weigh(p: Problem, s: State, k: Integers, seen: KernelView) -> None:
    """Set a course if the metrics call for another parallelism and every delay is over."""
    rate = mean(s.rate)
    wanted = recommend(p, s, k, seen, rate)
    if wanted >= seen.count:
        clear(s.fewer)
        if wanted > seen.count and replicas_at(p, s, k, seen, rate, s.busiest) > seen.count:
            s.course[0] = wanted
        return
    due = is_full(s.fewer)
    push(s.fewer, float(wanted))
    if due and replicas_at(p, s, k, seen, rate, s.idlest) < seen.count:
        s.course[0] = int(highest(s.fewer))


@jit
def recommend(p: Problem, s: State, k: Integers, seen: KernelView, rate: float) -> int:
    """The parallelism that the target utilisation asks for, as far as it may go at once."""
    exact = max(replicas_at(p, s, k, seen, rate, s.target), (1.0 - MAX_SCALE_DOWN) * seen.count)
    return whole(p, exact)


@jit
def replicas_at(p: Problem, s: State, k: Integers, seen: KernelView, rate: float, utilisation: float) -> float:
    """Replicas that carry the rate at this utilisation, and the lag within the catch-up duration; not rounded."""
    lag = seen.backlog if math.isfinite(seen.backlog) else 0.0
    return parallelism_for(p, s.true_rate, k, rate / utilisation + lag / s.catch_up)


FLINK_C, FLINK_S, FLINK_O, FLINK_P = by_node(
    "Flink",
    prepare,
    decide,
    learn,
    options=("target", "boundary", "window", "stabilisation", "scale_down_delay", "catch_up"),
    any_size=True,
)
