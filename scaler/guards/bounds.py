"""Bounds: at least and at most so many replicas, overall and of each node type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from scaler.guards.change_history import History
from scaler.guards.guard import ALLOWED, Guard, Verdict, block
from scaler.guards.options import Table
from scaler.model.errors import BadInput
from scaler.model.nodes import Reconfiguration
from scaler.model.policy import Observation

UNLIMITED = 1 << 30


@dataclass(frozen=True, slots=True)
class Span:
    """How many replicas there may be."""

    least: int = 0
    most: int = UNLIMITED

    def fault(self, count: int, delta: int) -> str:
        """What is wrong with a change that leads to this many, if anything is: a step inwards never is."""
        if delta > 0 and count > self.most:
            return f"max is {self.most}"
        if delta < 0 and count < self.least:
            return f"min is {self.least}"
        return ""


@dataclass(frozen=True, slots=True)
class Bounds:
    overall: Span
    by_type: tuple[tuple[str, Span], ...]  # name and span of every node type


def stay_within(bounds: Bounds, proposed: Reconfiguration, seen: Observation, history: History) -> Verdict:
    after = seen.deployment.after(proposed)
    name, span = bounds.by_type[proposed.node_type]
    count = after.replicas[proposed.node_type]
    for what, number, limits in (("in all", after.parallelism, bounds.overall), (f"on {name}", count, span)):
        fault = limits.fault(number, proposed.delta)
        if fault:
            return block(f"bounds: it would make {number} replicas {what}, and {fault}")
    return ALLOWED


def read_bounds(table: Table) -> Guard:
    spans = {i: read_span(table, part) for i, part in table.by_type("types").items()}
    overall = Span(table.count("min", 0), table.count("max", UNLIMITED, low=1))
    check(table, overall, "")
    by_type = tuple((name, spans.get(i, Span())) for i, name in enumerate(table.types))
    return partial(stay_within, Bounds(overall, by_type))


def read_span(table: Table, part: object) -> Span:
    if not isinstance(part, Mapping):
        raise table.wrong("types", part, "a table with min and max by node type")
    inner = Table(table.guard, part, table.types)
    span = Span(inner.count("min", 0), inner.count("max", UNLIMITED))
    inner.refuse_the_rest()
    check(table, span, " of a node type")
    return span


def check(table: Table, span: Span, whose: str) -> None:
    if span.least > span.most:
        raise BadInput(f"guard {table.guard!r}: min{whose} is {span.least}, and must not exceed max, {span.most}")
