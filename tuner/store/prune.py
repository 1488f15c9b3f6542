"""Delete old rows that nothing refers to, or count them.

Objectives and marks stay: decisions name the former, and what the latter forget would be read again. Events stay, for
they say who did what. So do runs that are still running, runs with a trial that became an objective, and every
application's newest surrogate.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from tuner.store.models import (
    Base,
    DecisionRow,
    ObjectiveRow,
    RunRow,
    SampleRow,
    ScalerRow,
    SurrogateRow,
    TokenRow,
    TrialRow,
)
from tuner.store.rows import count_changed


def prune(session: Session, before: float, dry_run: bool = False) -> dict[str, int]:
    """How many rows of each table go, or would."""
    counts: dict[str, int] = {}
    for model, condition in conditions(before):
        name = model.__tablename__
        if dry_run:
            counts[name] = session.scalar(select(func.count()).select_from(model).where(condition)) or 0
        else:
            counts[name] = count_changed(session.execute(delete(model).where(condition)))
    return counts


def conditions(before: float) -> list[tuple[type[Base], ColumnElement[bool]]]:
    """What may go, in an order in which nothing that stays refers to what went."""
    kept_trials = select(ObjectiveRow.trial_id).where(ObjectiveRow.trial_id.is_not(None))
    kept_runs = select(TrialRow.run_id).where(TrialRow.id.in_(kept_trials))
    old_run = (RunRow.state != "running") & (RunRow.ended < before) & RunRow.id.not_in(kept_runs)
    old_runs = select(RunRow.id).where(old_run)
    used = select(ObjectiveRow.surrogate_id).where(ObjectiveRow.surrogate_id.is_not(None))
    staying = TrialRow.surrogate_id.is_not(None) & TrialRow.run_id.not_in(old_runs)
    newest = select(func.max(SurrogateRow.id)).group_by(SurrogateRow.application)
    old_surrogate = (
        (SurrogateRow.created < before)
        & SurrogateRow.id.not_in(used)
        & SurrogateRow.id.not_in(select(TrialRow.surrogate_id).where(staying))
        & SurrogateRow.id.not_in(newest)
    )
    return [
        (SampleRow, SampleRow.end < before),
        (DecisionRow, DecisionRow.time < before),
        (TrialRow, TrialRow.run_id.in_(old_runs)),
        (RunRow, old_run),
        (SurrogateRow, old_surrogate),
        (ScalerRow, ScalerRow.last_seen < before),
        (TokenRow, TokenRow.parent_id.is_not(None) & (TokenRow.expires < before)),
    ]
