"""An application, a moment and perhaps an operator in; why each scaler did what it did then, ready to be shown, out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaler.model.errors import BadInput
from tuner.service.page.links import link_explanation
from tuner.store.faults import NotFound

if TYPE_CHECKING:
    from tuner.history.explanation import Account, Explanation
    from tuner.store.connection import Session

TABLED = ("worth",)  # of the parts, what has a table of its own
LATEST = 4_102_444_800.0


@dataclass(frozen=True, slots=True)
class Told:
    """One operator: the head of its answer, its parts, and links to the slots beside."""

    account: Account
    head: str
    parts: Sequence[tuple[str, str]]  # label and sentence
    earlier: str | None
    later: str | None


@dataclass(frozen=True, slots=True)
class ExplainedView:
    explanation: Explanation
    operators: Sequence[Told]


def gather_explained(session: Session, app: str, at: float | None, operator: str, now: float) -> ExplainedView:
    from tuner.history.explanation import explain
    from tuner.views.explanation_lines import head, list_parts

    if at is not None and not 0.0 <= at <= LATEST:
        raise BadInput(f"at is {at:g}, and must be a time like 2026-03-12T14:20")
    found = explain(session, app, at, operator or None, now)
    if not found.operators:
        raise NotFound(f"{found.says} {found.do}")
    told: set[int] = set()
    return ExplainedView(
        found,
        [
            Told(
                one,
                head(found, one),
                [(label, text) for label, text in list_parts(one, told) if label not in TABLED],
                link_beside(session, app, one, -1),
                link_beside(session, app, one, 1),
            )
            for one in found.operators
        ],
    )


def link_beside(session: Session, app: str, account: Account, way: int) -> str | None:
    """To the operator's slot before or after this one."""
    from sqlalchemy import func, select

    from tuner.store.models import DecisionRow as Row

    if account.decision is None:
        return None
    start = account.decision.time
    mine = select(func.max(Row.time) if way < 0 else func.min(Row.time)).where(
        Row.application == app, Row.operator == account.operator
    )
    time = session.scalar(mine.where(Row.time < start if way < 0 else Row.time > start))
    return None if time is None else link_explanation(app, account.operator, time)
