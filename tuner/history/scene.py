"""Decisions of an application flow in; what each of its slots was like, and what it cost, flow out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Moment:
    """One operator in one slot; None is not known. Response and bound in seconds, the price per hour."""

    time: float
    operator: str
    kind: str
    reason: str
    action: str | None = None
    rate: float | None = None
    response: float | None = None  # infinite where overloaded
    bound: float | None = None
    price: float | None = None
    replicas: Mapping[str, int] | None = None  # by node type

    @property
    def late(self) -> bool | None:
        return None if self.response is None or self.bound is None else self.response > self.bound


@dataclass(frozen=True, slots=True)
class Scene:
    """Slots of `slot_s` seconds of operators, in the order of time; `began` is when the replay did."""

    operators: tuple[str, ...]
    node_types: tuple[str, ...]
    slot_s: float
    began: float
    moments: tuple[Moment, ...]

    def of(self, operator: str) -> list[Moment]:
        return [moment for moment in self.moments if moment.operator == operator]

    @property
    def cost(self) -> float:
        """What the replicas of all slots cost, in the prices' money; of slots whose price nobody knows, as the last."""
        return sum(self.cost_of(operator) for operator in self.operators)

    def cost_of(self, operator: str) -> float:
        total = price = 0.0
        for moment in self.of(operator):
            price = price if moment.price is None else moment.price
            total += price * self.slot_s / HOUR_S
        return total

    def late_share(self, operator: str) -> float | None:
        known = [moment.late for moment in self.of(operator) if moment.late is not None]
        return sum(known) / len(known) if known else None

    @property
    def changes(self) -> int:
        return sum(moment.kind == "SCALED" for moment in self.moments)

    @property
    def seconds(self) -> float:
        times = {moment.time for moment in self.moments}
        return len(times) * self.slot_s

    def static_cost(self, static: Mapping[str, int], price: float) -> float:
        """Of so many replicas of this price, had they been there in all slots."""
        slots = sum(len(self.of(operator)) * count for operator, count in static.items())
        return slots * price * self.slot_s / HOUR_S


def set_scene(
    decisions: Iterable[Mapping[str, Any]],
    operators: Sequence[str],
    node_types: Sequence[str],
    slot_s: float,
    began: float,
    until: float = math.inf,
) -> Scene:
    """Of the slots that end after the replay began, and begin before it ended; of two words on one the latter."""
    found: dict[tuple[float, str], Moment] = {}
    for row in sorted(decisions, key=lambda row: float(row["time"])):
        if row["operator"] in operators and row["time"] + slot_s > began and row["time"] < until:
            found[row["time"], row["operator"]] = read_moment(row)
    return Scene(tuple(operators), tuple(node_types), slot_s, began, tuple(found.values()))


def read_moment(row: Mapping[str, Any]) -> Moment:
    """As the manager's API tells a decision."""
    deployment = row.get("seen", {}).get("deployment")
    return Moment(
        time=float(row["time"]),
        operator=str(row["operator"]),
        kind=str(row["kind"]),
        reason=str(row["reason"]),
        action=row.get("action"),
        rate=number(row.get("rate")),
        response=number(row.get("response")),
        bound=number(row.get("bound")),
        price=number(row.get("price")),
        replicas={str(name): int(count) for name, count in deployment.items()} if deployment else None,
    )


def number(value: Any) -> float | None:
    """JSON has no infinity: the API writes it as a word."""
    return None if value is None else float(value)
