"""Decisions and events in the database in; counts of them that never go back while this process lives out.

`tuner db prune` takes old decisions out, so their number in the database is no counter. Each process counts those that
are newer than the last one of the same operator that it counted, from zero at its first look, as Prometheus expects of
a counter whose process was started anew. A scaler that was cut off for days tells its decisions in their order, so
they are counted then; only one that comes after a later one of the same operator is not. Events are not pruned: they
are counted whole, and should they be all the same, only what is added counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from scaler.guards import GUARDS
from scaler.guards.dry_run import GUARD_NAME as DRY_RUN_GUARD
from scaler.model import decision
from scaler.model.decision import ACTUATION_FAILED, BLOCKED, DRY_RUN, HELD, NO_CHANGE, SCALED

if TYPE_CHECKING:
    from sqlalchemy import Select

    from tuner.service.metrics.newest import Newest
    from tuner.store.connection import Session

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

    def count(self, session: Session, newest: Sequence[Newest]) -> Mapping[Counted, int]:
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
    of = {"application": place[0], "operator": place[1], "since": max(since, -1e300)}
    found = session.execute(ask_since(), of, execution_options={"yield_per": 5_000})
    return Counter((*place, kind, name_code(code)) for kind, code in found)


def name_code(code: str | None) -> str:
    """A decision's reason code, as far as it is known here."""
    return code if code in CODES else OTHER


@cache
def ask_since() -> Select[str, str | None]:
    """Made once, for it is asked about every operator."""
    from sqlalchemy import bindparam, select

    from tuner.store.models import DecisionRow as Row

    mine = (Row.application == bindparam("application"), Row.operator == bindparam("operator"))
    return select(Row.kind, Row.code).where(*mine, Row.time > bindparam("since"))


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
