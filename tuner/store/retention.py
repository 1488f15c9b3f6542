"""Thin old decisions to changes, corrected ones and one slot an hour, then delete them; delete old samples.

Ages are counted from the newest row of an application, not from now: a log of last year that was ingested today stays.
Work is done in stripes of a day, each a transaction, so that reports wait for none of it for long. Samples are not made
coarser: arrivals and surrogates are built of windows of one length. Those of the newest surrogate stay.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Integer, cast, delete, exists, func, select, union
from sqlalchemy.orm import Session

from scaler.model.decision import HELD, NO_CHANGE
from tuner.store.connection import Store
from tuner.store.rows import count_changed
from tuner.store.tables import DECISIONS, RETUNINGS, SAMPLES, SCALERS, SUPERSEDED, SURROGATES, TOKENS

DAY_S, HOUR_S = 86_400.0, 3_600.0
PRUNED = {
    "decisions": DECISIONS.table, "corrections": SUPERSEDED.table, "samples": SAMPLES.table, "agents": SCALERS.table,
    "sessions": TOKENS.table,
}  # fmt: skip
THINNED = (NO_CHANGE, HELD)  # kinds of which one an hour says enough


@dataclass(frozen=True, slots=True)
class Retention:
    """Ages in seconds."""

    slots_s: float = 35 * DAY_S  # every slot's decisions; the page shows up to 30 days
    hours_s: float = 400 * DAY_S  # changes, and the first slot of every hour
    samples_s: float = 90 * DAY_S


@dataclass(slots=True)
class Pruning:
    """One process's passes: what they deleted, and until when each application's decisions are thin."""

    store: Store
    retention: Retention
    thin: dict[str, float] = field(default_factory=dict)
    clock: Callable[[], float] = time.time  # that sessions expire by

    def run(self, ending: Callable[[], bool] = lambda: False) -> dict[str, int]:
        """One pass over all applications; how many rows of each of `PRUNED` went."""
        counts = dict.fromkeys(PRUNED, 0)
        with self.store.read() as session:
            names = list_reporting(session)
        for app in names:
            prunes = (self.prune_decisions, self.prune_corrections, self.prune_samples, self.prune_agents)
            for kind, prune in zip(PRUNED, prunes, strict=False):
                for condition in prune(app):
                    if ending():
                        return counts
                    counts[kind] += delete_where(self.store, kind, condition)
        ended = TOKENS.c.parent_id.is_not(None) & (TOKENS.c.expires < self.clock() - DAY_S)
        counts["sessions"] = delete_where(self.store, "sessions", ended)
        return counts

    def prune_decisions(self, app: str) -> Iterator[ColumnElement[bool]]:
        """Conditions on what goes, a day at a time."""
        row = DECISIONS.c
        with self.store.read() as session:
            oldest, newest = find_span(session, row.time, row.application == app)
        if newest is None or oldest is None:
            return
        on_server = self.store.address.path is None
        whole = func.floor if on_server else partial(cast, type_=Integer)  # SQLite may lack floor, and cuts off
        gone, thin = newest - self.retention.hours_s, newest - self.retention.slots_s
        for begin, end in cut_days(oldest, gone):
            yield (row.application == app) & (row.time >= begin) & (row.time < end)
        thin = math.floor(thin / HOUR_S) * HOUR_S
        begun = max(oldest, gone, self.thin.get(app, -math.inf))
        for begin, end in cut_days(math.floor(begun / HOUR_S) * HOUR_S, thin):
            yield (row.application == app) & (row.time >= begin) & (row.time < end) & is_repeated(whole)
            self.thin[app] = end

    def prune_corrections(self, app: str) -> Iterator[ColumnElement[bool]]:
        """What was reported before a correction goes with the decision that stands, which is not thinned."""
        with self.store.read() as session:
            _, newest = find_span(session, DECISIONS.c.time, DECISIONS.c.application == app)
        if newest is not None:
            yield (SUPERSEDED.c.application == app) & (SUPERSEDED.c.time < newest - self.retention.hours_s)

    def prune_agents(self, app: str) -> Iterator[ColumnElement[bool]]:
        """Agents of before the oldest slot that is there in full: each start of a driver makes another one."""
        row = SCALERS.c
        with self.store.read() as session:
            _, newest = find_span(session, row.last_seen, row.application == app)
        if newest is not None:
            yield (row.application == app) & (row.last_seen < newest - self.retention.slots_s)

    def prune_samples(self, app: str) -> Iterator[ColumnElement[bool]]:
        row = SAMPLES.c
        with self.store.read() as session:
            oldest, newest = find_span(session, row.end, row.application == app)
            needed = find_needed(session, app, newest or 0.0)
        if newest is None or oldest is None:
            return
        for begin, end in cut_days(oldest, min(newest - self.retention.samples_s, needed)):
            yield (row.application == app) & (row.end >= begin) & (row.end < end)


def list_reporting(session: Session) -> list[str]:
    """Applications that report, or are retuned, or have a surrogate."""
    columns = (SCALERS.c.application, RETUNINGS.c.application, SURROGATES.c.application)
    return sorted(session.scalars(union(*(select(column) for column in columns))))


def find_span(
    session: Session, column: ColumnElement[float], mine: ColumnElement[bool]
) -> tuple[float | None, float | None]:
    """Least and greatest; one query each, which an index answers."""
    least, greatest = (session.scalar(select(of(column)).where(mine)) for of in (func.min, func.max))
    return least, greatest


def find_needed(session: Session, app: str, newest: float) -> float:
    """Before which no retuning and no surrogate reads samples."""
    row = SURROGATES.c
    start = session.scalar(select(row.start).where(row.application == app).order_by(row.number.desc()).limit(1))
    retuning = RETUNINGS.find(session, RETUNINGS.c.application == app)
    history = 0.0 if retuning is None else float(retuning.settings.get("history_s", 0.0))
    return min(newest - history, math.inf if start is None else start)


def is_repeated(whole: Callable[[Any], ColumnElement[Any]]) -> ColumnElement[bool]:
    """Whether nothing changed in the slot, and its hour has an earlier one of the operator."""
    row, other = DECISIONS.c, DECISIONS.table.alias("earlier")
    hour = whole(row.time / HOUR_S) * HOUR_S
    same = (other.c.application == row.application) & (other.c.operator == row.operator)
    plain = row.kind.in_(THINNED) & row.corrections.is_(None)
    return plain & exists().where(same, other.c.time >= hour, other.c.time < row.time).correlate(DECISIONS.table)


def cut_days(begin: float, end: float) -> Iterator[tuple[float, float]]:
    while begin < end:
        yield begin, min(begin + DAY_S, end)
        begin += DAY_S


def delete_where(store: Store, kind: str, condition: ColumnElement[bool]) -> int:
    """Look first, which makes nobody wait."""
    table = PRUNED[kind]
    with store.read() as session:
        if session.execute(select(1).select_from(table).where(condition).limit(1)).first() is None:
            return 0
    return store.write(lambda session: count_changed(session.execute(delete(table).where(condition))))
