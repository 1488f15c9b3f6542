"""Count runs and trials by application, with the best price found."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import and_, case, func, select
from sqlalchemy.orm import Session

from tuner.store.models import ApplicationRow, ApplicationVersionRow, RunRow, TrialRow


@dataclass(frozen=True, slots=True)
class TrialCounts:
    """Over all versions of one application."""

    runs: int = 0
    trials: int = 0
    best: float | None = None  # price per hour, of complete and feasible trials
    tuned: float | None = None  # when the newest trial ended


def count_trials_by_application(session: Session, name: str | None = None) -> dict[str, TrialCounts]:
    """By the name of each application, or of this one, that was searched at all."""
    counts = and_(TrialRow.state == "complete", TrialRow.feasible.is_(True))
    query = (
        select(
            ApplicationRow.name,
            func.count(RunRow.id.distinct()),
            func.count(TrialRow.id),
            func.min(case((counts, TrialRow.price))),
            func.max(TrialRow.ended),
        )
        .join_from(ApplicationRow, ApplicationVersionRow)
        .join(RunRow, RunRow.application_version_id == ApplicationVersionRow.id)
        .outerjoin(TrialRow, TrialRow.run_id == RunRow.id)
        .group_by(ApplicationRow.name)
    )
    if name is not None:
        query = query.where(ApplicationRow.name == name)
    return {row[0]: TrialCounts(*row[1:]) for row in session.execute(query)}
