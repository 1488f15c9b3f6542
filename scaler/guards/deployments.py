"""Guards on the deployment that a change leads to: bounds, pin, direction lock and dry run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from scaler.guards.guard import Guard, GuardCase, GuardOptions, object_to
from scaler.model.decision import Objection, count_replicas
from scaler.model.errors import BadInput
from scaler.model.nodes import Deployment

UNLIMITED = 1 << 30
DRY_RUN_GUARD = "dry_run"


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


def read_bounds(table: GuardOptions) -> Guard:
    """Bounds: minimum and maximum number of replicas, overall and of each node type."""
    spans = {i: read_type_span(table, part) for i, part in table.by_type("types").items()}
    overall = read_span(table, "", least_max=1)
    return partial(stay_within, overall, [(name, spans.get(i, Span())) for i, name in enumerate(table.types)])


def find_span(tables: Sequence[Mapping[str, Any]], types: Sequence[str]) -> Span:
    """Replicas in all that every one of these settings of bounds allows."""
    spans = [read_span(GuardOptions("bounds", table, types), "", least_max=1) for table in tables]
    return Span(max((one.least for one in spans), default=0), min((one.most for one in spans), default=UNLIMITED))


def stay_within(overall: Span, by_type: Sequence[tuple[str, Span]], case: GuardCase) -> Objection | None:
    after = case.seen.deployment.after(case.proposed)
    parts = [("in all", after.parallelism, overall, case.proposed.net)]
    parts += [(f"on {by_type[i][0]}", after.replicas[i], by_type[i][1], delta) for i, delta in case.proposed.changes]
    for what, number, limits, delta in parts:
        fault = limits.fault(number, delta)
        if fault is not None:
            setting, value = fault
            message = f"it would make {number} replicas {what}, and {setting} is {value}"
            return object_to("bounds", message, setting=setting, value=value, replicas=number)
    return None


def read_type_span(table: GuardOptions, part: object) -> Span:
    if not isinstance(part, Mapping):
        raise table.wrong("types", part, "a table with min and max by node type")
    inner = GuardOptions(table.guard, part, table.types)
    span = read_span(inner, " of a node type", least_max=0)
    inner.refuse_unknown()
    return span


def read_span(table: GuardOptions, whose: str, least_max: int) -> Span:
    span = Span(table.count("min", 0), table.count("max", UNLIMITED, low=least_max))
    if span.least > span.most:
        raise BadInput(f"guard {table.guard!r}: min{whose} is {span.least}, and must not exceed max, {span.most}")
    return span


def read_pin(table: GuardOptions) -> Guard:
    """Pin: no change at all, or none but those that lead towards a given deployment."""
    wanted = table.by_type("at")
    if "at" not in table.settings:
        return partial(pin_at, None, table.types)
    for value in wanted.values():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise table.wrong("at", value, "a whole number of replicas by node type")
    if sum(wanted.values()) == 0:
        raise table.wrong("at", 0, "a deployment of at least one replica")
    return partial(pin_at, Deployment(tuple(wanted.get(i, 0) for i in range(len(table.types)))), table.types)


def pin_at(target: Deployment | None, types: tuple[str, ...], case: GuardCase) -> Objection | None:
    if target is None:
        return object_to("pin", "no change is allowed while it is set")
    missing = [wanted - there for wanted, there in zip(target.replicas, case.seen.deployment.replicas, strict=True)]
    if all(missing[i] * delta > 0 and abs(delta) <= abs(missing[i]) for i, delta in case.proposed.changes):
        return None
    at = dict(zip(types, target.replicas, strict=True))
    where = ", ".join(f"{n} on {name}" for name, n in at.items())
    return object_to("pin", f"the change leads away from what at is: {where}", at=at)


def read_direction_lock(table: GuardOptions) -> Guard:
    """Direction lock: only scale out, or only scale in; a change of several replicas by each of them."""
    return partial(lock_direction, table.choice("only", ("out", "in")))


def lock_direction(only: str, case: GuardCase) -> Objection | None:
    way, barred = ("in", case.proposed.removed) if only == "out" else ("out", case.proposed.added)
    return object_to("direction_lock", f"it would scale {way}, and only is {only}", only=only) if barred else None


def read_dry_run(table: GuardOptions) -> Guard:
    """Dry run: decide everything, change nothing; the objection says what would have been done.

    This is the one mechanism: orders switch it on for an application or an operator, `attach(enforce=False)` for a
    driver. A change that nothing else blocks is recorded with the kind DRY_RUN.
    """
    return partial(block_all, table.types)


def block_all(types: tuple[str, ...], case: GuardCase) -> Objection:
    parts = (
        f"{count_replicas(abs(delta))} on {types[i]} would have been {'added' if delta > 0 else 'removed'}"
        for i, delta in case.proposed.changes
    )
    return object_to(DRY_RUN_GUARD, " and ".join(parts))
