"""Decisions of agents, one per operator and slot: written, listed page by page, and read as figures of slots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, cast, func, or_, select
from sqlalchemy.orm import Session
from sqlalchemy.sql.operators import eq, ge, gt, in_op, lt

from scaler.model.decision import KINDS, ShadowDecision, parse_shadow
from tuner.store.records import DecisionRecord, check_one_of
from tuner.store.rows import given
from tuner.store.tables import DECISIONS

SlotRow = tuple[float, str, float | None, float | None, float | None, float | None, str, int | None]
Place = tuple[float, str]  # time and operator of the last decision on a page
ROW = DECISIONS.c


def save_decisions(session: Session, decisions: Iterable[DecisionRecord]) -> int:
    """Write these; how many. A scaler that sends one again after a lost answer overwrites it with the same."""
    return DECISIONS.save(session, decisions)


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
    """The newest first; the next page is the one `after` the last decision's (time, operator) of this one."""
    for kind in kinds or ():
        check_one_of(kind, KINDS, "the kind of decision")
    more = given((ROW.kind, in_op, kinds), (ROW.objective_version, eq, version))
    query = DECISIONS.select(*choose_decisions(application, operators, since, until), *more)
    if after is not None:
        time, operator = after
        query = query.where(ROW.time <= time, or_(ROW.time < time, (ROW.time == time) & (ROW.operator > operator)))
    return DECISIONS.load(session, query.order_by(ROW.time.desc(), ROW.operator).limit(limit))


def list_shadow_decisions(session: Session, application: str, since: float) -> list[tuple[float, str, ShadowDecision]]:
    """Time, operator and shadow decision of every slot since then that has one."""
    mine = choose_decisions(application, since=since)
    found = session.execute(select(ROW.time, ROW.operator, ROW.shadow).where(*mine, ROW.shadow.is_not(None)))
    return [(time, name, shadow) for time, name, stored in found if (shadow := parse_shadow(stored))]


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
    session: Session, application: str, operators: Sequence[str], since: float = -math.inf, until: float = math.inf
) -> Sequence[SlotRow]:
    """(time, operator, rate, response, bound, price, kind, objective version) of decisions in [since, until)."""
    columns = (ROW.time, ROW.operator, ROW.rate, ROW.response, ROW.bound, ROW.price, ROW.kind, ROW.objective_version)
    query: Select[Any] = select(*columns).where(*choose_decisions(application, operators, since, until))
    return session.connection().execute(query.order_by(ROW.time)).all()
