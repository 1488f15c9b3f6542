"""Match a decision's objections with the controls of its time: which guard blocked, who set it, when and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scaler.model.decision import BLOCKED, DRY_RUN, GUARD, Decision, Objection
from tuner.store.records import Control


@dataclass(frozen=True, slots=True)
class Standing:
    """A guard that a person had set for the operator."""

    kind: str
    operator: str  # "": all of the application's
    settings: Mapping[str, Any]
    who: str
    since: float
    until: float | None
    note: str


@dataclass(frozen=True, slots=True)
class Block:
    """An objection, and the controls behind it: none where it is of the agent's own configuration or limits."""

    objection: Objection
    set_by: tuple[Standing, ...] = ()


def find_blocks(decision: Decision, standing: Sequence[Standing]) -> tuple[Block, ...]:
    """Every objection that kept a proposal from being carried out; none are known of older agents' decisions."""
    if decision.kind not in (BLOCKED, DRY_RUN):
        return ()
    return tuple(Block(one, find_controls(one, standing)) for one in decision.objections)


def find_controls(objection: Objection, standing: Sequence[Standing]) -> tuple[Standing, ...]:
    return tuple(one for one in standing if objection.source == GUARD and one.kind == objection.code)


def list_standing(operator: str, controls: Sequence[Control]) -> tuple[Standing, ...]:
    """The controls that applied to the operator."""
    return tuple(
        Standing(c.kind, c.operator, dict(c.settings), c.who, c.since, c.until, c.note)
        for c in controls
        if c.operator in ("", operator)
    )
