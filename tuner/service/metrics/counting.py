"""Counts of decisions and events that never fall while this process lives, as Prometheus expects of counters.

`tuner db prune` removes old decisions, so their number in the database is no counter. Each process counts those newer
than the last one of the same operator that it counted, from zero at its first scrape. Decisions of a scaler that was
cut off for days arrive in their order and are counted then; one that arrives after a later one of the same operator is
not. Events are not pruned: they are counted whole, and should some vanish all the same, only additions count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scaler.guards import GUARDS
from scaler.guards.dry_run import GUARD_NAME as DRY_RUN_GUARD
from scaler.model import decision
from scaler.model.decision import ACTUATION_FAILED, BLOCKED, DRY_RUN, HELD, NO_CHANGE, SCALED
from tuner.store.connection import Session
from tuner.store.monitoring import OperatorState, count_decisions_since

Place = tuple[str, str]  # application and operator
Counted = tuple[str, str, str, str]  # application, operator, kind, reason code
OTHER = "other"
CODES = frozenset((*decision.CODES, *GUARDS))  # others count together, so that there are never more series
USUAL = {  # a code of each kind that is shown from the start
    SCALED: decision.PROPOSED, NO_CHANGE: decision.PROPOSED, BLOCKED: OTHER, HELD: OTHER, DRY_RUN: DRY_RUN_GUARD,
    ACTUATION_FAILED: decision.NOT_ACTUATED,
}  # fmt: skip


@dataclass(slots=True)
class DecisionCounts:
    begun: bool = False
    until: dict[Place, float] = field(default_factory=dict)  # the last decision counted
    counts: Counter[Counted] = field(default_factory=Counter)

    def count(self, session: Session, newest: Sequence[OperatorState]) -> Mapping[Counted, int]:
        """All so far; an operator that is seen for the first time has all its kinds at zero, so that they can grow."""
        for one in newest:
            place = (one.application, one.operator)
            if place not in self.until:
                self.until[place] = one.time if one.time is not None and not self.begun else float("-inf")
                for kind, usual in USUAL.items():
                    self.counts[(*place, kind, usual)] += 0
            if one.time is not None and one.time > self.until[place]:
                self.counts.update(count_since(session, place, self.until[place]))
                self.until[place] = one.time
        self.begun = True
        return self.counts


def count_since(session: Session, place: Place, since: float) -> Counter[Counted]:
    counts: Counter[Counted] = Counter()
    for (kind, code), count in count_decisions_since(session, *place, since).items():
        counts[(*place, kind, name_code(code))] += count
    return counts


def name_code(code: str | None) -> str:
    """A decision's reason code, as far as it is known here."""
    return code if code in CODES else OTHER


@dataclass(slots=True)
class Growth:
    """Of numbers that may also shrink: the sum of what was added since the first look, and what there was then."""

    before: dict[tuple[str, ...], int] = field(default_factory=dict)
    grown: dict[tuple[str, ...], int] = field(default_factory=dict)

    def follow(self, now: Mapping[tuple[str, ...], int]) -> Mapping[tuple[str, ...], int]:
        for key in {**self.before, **now}:
            self.grown[key] = self.grown.get(key, 0) + max(0, now.get(key, 0) - self.before.get(key, 0))
        self.before = dict(now)
        return self.grown
