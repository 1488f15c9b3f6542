"""DS2 (Kalavri et al., "Three steps is all you need", OSDI 2018): parallelism from the true processing rate.

Optimal parallelism = ceil(rate / true rate of a replica), the true rate measured over an observation window (see
true_rate.py), the first slots after a change left out (warm-up). The decision is the highest of the
last so many (activation time): out at once, in when all of them agree.

Deviations: one operator, as each has its own scaler, so the rate is the one that arrives and not one worked out along
the graph; one replica a slot towards the optimum, which is not computed on the way from the slots of the change but
from the rate known before it; the paper lets the activation take the median instead, and has a target rate ratio for
the overheads that instrumentation does not see, which is left at 1.
"""

from __future__ import annotations

from typing import NamedTuple

from scaler.model.jit import jit
from scaler.model.kernel import Integers, KernelView, Problem
from scaler.model.policy import Start
from scaler.policies.homogeneous import by_node, head_for, read_count, whole
from scaler.policies.rules.true_rate import (
    RateWindow,
    TrueRate,
    gauge,
    highest,
    is_full,
    make_true_rate,
    make_window,
    mean,
    parallelism_for,
    push,
)

WINDOW, ACTIVATION, WARM_UP = 1, 5, 1  # slots


class State(NamedTuple):
    kind: int
    rate: RateWindow
    true_rate: TrueRate
    decisions: RateWindow  # of the activation time


def prepare(start: Start, node_type: int) -> State:
    window = read_count(start.options, "window", WINDOW)
    return State(
        kind=node_type,
        rate=make_window(window),
        true_rate=make_true_rate(window, read_count(start.options, "warm_up", WARM_UP, low=0)),
        decisions=make_window(read_count(start.options, "activation", ACTIVATION)),
    )


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    if not is_full(s.decisions):
        return 0
    return head_for(p, k, seen.count, s.kind, int(highest(s.decisions)))


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    gauge(s.true_rate, before, action, seen)
    push(s.rate, seen.rate)
    exact = parallelism_for(s.true_rate, before, action, seen, mean(s.rate))
    push(s.decisions, float(whole(p, exact)))


DS2_C, DS2_S, DS2_O = by_node("DS2", prepare, decide, learn, options=("window", "activation", "warm_up"))
