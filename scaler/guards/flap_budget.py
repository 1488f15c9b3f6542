"""Flap budget: at most so many changes in any stretch of so many hours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from scaler.guards.change_history import MAX_CHANGES, ChangeHistory
from scaler.guards.guard import Guard, object_to
from scaler.guards.options import GuardOptions
from scaler.model.decision import Objection
from scaler.model.nodes import Reconfiguration
from scaler.model.policy import Observation


@dataclass(frozen=True, slots=True)
class FlapBudget:
    changes: int
    hours: float


def spend(budget: FlapBudget, proposed: Reconfiguration, seen: Observation, history: ChangeHistory) -> Objection | None:
    spent = sum(seen.time - when < budget.hours * 3600.0 for when in history.changes)
    if spent < budget.changes:
        return None
    message = f"{spent} changes in the last {budget.hours:g} h, and changes is {budget.changes}"
    return object_to("flap_budget", message, changes=budget.changes, hours=budget.hours, spent=spent)


def read_flap_budget(table: GuardOptions) -> Guard:
    return partial(
        spend, FlapBudget(table.count("changes", low=0, high=MAX_CHANGES), table.number("hours", 24.0, low=1e-3))
    )
