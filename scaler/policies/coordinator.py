"""Coordinators: policies that decide for all operators of an application in the same slot.

A coordinator file publishes a `Coordinator`: how to prepare its state for an application, and the decision over it, one
action code (model/kernel.py) per operator. What was really done it reads from the next slot's deployments. The rates
that operators are to be sized for are worked out along the graph: behind a bottleneck less arrives than will once it
is resolved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from scaler.model.errors import BadInput
from scaler.model.kernel import Integers, KernelView, Problem
from scaler.model.policy import Start, check_options
from scaler.model.task import Task
from scaler.policies.homogeneous import NODE_RULES, scale_to

State = Any  # each coordinator has its own


@dataclass(frozen=True, slots=True)
class CoordinatorStart:
    """What a coordinator's state is prepared from."""

    tasks: tuple[Task, ...]  # of the operators
    edges: tuple[tuple[int, int, float], ...]  # from, to, tuples that arrive for each that is got through upstream
    sources: tuple[float, ...]  # share of the external stream that reaches each operator from outside
    r_max: float  # seconds, of a path
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)  # its own


Prepare = Callable[[CoordinatorStart], State]
Decide = Callable[[State, Sequence[Problem], Sequence[Integers], Sequence[KernelView]], list[int]]


@dataclass(frozen=True, slots=True)
class Coordinator:
    """A coordinator as its file publishes it; `decide` is called once a slot, and may write to its state."""

    title: str  # as the literature names it
    prepare: Prepare
    decide: Decide
    options: tuple[str, ...] = ()


def start_coordinator(coordinator: Coordinator, start: CoordinatorStart) -> State:
    """Prepare a coordinator's state; an option that it does not know is refused."""
    check_options(coordinator.title, coordinator.options, start.options)
    return coordinator.prepare(start)


def coordinate_by_node(
    title: str, prepare: Callable[[CoordinatorStart, tuple[int, ...]], State], decide: Decide, options: tuple[str, ...]
) -> tuple[Coordinator, ...]:
    """The coordinators of one rule for each choice of every operator's node type."""

    def on(letter: str, choose: Callable[[Task], int]) -> Coordinator:
        def prepare_on(start: CoordinatorStart) -> State:
            return prepare(start, tuple(choose(task) for task in start.tasks))

        return Coordinator(f"{title}-{letter}", prepare_on, decide, options)

    return tuple(on(letter, choose) for letter, choose in NODE_RULES.items())


def operator_start(start: CoordinatorStart, operator: int) -> Start:
    """What a policy of one operator alone would be prepared from."""
    task = start.tasks[operator]
    return Start(task, task, start.seed, start.options)


class Dataflow(NamedTuple):
    """The streams of an application, by index of the operator."""

    order: tuple[int, ...]  # upstream first
    feeds: tuple[tuple[tuple[int, float], ...], ...]  # upstream operator, tuples for each that it gets through
    shares: tuple[float, ...]  # of the external stream


def lay_out_dataflow(start: CoordinatorStart) -> Dataflow:
    """Put the operators in topological order."""
    feeds: list[list[tuple[int, float]]] = [[] for _ in start.tasks]
    for upstream, downstream, selectivity in start.edges:
        feeds[downstream].append((upstream, selectivity))
    sorter = TopologicalSorter({i: [j for j, _ in feed] for i, feed in enumerate(feeds)})
    try:
        order = tuple(sorter.static_order())
    except CycleError as error:
        raise BadInput(f"operators {error.args[1]} feed each other in a cycle; take an edge out") from error
    if not any(share > 0.0 and not feed for share, feed in zip(start.sources, feeds, strict=True)):
        raise BadInput("no operator is fed by the external stream alone; give one without upstream a share of it")
    return Dataflow(order, tuple(map(tuple, feeds)), start.sources)


def external_rate(flow: Dataflow, arrivals: Sequence[float]) -> float:
    """The whole external stream, from what arrived at the operators that it alone feeds."""
    fed = [i for i, feed in enumerate(flow.feeds) if not feed]
    return math.fsum(arrivals[i] for i in fed) / math.fsum(flow.shares[i] for i in fed)


def sustained_rates(flow: Dataflow, external: float) -> list[float]:
    """What arrives at each operator once none holds another back."""
    rates = [external * share for share in flow.shares]
    for i in flow.order:
        rates[i] += math.fsum(selectivity * rates[j] for j, selectivity in flow.feeds[i])
    return rates


def scale_all(
    kinds: Sequence[int],
    problems: Sequence[Problem],
    ks: Sequence[Integers],
    views: Sequence[KernelView],
    wanted: Sequence[int],
) -> list[int]:
    """The actions that bring every operator to its parallelism by replicas of its node type."""
    return [
        int(scale_to(p, k, seen.count, kind, count))
        for p, k, seen, kind, count in zip(problems, ks, views, kinds, wanted, strict=True)
    ]
