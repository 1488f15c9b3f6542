"""What is kept of a slot so that "why did it not scale?" has an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scaler.model.nodes import NOTHING, Reconfiguration


class Outcome(StrEnum):
    SCALED = "SCALED"
    NO_CHANGE = "NO_CHANGE"
    BLOCKED = "BLOCKED"
    ACTUATION_FAILED = "ACTUATION_FAILED"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a guarded policy decides, and why: `reasons` has one sentence per guard that blocked."""

    proposed: Reconfiguration
    reasons: tuple[str, ...] = ()

    @property
    def decided(self) -> Reconfiguration:
        return NOTHING if self.reasons else self.proposed


@dataclass(frozen=True, slots=True)
class Decision:
    """One slot, once it is known what was really done."""

    time: float
    outcome: Outcome
    proposed: Reconfiguration
    done: Reconfiguration
    reason: str


def conclude(time: float, judgement: Judgement, done: Reconfiguration, types: Sequence[str]) -> Decision:
    """The decision that goes on record."""
    proposed, decided = judgement.proposed, judgement.decided
    if done != decided:
        outcome = Outcome.ACTUATION_FAILED
        reason = f"{describe(decided, types)} was decided, {describe(done, types)} was done"
    elif judgement.reasons:
        outcome, reason = Outcome.BLOCKED, "; ".join(judgement.reasons)
    elif decided.delta == 0:
        outcome, reason = Outcome.NO_CHANGE, "the policy proposed none"
    else:
        outcome, reason = Outcome.SCALED, f"the policy proposed {describe(decided, types)}, and no guard objected"
    return Decision(time, outcome, proposed, done, reason)


def describe(change: Reconfiguration, types: Sequence[str]) -> str:
    if change.delta == 0:
        return "no change"
    return f"{'adding' if change.delta > 0 else 'removing'} a replica on {types[change.node_type]}"
