"""A decision and the controls of its time in; which guard blocked it, and who had set that, when and why, out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.store.records import Control, DecisionRecord

WITHIN = ("the limits", "patience")  # of the scaler itself, beside the guards


@dataclass(frozen=True, slots=True)
class Standing:
    """A guard that a person had put before the operator."""

    kind: str
    operator: str  # "": all of the application's
    settings: Mapping[str, Any]
    who: str
    since: float
    until: float | None
    note: str


@dataclass(frozen=True, slots=True)
class Block:
    """A guard's objection, and whose guard it was: nobody's where it is of the scaler's own configuration."""

    guard: str
    says: str
    set_by: tuple[Standing, ...] = field(default_factory=tuple)


def find_blocks(decision: DecisionRecord, controls: Sequence[Control]) -> tuple[Block, ...]:
    """The guards that the reason names, with the controls of that kind that stood for the operator then."""
    if decision.kind != "BLOCKED":
        return ()
    found = split_objections(decision.reason)
    standing = list_standing(decision.operator, controls)
    blocks = [Block(guard, says, tuple(one for one in standing if one.kind == guard)) for guard, says in found]
    return tuple(blocks) or (Block("", decision.reason),)


def split_objections(reason: str) -> list[tuple[str, str]]:
    """Each guard begins its sentence with its name and a colon; a semicolon separates one from the next."""
    from scaler.guards import GUARDS

    names = "|".join(map(re.escape, (*GUARDS, *WITHIN)))
    begun = list(re.finditer(rf"(?:(?<=; )|(?<=^)|(?<=blocked by ))({names}): ", reason))
    ends = [after.start() for after in begun[1:]] + [len(reason)]
    return [(m[1], reason[m.end() : end].strip().rstrip(";")) for m, end in zip(begun, ends, strict=True)]


def list_standing(operator: str, controls: Sequence[Control]) -> list[Standing]:
    return [
        Standing(c.kind, c.operator, dict(c.settings), c.who, c.since, c.until, c.note)
        for c in controls
        if c.operator in ("", operator)
    ]
