"""Follow replicas of an operator from their order until they serve, are given up or are lost, by node type.

Orders are matched with arrivals first come, first served: one that overtakes another takes its seconds. Where the
actuator knows when each replica started, seconds are exact, and a loss shows though its replacement is there already;
else they lie between the look that did not see it and the one that did, and what came and went between two looks is not
seen. What is lost is ordered anew by whoever keeps the target, at a moment between the two looks. A driver that starts
again begins a new ledger: of replicas that the driver before it ordered nothing is told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from scaler.agent.pending import add_up
from scaler.model.supply_record import MOST_ARRIVALS, Span, SupplyRecord

UNKNOWN = -math.inf  # the earliest moment of an order that another driver may have made
Starts = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class SupplyLedger:
    """One operator's replicas at the last look, and what was done since."""

    looked: float | None = None  # when replicas were last counted
    there: Mapping[str, int] = field(default_factory=dict)
    target: Mapping[str, int] = field(default_factory=dict)  # empty: nobody ordered any
    waiting: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)  # earliest and latest moment of each order
    ordered: Mapping[str, int] = field(default_factory=dict)  # since the last look, as the two below
    given_up: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Passage:
    """What came and went of a node type between two looks, and the orders that still wait."""

    seconds: tuple[Span, ...]
    lost: int
    left: tuple[Span, ...]


def look(
    ledger: SupplyLedger, there: Mapping[str, int] | None, now: float, starts: Starts | None = None
) -> tuple[SupplyLedger, tuple[SupplyRecord, ...]]:
    """Compare with the replicas that are there now; None where they cannot be counted, and then nothing is told.

    `starts` says when each of them started.
    """
    if there is None:
        return ledger, ()
    after = replace(ledger, looked=now, there=dict(there), ordered={}, given_up={}, refused={})
    if ledger.looked is None:
        return after, ()
    records, waiting = [], {}
    for name, count in there.items():
        before, target = ledger.there.get(name, 0), ledger.target.get(name)
        passed = pass_type(ledger, name, count, now, None if starts is None else starts.get(name, ()))
        waiting[name] = passed.left
        found = SupplyRecord(
            name,
            count=count,
            watched_s=0.0 if target is None else before * (now - ledger.looked),
            ordered=ledger.ordered.get(name, 0) + passed.lost,
            came=passed.seconds[:MOST_ARRIVALS],
            given_up=ledger.given_up.get(name, 0),
            lost=passed.lost,
            refused=ledger.refused.get(name, 0),
        )
        records += [found] if found != SupplyRecord(name) else []
    return replace(after, waiting=waiting), tuple(records)


def pass_type(ledger: SupplyLedger, name: str, count: int, now: float, starts: Sequence[float] | None) -> Passage:
    """Match what came of a type with its orders; what went beyond what was removed was lost."""
    before, target, waiting = ledger.there.get(name, 0), ledger.target.get(name), ledger.waiting.get(name, ())
    if target is None or ledger.looked is None:
        return Passage((), 0, waiting)
    if starts is None:
        moments = [(ledger.looked, now)] * max(0, count - before)
    else:
        moments = [(start, start) for start in sorted(starts) if start > ledger.looked]
    gone = max(0, before + len(moments) - count)
    lost = max(0, gone - max(0, before - target))
    seconds, left = [], list(waiting) + [(ledger.looked, now)] * lost
    for earliest, latest in moments:
        if left and latest >= left[0][0]:
            ordered = left.pop(0)
            if ordered[0] != UNKNOWN:
                seconds.append((max(0.0, earliest - ordered[1]), latest - ordered[0]))
    return Passage(tuple(seconds), lost, tuple(left[: max(0, target - count)]))


def note_target(ledger: SupplyLedger, target: Mapping[str, int], now: float, anew: bool = True) -> SupplyLedger:
    """Note what is ordered by now; `anew`: by this driver, at this moment.

    A lower target takes back the orders that came last.
    """
    if not target or ledger.looked is None:
        return ledger
    waiting, ordered = {}, {}
    for name, count in target.items():
        before = ledger.waiting.get(name, ())
        short = max(0, count - ledger.there.get(name, 0))
        more = max(0, short - len(before))
        waiting[name] = (before + ((now if anew else UNKNOWN, now),) * more)[:short]
        ordered[name] = more
    return replace(ledger, target=dict(target), waiting=waiting, ordered=add_up(ledger.ordered, ordered))


def note_given_up(ledger: SupplyLedger, late: Mapping[str, int]) -> SupplyLedger:
    """Note replicas that missed their deadline: the orders that have waited longest."""
    waiting = {name: orders[late.get(name, 0) :] for name, orders in ledger.waiting.items()}
    return replace(ledger, waiting=waiting, given_up=add_up(ledger.given_up, late))


def note_refused(ledger: SupplyLedger, wanted: Mapping[str, int], places: Mapping[str, int]) -> SupplyLedger:
    """Note replicas that were wanted and for which there was no place."""
    without = {name: max(0, count - places.get(name, 0)) for name, count in wanted.items()}
    return replace(ledger, refused=add_up(ledger.refused, without))
