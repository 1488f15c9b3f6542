"""A database in; for each operator with a scaler when that was last heard, and its newest decision, out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaler.model.decision import parse_figures

if TYPE_CHECKING:
    from tuner.store.connection import Session

MOST = 5_000  # operators that are told of one by one; those known the longest


@dataclass(frozen=True, slots=True)
class Newest:
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


def load_newest(session: Session, most: int = MOST) -> list[Newest]:
    """One look into the index of decisions for each operator, however many decisions there are."""
    from sqlalchemy import and_, func, select

    from tuner.store.models import DecisionRow as Row
    from tuner.store.models import ScalerRow

    first = func.min(ScalerRow.first_seen).label("first_seen")
    of = (ScalerRow.application, ScalerRow.operator)
    heard = select(*of, first, func.max(ScalerRow.last_seen).label("last_seen")).group_by(*of)
    known = heard.order_by(first, *of).limit(most).subquery()
    mine = (Row.application == known.c.application, Row.operator == known.c.operator)
    newest = select(func.max(Row.time)).where(*mine).correlate(known).scalar_subquery()
    each = select(known, newest.label("time")).subquery()
    same = (Row.application == each.c.application, Row.operator == each.c.operator, Row.time == each.c.time)
    figures = (Row.rate, Row.response, Row.bound, Row.price, Row.objective_version, Row.seen)
    rows = session.execute(select(each, *figures).outerjoin(Row, and_(*same)))
    return [to_newest(list(row)) for row in rows]


def to_newest(row: list[Any]) -> Newest:
    figures = parse_figures(row[-1])
    return Newest(*[*row[:-1], figures.utilisation, sum(figures.deployment.values()) if figures.deployment else None])


def count_operators(session: Session) -> int:
    from sqlalchemy import func, select

    from tuner.store.models import ScalerRow

    each = select(ScalerRow.application, ScalerRow.operator).distinct().subquery()
    return session.scalar(select(func.count()).select_from(each)) or 0
