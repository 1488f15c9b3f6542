"""The slots of a demo run: what each operator decided, and what its replicas cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from scaler.model.decision import SCALED, Decision, parse_decision
from tuner.demo.demo_plan import OPERATORS, SLOT_S
from tuner.demo.demo_run import Progress

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Moment:
    """One operator in one slot."""

    operator: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Scene:
    """Slots of `slot_s` seconds of operators, in the order of time; `began` is when the replay did."""

    operators: tuple[str, ...]
    node_types: tuple[str, ...]
    slot_s: float
    began: float
    moments: tuple[Moment, ...]

    def of(self, operator: str) -> list[Decision]:
        return [moment.decision for moment in self.moments if moment.operator == operator]

    @property
    def cost(self) -> float:
        """What the replicas of all slots cost, in the prices' money; of slots whose price nobody knows, as the last."""
        return sum(self.cost_of(operator) for operator in self.operators)

    def cost_of(self, operator: str) -> float:
        total = price = 0.0
        for decision in self.of(operator):
            price = price if decision.price is None else decision.price
            total += price * self.slot_s / HOUR_S
        return total

    def late_share(self, operator: str) -> float | None:
        known = [decision.late for decision in self.of(operator) if decision.late is not None]
        return sum(known) / len(known) if known else None

    @property
    def changes(self) -> int:
        return sum(moment.decision.kind == SCALED for moment in self.moments)

    @property
    def seconds(self) -> float:
        times = {moment.decision.time for moment in self.moments}
        return len(times) * self.slot_s

    def static_cost(self, static: Mapping[str, int], price: float) -> float:
        """Of so many replicas of this price, had they been there in all slots."""
        slots = sum(len(self.of(operator)) * count for operator, count in static.items())
        return slots * price * self.slot_s / HOUR_S


def read_scene(progress: Progress) -> Scene | None:
    """None until the replay begins.

    It has the slots that end after the replay began and begin before it ended; of two decisions of one slot the later.
    """
    if progress.began is None:
        return None
    until = math.inf if progress.until is None else progress.until
    found: dict[tuple[float, str], Moment] = {}
    moments = (Moment(str(row["operator"]), parse_decision(row)) for row in progress.decisions)
    for moment in sorted(moments, key=lambda moment: moment.decision.time):
        time = moment.decision.time
        if moment.operator in OPERATORS and time + SLOT_S > progress.began and time < until:
            found[time, moment.operator] = moment
    types = sorted({name for row in progress.decisions for name in row.get("seen", {}).get("deployment", {})})
    return Scene(OPERATORS, tuple(types), SLOT_S, progress.began, tuple(found.values()))
