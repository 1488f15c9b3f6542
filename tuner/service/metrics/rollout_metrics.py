"""A database and a moment in; figures on objectives, surrogates, searches and what waits for daemons out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.service.metrics.application_metrics import MOST_APPLICATIONS, one_of
from tuner.store.records import HEALTH, RUN_STATES

if TYPE_CHECKING:
    from tuner.service.metrics.families import Families
    from tuner.store.connection import Session

STAGES = ("none", "shadow", "canary")


def tell_objectives(session: Session, told: Families, now: float) -> None:
    from sqlalchemy import func, select

    from tuner.store.models import ObjectiveRow as Row

    counted = select(Row.application, Row.state, func.count()).group_by(Row.application, Row.state)
    for application, state, count in session.execute(counted.order_by(Row.application).limit(10 * MOST_APPLICATIONS)):
        told.tell("tuner_objectives", count, application, state)
    columns = (Row.application, Row.version, Row.state, Row.changed)
    current = select(*columns).where(Row.state.in_(("full", "shadow", "canary"))).order_by(Row.version)
    stages = dict.fromkeys(session.scalars(select(Row.application).distinct().limit(MOST_APPLICATIONS)), "none")
    standing: dict[str, tuple[int, str, float]] = {}
    candidates: dict[str, tuple[int, str, float]] = {}
    for application, version, state, changed in session.execute(current):
        (standing if state == "full" else candidates)[application] = (version, state, changed)
    for application, (version, _, changed) in standing.items():
        told.tell("tuner_objective_version", version, application)
        told.tell("tuner_objective_age_seconds", max(0.0, now - changed), application)
    for application, (version, state, changed) in candidates.items():
        stages[application] = state
        told.tell("tuner_candidate_version", version, application, state)
        told.tell("tuner_candidate_age_seconds", max(0.0, now - changed), application, state)
    for application, stage in stages.items():
        for name, value in one_of(STAGES, stage):
            told.tell("tuner_rollout_stage", value, application, name)


def tell_controls(session: Session, told: Families, now: float) -> None:
    from sqlalchemy import func, select

    from tuner.store.controls import is_active_at
    from tuner.store.models import ControlRow as Row

    standing = (
        select(Row.application, Row.kind, func.count()).where(is_active_at(now)).group_by(Row.application, Row.kind)
    )
    for application, kind, count in session.execute(standing.limit(10 * MOST_APPLICATIONS)):
        told.tell("tuner_controls", count, application, kind)


def tell_surrogates(session: Session, told: Families, now: float) -> None:
    from sqlalchemy import func, select

    from tuner.store.models import SurrogateRow as Row

    newest = select(func.max(Row.id)).group_by(Row.application)
    columns = (Row.application, Row.health, Row.error, Row.created)
    query = select(*columns).where(Row.id.in_(newest)).order_by(Row.application).limit(MOST_APPLICATIONS)
    for application, health, error, created in session.execute(query):
        told.tell("tuner_surrogate_error_ratio", error, application)
        told.tell("tuner_surrogate_age_seconds", max(0.0, now - created), application)
        for name, value in one_of(HEALTH, health):
            told.tell("tuner_surrogate_health", value, application, name)


def tell_searches(session: Session, told: Families, now: float) -> None:
    from sqlalchemy import func, select

    from tuner.store.models import ApplicationRow as App
    from tuner.store.models import ApplicationVersionRow as Version
    from tuner.store.models import RunRow, TrialRow

    runs = (
        select(App.name, RunRow.state, func.count())
        .join_from(App, Version)
        .join(RunRow)
        .group_by(App.name, RunRow.state)
    )
    for application, state, count in session.execute(runs.limit(4 * MOST_APPLICATIONS)):
        told.tell("tuner_tuning_runs", count, application, state)
    trials = (
        select(App.name, TrialRow.state, func.count())
        .join_from(App, Version)
        .join(RunRow)
        .join(TrialRow, TrialRow.run_id == RunRow.id)
        .group_by(App.name, TrialRow.state)
    )
    for application, state, count in session.execute(trials.limit(3 * MOST_APPLICATIONS)):
        told.tell("tuner_trials", count, application, state)
    newest = select(func.max(RunRow.id)).join(Version).group_by(Version.application_id)
    columns = (App.name, RunRow.state, RunRow.created, RunRow.ended)
    last = select(*columns).join_from(App, Version).join(RunRow).where(RunRow.id.in_(newest)).limit(MOST_APPLICATIONS)
    for application, state, created, ended in session.execute(last):
        told.tell("tuner_tuning_last_run_seconds", max(0.0, (now if ended is None else ended) - created), application)
        for name, value in one_of(RUN_STATES, state):
            told.tell("tuner_tuning_last_run_state", value, application, name)


def tell_watches(session: Session, told: Families, now: float, wall: float) -> None:
    """Leases run by the machine's clock, all else by the service's."""
    from tuner.store.retunings import list_retunings

    phases: dict[str, int] = {"idle": 0}
    due, wishes, longest = 0, 0, 0.0
    for watch in list_retunings(session):
        phases[watch.phase] = phases.get(watch.phase, 0) + 1
        wishes += len(watch.asked)
        held = watch.owner is not None and watch.lease_until is not None and watch.lease_until >= wall
        if watch.due <= now and not held:
            due, longest = due + 1, max(longest, now - watch.due)
    for phase, count in phases.items():
        told.tell("tuner_watches", count, phase)
    told.tell("tuner_watches_due", due)
    told.tell("tuner_watch_overdue_seconds", longest)
    told.tell("tuner_wishes_waiting", wishes)
