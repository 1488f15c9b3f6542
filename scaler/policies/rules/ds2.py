"""DS2 (Kalavri et al., "Three steps is all you need", OSDI 2018): parallelism from the true processing rate.

Optimal parallelism = ceil((1 + factor) rate / mean true rate of the replicas), measured over an observation window (see
true_rate.py). The first slots after a change are left out (warm-up), and the next change needs so many evaluations
since (activation); the one carried out is the latest of them, as in the authors' repository, or their highest or
median, as the paper has it. One replica fewer is no change worth making. Where no more replicas are called for and yet
more than `ratio` times as much arrives as can be got through, there are overheads that true rates do not show, and the
parallelism is multiplied by them.

Deviations: one operator, as each has its own scaler, so the rate is the one that arrives; ds2_graph.py works it out
along the graph. A backlog is not provided for, and worked off by what rounding up leaves over. `ratio` is 1 (infinite
in the repository), and what parallelism is multiplied by is true rates in sum over the capacity seen, kept until
replicas fall behind again, since the overheads here are of mixed node types under an even split of the load, which the
slowest replica paces: the next evaluation would take the replicas back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem
from scaler.model.policy import Start
from scaler.policies.homogeneous import by_node, is_underway, read_count, read_number, scale_to, whole
from scaler.policies.rules.true_rate import (
    RateWindow,
    TrueRate,
    clear,
    gauge,
    highest,
    is_full,
    latest,
    make_true_rate,
    make_window,
    mean,
    median,
    parallelism_for,
    push,
    total_rate,
)

WINDOW, ACTIVATION, WARM_UP = 1, 1, 1  # slots
CHOICES = ("latest", "highest", "median")
OPTIONS = ("window", "warm_up", "activation", "choose", "factor", "ratio")


class Sizing(NamedTuple):
    """What an operator's parallelism is evaluated from, and how."""

    true_rate: TrueRate
    evaluations: RateWindow  # since the last change
    choice: int  # of CHOICES
    factor: float
    ratio: float


class State(NamedTuple):
    kind: int
    sizing: Sizing
    rate: RateWindow
    overhead: Floats  # [1] what parallelism is multiplied by
    course: Integers  # [1] parallelism headed for, or 0


def prepare_sizing(options: Mapping[str, Any]) -> Sizing:
    """The evaluation with these options."""
    choice = options.get("choose", CHOICES[0])
    if choice not in CHOICES:
        raise BadInput(f"option 'choose' is {choice!r}, and must be one of {', '.join(CHOICES)}")
    warm_up = read_count(options, "warm_up", WARM_UP, low=0)
    return Sizing(
        true_rate=make_true_rate(read_count(options, "window", WINDOW), warm_up),
        evaluations=make_window(read_count(options, "activation", ACTIVATION)),
        choice=CHOICES.index(choice),
        factor=read_number(options, "factor", 0.0, 0.0, 100.0),
        ratio=read_number(options, "ratio", 1.0, 1.0, 1e9),
    )


def prepare(start: Start, node_type: int) -> State:
    window = read_count(start.options, "window", WINDOW)
    return State(node_type, prepare_sizing(start.options), make_window(window), np.ones(1), np.zeros(1, np.int64))


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    return 0 if s.course[0] == 0 else scale_to(p, k, seen.count, s.kind, s.course[0])


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    push(s.rate, seen.arrivals)
    counts = gauge(p, s.sizing.true_rate, before, action, seen)
    if action != 0:
        clear(s.sizing.evaluations)
    if is_underway(s.course, action, seen.count) or not counts:
        return
    exact = parallelism_for(p, s.sizing.true_rate, k, (1.0 + s.sizing.factor) * mean(s.rate))
    if whole(p, exact * s.overhead[0]) <= seen.count and missed(seen) > s.sizing.ratio:
        s.overhead[0] = hidden(p, s.sizing.true_rate, k, seen)
    push(s.sizing.evaluations, float(whole(p, exact * s.overhead[0])))
    if is_full(s.sizing.evaluations) and is_change(seen.count, choose(s.sizing)):
        s.course[0] = choose(s.sizing)


@jit
def missed(seen: KernelView) -> float:
    """Arrivals over the capacity that is seen; 0 where replicas keep up."""
    return seen.arrivals * seen.utilisation / seen.rate if seen.utilisation > 1.0 else 0.0


@jit
def hidden(p: Problem, t: TrueRate, k: Integers, seen: KernelView) -> float:
    """True rates over the capacity that is seen where replicas do not keep up."""
    return max(1.0, total_rate(p, t, k) * seen.utilisation / seen.rate)


@jit
def is_change(count: int, wanted: int) -> bool:
    """Whether a parallelism is worth a reconfiguration."""
    return wanted > count or wanted < count - 1


@jit
def choose(s: Sizing) -> int:
    """The evaluation that is carried out."""
    if s.choice == 0:
        return int(latest(s.evaluations))
    return int(highest(s.evaluations) if s.choice == 1 else median(s.evaluations))


DS2_C, DS2_S, DS2_O, DS2_P = by_node("DS2", prepare, decide, learn, options=OPTIONS, any_size=True)
