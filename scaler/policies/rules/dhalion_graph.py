"""Dhalion (Floratou et al., VLDB 2017) over a whole application: one operator at a time, the initiator.

Symptoms, resolutions, their judgement and the black list are those of dhalion.py, operator by operator; symptoms start
anew for all whenever any operator changes. Of the operators under backpressure the *initiator* is resolved: the most
downstream one, behind which there is none. Where none is under backpressure, the operator that works least of those
with idle queues shrinks. Where a resolution is on the black list, the next operator's is tried.

Deviation: operators here do not hold their sources back, so that one upstream of the initiator is under backpressure
of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scaler.model.kernel import Integers, KernelView, Problem
from scaler.policies.coordinator import (
    CoordinatorStart,
    Dataflow,
    coordinate_by_node,
    lay_out_dataflow,
    operator_start,
    scale_all,
)
from scaler.policies.rules import dhalion
from scaler.policies.rules.true_rate import mean


class State(NamedTuple):
    kinds: tuple[int, ...]  # node type that comes and goes, by operator
    flow: Dataflow
    operators: tuple[dhalion.State, ...]
    last: list[tuple[int, ...]]  # deployments in the last slot


def prepare(start: CoordinatorStart, kinds: tuple[int, ...]) -> State:
    operators = tuple(dhalion.prepare(operator_start(start, i), kind) for i, kind in enumerate(kinds))
    return State(kinds, lay_out_dataflow(start), operators, [])


def decide(s: State, problems: Sequence[Problem], ks: Sequence[Integers], views: Sequence[KernelView]) -> list[int]:
    """Watch all operators; resolve one, once there is a window of symptoms of each."""
    now = [tuple(k.tolist()) for k in ks]
    before, s.last[:] = s.last[:] or now, now
    changed = [int(a != b) for a, b in zip(before, now, strict=True)]
    operators = zip(s.operators, changed, views, strict=True)
    watched = [dhalion.watch(one, moved, any(changed), seen) for one, moved, seen in operators]
    if all(watched):
        for one in s.operators:
            dhalion.judge(one)
        for i in list_candidates(s, problems, views):
            dhalion.resolve(problems[i], s.operators[i], views[i])
            if s.operators[i].course[0] != 0:
                break
    wanted = [int(one.course[0]) or seen.count for one, seen in zip(s.operators, views, strict=True)]
    return scale_all(s.kinds, problems, ks, views, wanted)


def list_candidates(s: State, problems: Sequence[Problem], views: Sequence[KernelView]) -> Iterator[int]:
    """Operators to resolve, the first one first."""
    pressed = [i for i in reversed(s.flow.order) if mean(s.operators[i].held_back) > 0.0]
    if pressed:
        yield from pressed
        return
    yield from sorted(
        (i for i, p in enumerate(problems) if views[i].count > p.k_min), key=lambda i: views[i].utilisation
    )


DHALION_GRAPH_C, DHALION_GRAPH_S, DHALION_GRAPH_O, DHALION_GRAPH_P = coordinate_by_node(
    "Dhalion graph", prepare, decide, ("window", "pending", "blacklist")
)
