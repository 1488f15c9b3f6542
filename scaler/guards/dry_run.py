"""Dry run: decide everything, change nothing; the objection says what would have been done.

This is the one mechanism: orders switch it on for an application or an operator, `attach(enforce=False)` for a driver.
A change that nothing else blocks is recorded with the kind DRY_RUN.
"""

from __future__ import annotations

from functools import partial

from scaler.guards.change_history import ChangeHistory
from scaler.guards.guard import Guard, object_to
from scaler.guards.options import GuardOptions
from scaler.model.decision import Objection
from scaler.model.nodes import Reconfiguration
from scaler.model.policy import Observation

GUARD_NAME = "dry_run"


def block_all(
    types: tuple[str, ...], proposed: Reconfiguration, seen: Observation, history: ChangeHistory
) -> Objection:
    verb = "added" if proposed.delta > 0 else "removed"
    return object_to(GUARD_NAME, f"a replica on {types[proposed.node_type]} would have been {verb}")


def read_dry_run(table: GuardOptions) -> Guard:
    return partial(block_all, table.types)
