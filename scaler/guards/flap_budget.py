"""Flap budget: at most so many changes in any stretch of so many hours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from scaler.guards.change_history import MOST_CHANGES, History
from scaler.guards.guard import ALLOWED, Guard, Verdict, block
from scaler.guards.options import Table
from scaler.model.nodes import Reconfiguration
from scaler.model.policy import Observation


@dataclass(frozen=True, slots=True)
class FlapBudget:
    changes: int
    hours: float


def spend(budget: FlapBudget, proposed: Reconfiguration, seen: Observation, history: History) -> Verdict:
    spent = sum(seen.time - when < budget.hours * 3600.0 for when in history.changes)
    if spent < budget.changes:
        return ALLOWED
    return block(f"flap_budget: {spent} changes in the last {budget.hours:g} h, and changes is {budget.changes}")


def read_flap_budget(table: Table) -> Guard:
    return partial(
        spend, FlapBudget(table.count("changes", low=0, high=MOST_CHANGES), table.number("hours", 24.0, low=1e-3))
    )
