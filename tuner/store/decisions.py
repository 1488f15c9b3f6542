"""Decisions of agents, one per operator and slot: written, listed page by page, and read as figures of slots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from sqlalchemy import Text, cast, func, or_, select
from sqlalchemy.orm import Session
from sqlalchemy.sql.operators import eq, ge, in_op, lt

from scaler.model.decision import KINDS, ShadowDecision, parse_shadow
from tuner.store.models import DecisionRow
from tuner.store.records import DecisionRecord, check_one_of
from tuner.store.rows import RecordTable, to_columns, upsert_all, where_given

DECISIONS = RecordTable(DecisionRow, DecisionRecord)
SlotRow = tuple[float, str, float | None, float | None, float | None, float | None, str, int | None]
Place = tuple[float, str]  # time and operator of the last decision on a page


def save_decisions(session: Session, decisions: Iterable[DecisionRecord]) -> int:
    """Write these; how many. A scaler that sends one again after a lost answer overwrites it with the same."""
    return upsert_all(session, DecisionRow, map(to_columns, decisions))


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
    query = where_given(
        DECISIONS.select(DecisionRow.application == application),
        (DecisionRow.operator, in_op, operators),
        (DecisionRow.kind, in_op, kinds),
        (DecisionRow.time, ge, since),
        (DecisionRow.time, lt, until),
        (DecisionRow.objective_version, eq, version),
    )
    if after is not None:
        time, operator = after
        later = (DecisionRow.time == time) & (DecisionRow.operator > operator)
        query = query.where(DecisionRow.time <= time, or_(DecisionRow.time < time, later))
    return DECISIONS.load(session, query.order_by(DecisionRow.time.desc(), DecisionRow.operator).limit(limit))


def list_shadow_decisions(session: Session, application: str, since: float) -> list[tuple[float, str, ShadowDecision]]:
    """Time, operator and shadow decision of every slot since then that has one."""
    mine = (DecisionRow.application == application, DecisionRow.time >= since, DecisionRow.shadow.is_not(None))
    found = session.execute(select(DecisionRow.time, DecisionRow.operator, DecisionRow.shadow).where(*mine))
    return [(time, name, shadow) for time, name, stored in found if (shadow := parse_shadow(stored))]


def count_decisions(session: Session, application: str) -> dict[str, int]:
    """How many decisions there are of each kind."""
    query = select(DecisionRow.kind, func.count()).where(DecisionRow.application == application)
    return dict(session.execute(query.group_by(DecisionRow.kind)).all())


def list_decided_operators(session: Session, application: str, limit: int) -> list[str]:
    """Operators that have decisions, by name; one index look-up each, where DISTINCT would read every decision."""
    found: list[str] = []
    while len(found) < limit:
        query = select(func.min(DecisionRow.operator)).where(DecisionRow.application == application)
        name = session.scalar(query if not found else query.where(DecisionRow.operator > found[-1]))
        if name is None:
            break
        found.append(name)
    return found


def find_decision_time(
    session: Session, application: str, operator: str, after: float | None = None, before: float | None = None
) -> float | None:
    """Start of the operator's first slot after a time, or of its last one before a time, that has a decision."""
    bound = func.min(DecisionRow.time) if before is None else func.max(DecisionRow.time)
    query = select(bound).where(DecisionRow.application == application, DecisionRow.operator == operator)
    if after is not None:
        query = query.where(DecisionRow.time > after)
    return session.scalar(query if before is None else query.where(DecisionRow.time < before))


def list_changes(
    session: Session, application: str, operators: Sequence[str], since: float, until: float
) -> list[tuple[float, str, str | None, str | None]]:
    """Time, operator, proposed change and deployment of every decision; both documents as JSON text."""
    columns = (DecisionRow.time, DecisionRow.operator, cast(DecisionRow.proposed, Text))
    query = select(*columns, cast(DecisionRow.seen["deployment"], Text)).where(DecisionRow.application == application)
    query = query.where(DecisionRow.operator.in_(operators), DecisionRow.time >= since, DecisionRow.time < until)
    return [(time, name, change, held) for time, name, change, held in session.connection().execute(query)]


def find_utilisations(
    session: Session, application: str, operators: Sequence[str], since: float, until: float
) -> dict[str, float]:
    """The mean utilisation of each operator that reported one."""
    query = select(DecisionRow.operator, DecisionRow.seen["utilisation"]).where(DecisionRow.application == application)
    query = query.where(DecisionRow.operator.in_(operators), DecisionRow.time >= since, DecisionRow.time < until)
    reported: dict[str, list[float]] = {}
    for operator, value in session.execute(query):
        if isinstance(value, int | float) and math.isfinite(value):
            reported.setdefault(operator, []).append(float(value))
    return {operator: sum(values) / len(values) for operator, values in reported.items()}


def find_mean_price(session: Session, application: str, since: float, until: float) -> float | None:
    """Price per hour of the whole application: the sum of its operators' means."""
    query = select(func.avg(DecisionRow.price)).where(DecisionRow.application == application)
    query = query.where(DecisionRow.time >= since, DecisionRow.time < until).group_by(DecisionRow.operator)
    prices = [price for price in session.scalars(query) if price is not None]
    return sum(prices) if prices else None


def list_slot_figures(
    session: Session, application: str, operators: Sequence[str], since: float = -math.inf, until: float = math.inf
) -> Sequence[SlotRow]:
    """(time, operator, rate, response, bound, price, kind, objective version) of decisions in [since, until)."""
    row = DecisionRow
    columns = (row.time, row.operator, row.rate, row.response, row.bound, row.price, row.kind, row.objective_version)
    query = select(*columns).where(row.application == application, row.operator.in_(operators))
    if since > -math.inf:
        query = query.where(row.time >= since)
    if until < math.inf:
        query = query.where(row.time < until)
    return session.connection().execute(query.order_by(row.time)).all()
