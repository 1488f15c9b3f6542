"""Totals that a process retains between scrapes: decisions, events, and shares of slots by span.

Counters never fall while the process lives, as Prometheus expects. `tuner db prune` removes old decisions, so their
number in the database is no counter. Each process counts those newer than the last one of the same operator that it
counted, from zero at its first scrape. Decisions of a scaler that was cut off for days arrive in their order and are
counted then; one that arrives after a later one of the same operator is not. Events are not pruned: they are counted
whole, and should some vanish all the same, only additions count.

A day of a large application's slots is too much to read at each scrape. They are read in stretches of some minutes, of
which only sums are retained; a stretch is read again only when its number of decisions has changed: the newest ones,
and those that a scaler reports late.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from scaler.guards import GUARDS
from scaler.guards.deployments import DRY_RUN_GUARD
from scaler.model import decision
from scaler.model.decision import ACTUATION_FAILED, BLOCKED, DRY_RUN, HELD, NO_CHANGE, SCALED
from sim.application import Application
from tuner.history.qos_history import UNKNOWN, VIOLATED, find_changes, find_violations, load_slots
from tuner.scenario.layout import QoS
from tuner.store.connection import Session
from tuner.store.monitoring import OperatorState, count_by_stretch, count_decisions_since

Place = tuple[str, str]  # application and operator
Counted = tuple[str, str, str, str]  # application, operator, kind, reason code
OTHER = "other"
CODES = frozenset((*decision.CODES, *GUARDS))  # others count together, so that there are never more series
USUAL = {  # a code of each kind that is shown from the start
    SCALED: decision.PROPOSED, NO_CHANGE: decision.PROPOSED, BLOCKED: OTHER, HELD: OTHER, DRY_RUN: DRY_RUN_GUARD,
    ACTUATION_FAILED: decision.NOT_ACTUATED,
}  # fmt: skip
STRETCH_S = 300.0
SPANS = {"5m": 300.0, "1h": 3600.0, "1d": 86_400.0}  # labels and seconds
MAX_SPAN_S = max(SPANS.values())


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
                for (kind, code), count in count_decisions_since(session, *place, self.until[place]).items():
                    self.counts[(*place, kind, code if code in CODES else OTHER)] += count
                self.until[place] = one.time
        self.begun = True
        return self.counts


@dataclass(frozen=True, slots=True)
class Sums:
    decisions: int = 0
    slots: int = 0
    known: int = 0  # of which it is known whether a bound was broken
    broken: int = 0
    changed: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(getattr(self, name) + getattr(other, name) for name in Sums.__slots__))


@dataclass(frozen=True, slots=True)
class Watched:
    """An application as it is described, and the length of its slots."""

    name: str
    application: Application
    qos: QoS
    slot_s: float

    @property
    def stretch_s(self) -> float:
        """Whole slots, so that none lies in two stretches."""
        return self.slot_s * max(1, round(STRETCH_S / self.slot_s))


@dataclass(slots=True)
class Shares:
    sums: dict[str, tuple[Watched, dict[int, Sums]]] = field(default_factory=dict)

    def update(self, session: Session, applications: Sequence[Watched], now: float) -> dict[str, dict[str, Sums]]:
        """By application and span; each span begins with the stretch in which it begins."""
        found = {}
        for size in {watched.stretch_s for watched in applications}:
            counted = count_by_stretch(session, now - MAX_SPAN_S, now, size)
            for watched in applications:
                if watched.stretch_s == size:
                    found[watched.name] = self.sum_up(session, watched, counted.get(watched.name, {}), now)
        self.sums = {name: held for name, held in self.sums.items() if name in found}
        return found

    def sum_up(self, session: Session, watched: Watched, counts: Mapping[int, int], now: float) -> dict[str, Sums]:
        size = watched.stretch_s
        before, sums = self.sums.get(watched.name, (watched, {}))
        sums = dict(sums) if before == watched else {}
        stale = sorted(i for i, count in counts.items() if sums.get(i, Sums()).decisions != count)
        for begin, end in join_neighbours(stale):
            sums |= add_up(session, watched, begin, end, counts)
        sums = {i: one for i, one in sums.items() if i in counts}
        self.sums[watched.name] = (watched, sums)
        return {
            span: sum((one for i, one in sums.items() if i >= math.floor((now - length) / size)), Sums())
            for span, length in SPANS.items()
        }


def join_neighbours(stretches: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of ascending stretches that follow each other, as [begin, end)."""
    runs = np.split(np.array(stretches, dtype=np.int64), np.flatnonzero(np.diff(stretches) != 1) + 1)
    return [(int(run[0]), int(run[-1]) + 1) for run in runs if run.size]


def add_up(session: Session, watched: Watched, begin: int, end: int, counts: Mapping[int, int]) -> dict[int, Sums]:
    size = watched.stretch_s
    names = tuple(operator.name for operator in watched.application.operators)
    slots = load_slots(session, watched.name, names, begin * size, end * size, watched.slot_s)
    verdict, changed = find_violations(slots, watched.application, watched.qos), find_changes(slots)
    stretch = np.floor(slots.time / size + 1e-9).astype(np.int64)
    found = {}
    for i in range(begin, end):
        mine = stretch == i
        known = verdict[mine] != UNKNOWN
        broken = int((verdict[mine] == VIOLATED).sum())
        found[i] = Sums(counts.get(i, 0), int(mine.sum()), int(known.sum()), broken, int(changed[mine].sum()))
    return found
