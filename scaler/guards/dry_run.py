"""Dry run: decide everything, do nothing. The reasons tell what would have been done."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from scaler.guards.change_history import History
from scaler.guards.guard import Guard, Verdict, block
from scaler.guards.options import Table
from scaler.model.nodes import Reconfiguration
from scaler.model.policy import Observation


@dataclass(frozen=True, slots=True)
class DryRun:
    types: tuple[str, ...]


def rehearse(dry: DryRun, proposed: Reconfiguration, seen: Observation, history: History) -> Verdict:
    verb = "added" if proposed.delta > 0 else "removed"
    return block(f"dry_run: a replica on {dry.types[proposed.node_type]} would have been {verb}")


def read_dry_run(table: Table) -> Guard:
    return partial(rehearse, DryRun(table.types))
