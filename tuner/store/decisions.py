"""Decisions of agents, one per operator and slot: written, listed page by page, and read as figures of slots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, and_, cast, func, or_, select
from sqlalchemy.orm import Session
from sqlalchemy.sql.operators import eq, ge, gt, in_op, lt

from scaler.model.decision import KINDS, ShadowDecision, parse_shadow
from scaler.model.supply_record import SupplyRecord, parse_supply
from tuner.store.corrections import find_first_reports, is_later, says_the_same
from tuner.store.records import DecisionRecord, check_one_of
from tuner.store.rows import given
from tuner.store.tables import DECISIONS, SCALERS

SlotRow = tuple[float, str, float | None, float | None, float | None, float | None, str, int | None]
Place = tuple[float, str]  # time and operator of the last decision on a page
ROW = DECISIONS.c
MAX_AHEAD_S = (
    300.0  # by which a driver's clock may be ahead of the manager's; what is dated later describes no slot yet
)
MAX_LOOKED_UP = 100  # decisions in one query


def save_decisions(
    session: Session, decisions: Iterable[DecisionRecord]
) -> list[tuple[DecisionRecord, DecisionRecord]]:
    """Write these, none over one that stands; those that differ from it or are later, each beside the one that stands.

    An agent sends a decision again after a lost answer, also by the driver's next instance: that differs in nothing.
    What to do of those that differ is `corrections.correct_decision`'s to say.
    """
    again = DECISIONS.add_new(session, decisions)
    standing: dict[tuple[str, str, float], DecisionRecord] = {}
    for start in range(0, len(again), MAX_LOOKED_UP):
        places = (
            and_(ROW.application == sent.application, ROW.operator == sent.operator, ROW.time == sent.time)
            for sent in again[start : start + MAX_LOOKED_UP]
        )
        for stands in DECISIONS.load(session, DECISIONS.select(or_(*places))):
            standing[stands.application, stands.operator, stands.time] = stands
    pairs = [(sent, standing[sent.application, sent.operator, sent.time]) for sent in again]
    return [(sent, stands) for sent, stands in pairs if is_later(sent, stands) or not says_the_same(sent, stands)]


def choose_decisions(
    application: str, operators: Sequence[str] | None = None, since: float | None = None, until: float | None = None
) -> list[ColumnElement[bool]]:
    """Conditions on the application, its operators, and the time in [since, until)."""
    stretch = ((ROW.time, ge, since), (ROW.time, lt, until))
    return given((ROW.application, eq, application), (ROW.operator, in_op, operators), *stretch)


def list_decisions(
    session: Session,
    application: str,
    operators: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    since: float | None = None,
    until: float | None = None,
    limit: int | None = 100,
    after: Place | None = None,
    version: int | None = None,
) -> list[DecisionRecord]:
    """The decisions that `stream_decisions` chooses and orders."""
    return list(stream_decisions(session, application, operators, kinds, since, until, limit, after, version))


def stream_decisions(
    session: Session,
    application: str,
    operators: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    since: float | None = None,
    until: float | None = None,
    limit: int | None = 100,
    after: Place | None = None,
    version: int | None = None,
) -> Iterator[DecisionRecord]:
    """The newest first; the next page is the one `after` the last decision's (time, operator) of this one."""
    for kind in kinds or ():
        check_one_of(kind, KINDS, "the kind of decision")
    more = given((ROW.kind, in_op, kinds), (ROW.objective_version, eq, version))
    query = DECISIONS.select(*choose_decisions(application, operators, since, until), *more)
    if after is not None:
        time, operator = after
        query = query.where(ROW.time <= time, or_(ROW.time < time, (ROW.time == time) & (ROW.operator > operator)))
    return DECISIONS.stream(session, query.order_by(ROW.time.desc(), ROW.operator).limit(limit))


def choose_registered(query: Select[Any]) -> Select[Any]:
    """Decisions of instances that the manager knew when the slot began, the one known longest last in each slot.

    So nobody can invent slots of the past, nor write over another's. Decisions from before writers were recorded stay.
    Evidence is what was reported first (`find_first_reports`): whoever knows an agent's name cannot rewrite the past.
    """
    same = (SCALERS.c[name] == ROW[name] for name in SCALERS.keys)
    joined = query.outerjoin(SCALERS.table, and_(*same))
    known = or_(ROW.instance.is_(None), SCALERS.c.first_seen <= ROW.time)
    return joined.where(known).order_by(func.coalesce(SCALERS.c.first_seen, -1.0).desc(), ROW.time)


def list_shadow_decisions(session: Session, application: str, since: float) -> list[tuple[float, str, ShadowDecision]]:
    """Time, operator and shadow decision of every slot since then that has one, of registered instances."""
    mine = choose_decisions(application, since=since)
    query = select(ROW.time, ROW.operator, ROW.shadow).where(*mine)
    query = query.where(or_(ROW.shadow.is_not(None), ROW.corrections.is_not(None)))
    found, first = (
        session.execute(choose_registered(query)).all(),
        find_first_reports(session, application, since=since),
    )
    stated = ((time, name, first[name, time].shadow if (name, time) in first else of) for time, name, of in found)
    return [(time, name, shadow) for time, name, stored in stated if (shadow := parse_shadow(stored))]


def list_supply(
    session: Session, application: str, since: float | None = None, until: float | None = None
) -> list[tuple[float, str, tuple[SupplyRecord, ...]]]:
    """Time, operator and ledger of every slot that has one, of registered instances."""
    query = select(ROW.time, ROW.operator, ROW.seen["supply"])
    query = query.where(*choose_decisions(application, since=since, until=until))
    found, first = (
        session.execute(choose_registered(query)).all(),
        find_first_reports(session, application, since, until),
    )
    stated = ((t, name, first[name, t].seen.get("supply") if (name, t) in first else of) for t, name, of in found)
    return [(time, name, records) for time, name, stored in stated if (records := parse_supply(stored))]


def list_decided_operators(session: Session, application: str, limit: int) -> list[str]:
    """Operators that have decisions, by name; one index look-up each, where DISTINCT would read every decision."""
    found: list[str] = []
    while len(found) < limit:
        query = select(func.min(ROW.operator)).where(ROW.application == application)
        name = session.scalar(query if not found else query.where(ROW.operator > found[-1]))
        if name is None:
            break
        found.append(name)
    return found


def find_decision_time(
    session: Session, application: str, operator: str, after: float | None = None, before: float | None = None
) -> float | None:
    """Start of the operator's first slot after a time, or of its last one before a time, that has a decision."""
    bound = func.min(ROW.time) if before is None else func.max(ROW.time)
    mine = choose_decisions(application, [operator], until=before)
    return session.scalar(select(bound).where(*mine, *given((ROW.time, gt, after))))


def list_changes(
    session: Session, application: str, operators: Sequence[str], since: float, until: float
) -> list[tuple[float, str, str | None, str | None]]:
    """Time, operator, proposed change and deployment of every decision; both documents as JSON text."""
    columns = (ROW.time, ROW.operator, cast(ROW.proposed, Text), cast(ROW.seen["deployment"], Text))
    query = select(*columns).where(*choose_decisions(application, operators, since, until))
    return [(time, name, change, held) for time, name, change, held in session.connection().execute(query)]


def find_utilisations(
    session: Session, application: str, operators: Sequence[str], since: float, until: float
) -> dict[str, float]:
    """The mean utilisation of each operator that reported one."""
    query = select(ROW.operator, ROW.seen["utilisation"])
    reported: dict[str, list[float]] = {}
    for operator, value in session.execute(query.where(*choose_decisions(application, operators, since, until))):
        if isinstance(value, int | float) and math.isfinite(value):
            reported.setdefault(operator, []).append(float(value))
    return {operator: sum(values) / len(values) for operator, values in reported.items()}


def find_mean_price(session: Session, application: str, since: float, until: float) -> float | None:
    """Price per hour of the whole application: the sum of its operators' means."""
    query = select(func.avg(ROW.price)).where(*choose_decisions(application, None, since, until))
    prices = [price for price in session.scalars(query.group_by(ROW.operator)) if price is not None]
    return sum(prices) if prices else None


def list_slot_figures(
    session: Session,
    application: str,
    operators: Sequence[str],
    since: float = -math.inf,
    until: float = math.inf,
    registered: bool = False,
) -> Sequence[SlotRow]:
    """(time, operator, rate, response, bound, price, kind, objective version) of decisions in [since, until).

    `registered`: only those that are evidence, in the order of `choose_registered`.
    """
    columns = (ROW.time, ROW.operator, ROW.rate, ROW.response, ROW.bound, ROW.price, ROW.kind, ROW.objective_version)
    query: Select[Any] = select(*columns).where(*choose_decisions(application, operators, since, until))
    query = choose_registered(query) if registered else query.order_by(ROW.time)
    rows = session.connection().execute(query).all()
    first = find_first_reports(session, application, since, until) if registered else {}
    if not first:
        return rows
    names = [column.key for column in columns]
    return [
        row if (report := first.get((row[1], row[0]))) is None else tuple(getattr(report, name) for name in names)
        for row in rows
    ]
