"""DS2 (Kalavri et al., OSDI 2018) over a whole application: all operators are sized in one reconfiguration.

In one pass from the sources, with lambda_i what arrives at operator i once none holds another back and o_i the true
rates of its p_i replicas in sum,

    lambda_i = external rate x share + sum over upstream j of selectivity_ji lambda_j
    pi_i = ceil((1 + factor) lambda_i p_i / o_i)

What is passed on is not rounded up with pi. True rates, warm-up, activation and options are those of ds2.py. All are
changed once one is to grow, or to shrink by more than one replica; `ratio` applies where none is to grow, and all are
multiplied by the largest overhead. An operator whose true rate is not known yet keeps its replicas.

Deviations: selectivities are the application's, not measured slot by slot; operators here do not hold their sources
back, so that overheads are looked for at every operator, not at the sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scaler.model.kernel import Floats, Integers, KernelView, Problem
from scaler.policies.coordinator import (
    CoordinatorStart,
    Dataflow,
    coordinate_by_node,
    external_rate,
    lay_out_dataflow,
    scale_all,
    sustained_rates,
)
from scaler.policies.homogeneous import read_count, whole
from scaler.policies.rules.ds2 import OPTIONS, WINDOW, Sizing, choose, hidden, is_change, missed, prepare_sizing
from scaler.policies.rules.true_rate import (
    RateWindow,
    clear,
    gauge,
    is_full,
    make_window,
    mean,
    parallelism_for,
    push,
)


class State(NamedTuple):
    kinds: tuple[int, ...]  # node type that comes and goes, by operator
    flow: Dataflow
    sizings: tuple[Sizing, ...]
    external: RateWindow
    overhead: Floats  # [1] what each parallelism is multiplied by
    last: list[tuple[tuple[int, ...], KernelView]]  # deployment and view of each operator in the last slot


def prepare(start: CoordinatorStart, kinds: tuple[int, ...]) -> State:
    sizings = tuple(prepare_sizing(start.options) for _ in start.tasks)
    window = make_window(read_count(start.options, "window", WINDOW))
    return State(kinds, lay_out_dataflow(start), sizings, window, np.ones(1), [])


def decide(s: State, problems: Sequence[Problem], ks: Sequence[Integers], views: Sequence[KernelView]) -> list[int]:
    """Size all operators at once, when enough evaluations since the last change are there."""
    push(s.external, external_rate(s.flow, [seen.arrivals for seen in views]))
    now = [(tuple(k.tolist()), seen) for k, seen in zip(ks, views, strict=True)]
    before, s.last[:] = s.last[:], now
    if not before:
        return [0] * len(ks)
    changed = any(k != then for (k, _), (then, _) in zip(now, before, strict=True))
    counts = [
        gauge(p, sizing.true_rate, then, int(changed), seen)
        for p, sizing, (_, then), seen in zip(problems, s.sizings, before, views, strict=True)
    ]
    if changed:
        for sizing in s.sizings:
            clear(sizing.evaluations)
    if not all(counts):
        return [0] * len(ks)
    wanted = evaluate(s, problems, ks, views)
    for sizing, count in zip(s.sizings, wanted, strict=True):
        push(sizing.evaluations, float(count))
    chosen = [choose(sizing) for sizing in s.sizings]
    worth_it = any(is_change(seen.count, count) for seen, count in zip(views, chosen, strict=True))
    if not is_full(s.sizings[0].evaluations) or not worth_it:
        return [0] * len(ks)
    return scale_all(s.kinds, problems, ks, views, chosen)


def evaluate(s: State, problems: Sequence[Problem], ks: Sequence[Integers], views: Sequence[KernelView]) -> list[int]:
    """Each operator's optimal parallelism by what is known now."""
    rates = sustained_rates(s.flow, (1.0 + s.sizings[0].factor) * mean(s.external))
    operators = list(zip(problems, s.sizings, ks, views, strict=True))
    exact = [parallelism_for(p, z.true_rate, k, rate) for (p, z, k, _), rate in zip(operators, rates, strict=True)]
    grows = any(whole(p, e * s.overhead[0]) > seen.count for p, e, seen in zip(problems, exact, views, strict=True))
    if not grows and max(missed(seen) for seen in views) > s.sizings[0].ratio:
        s.overhead[0] = max(hidden(p, z.true_rate, k, seen) for p, z, k, seen in operators if seen.utilisation > 1.0)
    return [int(whole(p, e * s.overhead[0])) for p, e in zip(problems, exact, strict=True)]


DS2_GRAPH_C, DS2_GRAPH_S, DS2_GRAPH_O, DS2_GRAPH_P = coordinate_by_node("DS2 graph", prepare, decide, OPTIONS)
