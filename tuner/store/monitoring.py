"""Queries behind Prometheus' figures: the newest decision of every operator, and counts by state."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Integer, Select, and_, bindparam, cast, func, or_, select
from sqlalchemy.orm import Session

from scaler.model.decision import parse_figures
from tuner.store.orders import is_active_at
from tuner.store.rows import dialect
from tuner.store.tables import (
    APPLICATIONS,
    CONTROLS,
    DECISIONS,
    EVENTS,
    OBJECTIVES,
    ORDERS,
    RUNS,
    SCALERS,
    SUPERSEDED,
    SURROGATES,
    TRIALS,
    VERSIONS,
)

MAX_OPERATORS = 5_000  # that are listed one by one; those known the longest
APPLICATION_RUNS = APPLICATIONS.join(VERSIONS).join(RUNS.table)
APPLICATION_TRIALS = APPLICATION_RUNS.join(TRIALS.table, TRIALS.c.run_id == RUNS.c.id)
COUNTED = {  # where it is, its application, and by what else it is counted
    "controls": (CONTROLS.table, CONTROLS.c.application, CONTROLS.c.kind),
    "events": (EVENTS.table, EVENTS.c.application, EVENTS.c.what),
    "objectives": (OBJECTIVES.table, OBJECTIVES.c.application, OBJECTIVES.c.state),
    "runs": (APPLICATION_RUNS, APPLICATIONS.c.name, RUNS.c.state),
    "trials": (APPLICATION_TRIALS, APPLICATIONS.c.name, TRIALS.c.state),
}
DECISIONS_SINCE = (  # made once, for it runs for every operator
    select(DECISIONS.c.kind, DECISIONS.c.code, func.count())
    .where(*(DECISIONS.c[name] == bindparam(name) for name in ("application", "operator")))
    .where(DECISIONS.c.time > bindparam("since"))
    .group_by(DECISIONS.c.kind, DECISIONS.c.code)
)


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


def list_operator_states(session: Session, limit: int = MAX_OPERATORS, until: float = math.inf) -> list[OperatorState]:
    """One look-up in the index of decisions for each operator, however many there are; those up to `until`."""
    row = DECISIONS.c
    first = func.min(SCALERS.c.first_seen).label("first_seen")
    of = (SCALERS.c.application, SCALERS.c.operator)
    heard = select(*of, first, func.max(SCALERS.c.last_seen).label("last_seen")).group_by(*of)
    known = heard.order_by(first, *of).limit(limit).subquery()
    mine = (row.application == known.c.application, row.operator == known.c.operator)
    newest = select(func.max(row.time)).where(*mine, row.time <= until).correlate(known).scalar_subquery()
    each = select(known, newest.label("time")).subquery()
    same = (row.application == each.c.application, row.operator == each.c.operator, row.time == each.c.time)
    figures = (row.rate, row.response, row.bound, row.price, row.objective_version, row.seen)
    query: Select[Any] = select(each, *figures).outerjoin(DECISIONS.table, and_(*same))
    return [to_state(list(found)) for found in session.execute(query)]


def to_state(row: list[Any]) -> OperatorState:
    figures = parse_figures(row[-1])
    replicas = sum(figures.deployment.values()) if figures.deployment else None
    return OperatorState(*[*row[:-1], figures.utilisation, replicas])


def count_operators(session: Session) -> int:
    each = select(SCALERS.c.application, SCALERS.c.operator).distinct().subquery()
    return session.scalar(select(func.count()).select_from(each)) or 0


def count_decisions_since(
    session: Session, application: str, operator: str, since: float
) -> dict[tuple[str, str | None], int]:
    """Decisions of the operator after a time, by kind and reason code."""
    of = {"application": application, "operator": operator, "since": max(since, -1e300)}
    return {(kind, code): count for kind, code, count in session.execute(DECISIONS_SINCE, of)}


def count_by_stretch(session: Session, since: float, until: float, size: float) -> dict[str, dict[int, int]]:
    """Reports of decisions by application in stretches of `size` seconds, numbered from 1970, out of indexes alone.

    Corrections count, so that a stretch with one has another number than before it.
    """
    first, last = math.floor(since / size), math.floor(until / size)
    counts: dict[str, dict[int, int]] = {}
    for row in (DECISIONS.c, SUPERSEDED.c):
        share = (row.time - first * size) / size  # positive, so that cutting off is rounding down
        number = func.floor(share) if dialect(session) == "postgresql" else cast(share, Integer)
        within = (row.time >= first * size, row.time < (last + 1) * size)
        query = select(row.application, number.label("stretch"), func.count()).where(*within)
        for application, i, count in session.execute(query.group_by(row.application, "stretch")):
            mine = counts.setdefault(application, {})
            mine[first + int(i)] = mine.get(first + int(i), 0) + count
    return counts


def count_by_application(
    session: Session, what: str, limit: int | None = None, *where: ColumnElement[bool]
) -> list[tuple[str, str, int]]:
    """Those of `COUNTED` by application and state, kind or name."""
    table, application, by = COUNTED[what]
    query = select(application, by, func.count()).select_from(table).where(*where).group_by(application, by)
    return [(name, value, count) for name, value, count in session.execute(query.order_by(application).limit(limit))]


def count_controls(session: Session, now: float, limit: int) -> list[tuple[str, str, int]]:
    """Controls in force by application and kind."""
    return count_by_application(session, "controls", limit, is_active_at(now))


def count_scalers_behind(session: Session, heard_since: float, limit: int) -> list[tuple[str, int, int]]:
    """Applications with their orders' revision, and how many recently reporting agents act under an older one."""
    row, orders = SCALERS.c, ORDERS.c
    behind = or_(row.acknowledged.is_(None), row.revision.is_(None), row.revision < orders.revision)
    late = select(func.count()).where(row.application == orders.application, row.last_seen > heard_since, behind)
    counted = late.correlate(ORDERS.table).scalar_subquery()
    query = select(orders.application, orders.revision, counted).order_by(orders.application).limit(limit)
    return [(application, revision, count) for application, revision, count in session.execute(query)]


def list_objective_states(session: Session, states: Iterable[str]) -> list[ObjectiveState]:
    """Objectives in these states, by version."""
    row = OBJECTIVES.c
    query = select(row.application, row.version, row.state, row.changed).where(row.state.in_(states))
    return [ObjectiveState(*found) for found in session.execute(query.order_by(row.version))]


def list_pursued_applications(session: Session, limit: int) -> list[str]:
    """Applications that have objectives."""
    return list(session.scalars(select(OBJECTIVES.c.application).distinct().limit(limit)))


def list_surrogate_states(session: Session, limit: int) -> list[SurrogateState]:
    """The newest surrogate of each application."""
    row = SURROGATES.c
    newest = select(func.max(row.id)).group_by(row.application)
    query = select(row.application, row.health, row.error, row.created).where(row.id.in_(newest))
    return [SurrogateState(*found) for found in session.execute(query.order_by(row.application).limit(limit))]


def list_run_states(session: Session, limit: int) -> list[RunState]:
    """The newest tuning run of each application."""
    newest = select(func.max(RUNS.c.id)).join(VERSIONS).group_by(VERSIONS.c.application_id)
    query = select(APPLICATIONS.c.name, RUNS.c.state, RUNS.c.created, RUNS.c.ended).select_from(APPLICATION_RUNS)
    return [RunState(*row) for row in session.execute(query.where(RUNS.c.id.in_(newest)).limit(limit))]
