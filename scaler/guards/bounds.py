"""Bounds: minimum and maximum number of replicas, overall and of each node type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from scaler.guards.change_history import ChangeHistory
from scaler.guards.guard import Guard, object_to
from scaler.guards.options import GuardOptions
from scaler.model.decision import Objection
from scaler.model.errors import BadInput
from scaler.model.nodes import Reconfiguration
from scaler.model.policy import Observation

UNLIMITED = 1 << 30


@dataclass(frozen=True, slots=True)
class Span:
    """How many replicas there may be."""

    least: int = 0
    most: int = UNLIMITED

    def fault(self, count: int, delta: int) -> tuple[str, int] | None:
        """The setting that a change to this count breaks, and its value; a step inwards breaks none."""
        if delta > 0 and count > self.most:
            return "max", self.most
        return ("min", self.least) if delta < 0 and count < self.least else None


@dataclass(frozen=True, slots=True)
class Bounds:
    overall: Span
    by_type: tuple[tuple[str, Span], ...]  # name and span of every node type


def stay_within(
    bounds: Bounds, proposed: Reconfiguration, seen: Observation, history: ChangeHistory
) -> Objection | None:
    after = seen.deployment.after(proposed)
    name, span = bounds.by_type[proposed.node_type]
    count = after.replicas[proposed.node_type]
    for what, number, limits in (("in all", after.parallelism, bounds.overall), (f"on {name}", count, span)):
        fault = limits.fault(number, proposed.delta)
        if fault is not None:
            setting, value = fault
            message = f"it would make {number} replicas {what}, and {setting} is {value}"
            return object_to("bounds", message, setting=setting, value=value, replicas=number)
    return None


def read_bounds(table: GuardOptions) -> Guard:
    spans = {i: read_span(table, part) for i, part in table.by_type("types").items()}
    overall = Span(table.count("min", 0), table.count("max", UNLIMITED, low=1))
    check(table, overall, "")
    by_type = tuple((name, spans.get(i, Span())) for i, name in enumerate(table.types))
    return partial(stay_within, Bounds(overall, by_type))


def read_span(table: GuardOptions, part: object) -> Span:
    if not isinstance(part, Mapping):
        raise table.wrong("types", part, "a table with min and max by node type")
    inner = GuardOptions(table.guard, part, table.types)
    span = Span(inner.count("min", 0), inner.count("max", UNLIMITED))
    inner.refuse_unknown()
    check(table, span, " of a node type")
    return span


def check(table: GuardOptions, span: Span, whose: str) -> None:
    if span.least > span.most:
        raise BadInput(f"guard {table.guard!r}: min{whose} is {span.least}, and must not exceed max, {span.most}")
