"""Queries behind Prometheus' figures: the newest decision of every operator, and counts by state."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Integer, Select, and_, bindparam, cast, func, or_, select
from sqlalchemy.orm import Session

from scaler.model.decision import parse_figures
from tuner.store.models import (
    ApplicationRow,
    ApplicationVersionRow,
    ControlRow,
    DecisionRow,
    EventRow,
    ObjectiveRow,
    OrdersRow,
    RunRow,
    ScalerRow,
    SurrogateRow,
    TrialRow,
)
from tuner.store.orders import is_active_at
from tuner.store.rows import dialect

T = TypeVar("T")
MAX_OPERATORS = 5_000  # that are listed one by one; those known the longest


@dataclass(frozen=True, slots=True)
class OperatorState:
    """An operator with a scaler: when that reported last, and the figures of its newest decision, if any."""

    application: str
    operator: str
    first_seen: float
    last_seen: float
    time: float | None  # of its newest decision; the rest is None where there is none
    rate: float | None
    response: float | None
    bound: float | None
    price: float | None
    version: int | None
    utilisation: float | None
    replicas: float | None


@dataclass(frozen=True, slots=True)
class ObjectiveState:
    application: str
    version: int
    state: str
    changed: float


@dataclass(frozen=True, slots=True)
class SurrogateState:
    application: str
    health: str
    error: float | None
    created: float


@dataclass(frozen=True, slots=True)
class RunState:
    application: str
    state: str
    created: float
    ended: float | None


def list_operator_states(session: Session, limit: int = MAX_OPERATORS) -> list[OperatorState]:
    """One look-up in the index of decisions for each operator, however many decisions there are."""
    row = DecisionRow
    first = func.min(ScalerRow.first_seen).label("first_seen")
    of = (ScalerRow.application, ScalerRow.operator)
    heard = select(*of, first, func.max(ScalerRow.last_seen).label("last_seen")).group_by(*of)
    known = heard.order_by(first, *of).limit(limit).subquery()
    mine = (row.application == known.c.application, row.operator == known.c.operator)
    newest = select(func.max(row.time)).where(*mine).correlate(known).scalar_subquery()
    each = select(known, newest.label("time")).subquery()
    same = (row.application == each.c.application, row.operator == each.c.operator, row.time == each.c.time)
    figures = (row.rate, row.response, row.bound, row.price, row.objective_version, row.seen)
    return [to_state(list(found)) for found in session.execute(select(each, *figures).outerjoin(row, and_(*same)))]


def to_state(row: list[Any]) -> OperatorState:
    figures = parse_figures(row[-1])
    replicas = sum(figures.deployment.values()) if figures.deployment else None
    return OperatorState(*[*row[:-1], figures.utilisation, replicas])


def count_operators(session: Session) -> int:
    each = select(ScalerRow.application, ScalerRow.operator).distinct().subquery()
    return session.scalar(select(func.count()).select_from(each)) or 0


def count_decisions_since(
    session: Session, application: str, operator: str, since: float
) -> dict[tuple[str, str | None], int]:
    """Decisions of the operator after a time, by kind and reason code."""
    of = {"application": application, "operator": operator, "since": max(since, -1e300)}
    return {(kind, code): count for kind, code, count in session.execute(decisions_since(), of)}


@cache
def decisions_since() -> Select[str, str | None, int]:
    """Made once, for it runs for every operator."""
    row = DecisionRow
    mine = (row.application == bindparam("application"), row.operator == bindparam("operator"))
    chosen = select(row.kind, row.code, func.count()).where(*mine, row.time > bindparam("since"))
    return chosen.group_by(row.kind, row.code)


def count_by_stretch(session: Session, since: float, until: float, size: float) -> dict[str, dict[int, int]]:
    """Decisions by application in stretches of `size` seconds, numbered from 1970, out of an index alone."""
    first, last = math.floor(since / size), math.floor(until / size)
    share = (DecisionRow.time - first * size) / size  # positive, so that cutting off is rounding down
    number = func.floor(share) if dialect(session) == "postgresql" else cast(share, Integer)
    within = (DecisionRow.time >= first * size, DecisionRow.time < (last + 1) * size)
    query = select(DecisionRow.application, number.label("stretch"), func.count()).where(*within)
    counts: dict[str, dict[int, int]] = {}
    for application, i, count in session.execute(query.group_by(DecisionRow.application, "stretch")):
        counts.setdefault(application, {})[first + int(i)] = count
    return counts


def list_counts(session: Session, query: Select[str, T, int]) -> list[tuple[str, T, int]]:
    return [(application, what, count) for application, what, count in session.execute(query)]


def count_events(session: Session) -> list[tuple[str, str, int]]:
    """Events by application and name."""
    query = select(EventRow.application, EventRow.what, func.count())
    return list_counts(session, query.group_by(EventRow.application, EventRow.what))


def count_scalers_behind(session: Session, heard_since: float, limit: int) -> list[tuple[str, int, int]]:
    """Applications with their orders' revision, and how many scalers heard of lately act under an older one."""
    behind = or_(
        ScalerRow.acknowledged.is_(None), ScalerRow.revision.is_(None), ScalerRow.revision < OrdersRow.revision
    )
    late = select(func.count()).where(
        ScalerRow.application == OrdersRow.application, ScalerRow.last_seen > heard_since, behind
    )
    query = select(OrdersRow.application, OrdersRow.revision, late.correlate(OrdersRow).scalar_subquery())
    return list_counts(session, query.order_by(OrdersRow.application).limit(limit))


def count_objectives(session: Session, limit: int) -> list[tuple[str, str, int]]:
    """Objectives by application and state."""
    row = ObjectiveRow
    query = select(row.application, row.state, func.count()).group_by(row.application, row.state)
    return list_counts(session, query.order_by(row.application).limit(limit))


def list_objective_states(session: Session, states: Iterable[str]) -> list[ObjectiveState]:
    """Objectives in these states, by version."""
    row = ObjectiveRow
    query = select(row.application, row.version, row.state, row.changed).where(row.state.in_(states))
    return [ObjectiveState(*found) for found in session.execute(query.order_by(row.version))]


def list_pursued_applications(session: Session, limit: int) -> list[str]:
    """Applications that have objectives."""
    return list(session.scalars(select(ObjectiveRow.application).distinct().limit(limit)))


def count_controls(session: Session, now: float, limit: int) -> list[tuple[str, str, int]]:
    """Controls in force by application and kind."""
    row = ControlRow
    query = select(row.application, row.kind, func.count()).where(is_active_at(now))
    return list_counts(session, query.group_by(row.application, row.kind).limit(limit))


def list_surrogate_states(session: Session, limit: int) -> list[SurrogateState]:
    """The newest surrogate of each application."""
    row = SurrogateRow
    newest = select(func.max(row.id)).group_by(row.application)
    query = select(row.application, row.health, row.error, row.created).where(row.id.in_(newest))
    return [SurrogateState(*found) for found in session.execute(query.order_by(row.application).limit(limit))]


def count_runs(session: Session, limit: int) -> list[tuple[str, str, int]]:
    """Tuning runs by application and state."""
    query = select(ApplicationRow.name, RunRow.state, func.count())
    joined = query.join_from(ApplicationRow, ApplicationVersionRow).join(RunRow)
    return list_counts(session, joined.group_by(ApplicationRow.name, RunRow.state).limit(limit))


def count_trials_by_state(session: Session, limit: int) -> list[tuple[str, str, int]]:
    """Trials by application and state."""
    query = select(ApplicationRow.name, TrialRow.state, func.count())
    joined = query.join_from(ApplicationRow, ApplicationVersionRow).join(RunRow)
    joined = joined.join(TrialRow, TrialRow.run_id == RunRow.id)
    return list_counts(session, joined.group_by(ApplicationRow.name, TrialRow.state).limit(limit))


def list_run_states(session: Session, limit: int) -> list[RunState]:
    """The newest tuning run of each application."""
    newest = select(func.max(RunRow.id)).join(ApplicationVersionRow).group_by(ApplicationVersionRow.application_id)
    query = select(ApplicationRow.name, RunRow.state, RunRow.created, RunRow.ended)
    joined = query.join_from(ApplicationRow, ApplicationVersionRow).join(RunRow).where(RunRow.id.in_(newest))
    return [RunState(*row) for row in session.execute(joined.limit(limit))]
