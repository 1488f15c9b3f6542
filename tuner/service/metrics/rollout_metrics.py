"""Metrics of objectives, controls, surrogates, tuning runs and the daemons' retuning."""

from __future__ import annotations

from tuner.service.metrics.application_metrics import MAX_APPLICATIONS, one_of
from tuner.service.metrics.families import Families
from tuner.store.connection import Session
from tuner.store.monitoring import (
    count_controls,
    count_objectives,
    count_runs,
    count_trials_by_state,
    list_objective_states,
    list_pursued_applications,
    list_run_states,
    list_surrogate_states,
)
from tuner.store.records import HEALTH, RUN_STATES
from tuner.store.retunings import list_retunings

STAGES = ("none", "shadow", "canary")


def add_objectives(session: Session, families: Families, now: float) -> None:
    for application, state, count in count_objectives(session, 10 * MAX_APPLICATIONS):
        families.add("tuner_objectives", count, application, state)
    stages = dict.fromkeys(list_pursued_applications(session, MAX_APPLICATIONS), "none")
    current = list_objective_states(session, ("full", "shadow", "canary"))
    for one in {one.application: one for one in current if one.state == "full"}.values():
        families.add("tuner_objective_version", one.version, one.application)
        families.add("tuner_objective_age_seconds", max(0.0, now - one.changed), one.application)
    for one in {one.application: one for one in current if one.state != "full"}.values():
        stages[one.application] = one.state
        families.add("tuner_candidate_version", one.version, one.application, one.state)
        families.add("tuner_candidate_age_seconds", max(0.0, now - one.changed), one.application, one.state)
    for application, stage in stages.items():
        for name, value in one_of(STAGES, stage):
            families.add("tuner_rollout_stage", value, application, name)


def add_controls(session: Session, families: Families, now: float) -> None:
    for application, kind, count in count_controls(session, now, 10 * MAX_APPLICATIONS):
        families.add("tuner_controls", count, application, kind)


def add_surrogates(session: Session, families: Families, now: float) -> None:
    for one in list_surrogate_states(session, MAX_APPLICATIONS):
        families.add("tuner_surrogate_error_ratio", one.error, one.application)
        families.add("tuner_surrogate_age_seconds", max(0.0, now - one.created), one.application)
        for name, value in one_of(HEALTH, one.health):
            families.add("tuner_surrogate_health", value, one.application, name)


def add_searches(session: Session, families: Families, now: float) -> None:
    for application, state, count in count_runs(session, 4 * MAX_APPLICATIONS):
        families.add("tuner_tuning_runs", count, application, state)
    for application, state, count in count_trials_by_state(session, 3 * MAX_APPLICATIONS):
        families.add("tuner_trials", count, application, state)
    for run in list_run_states(session, MAX_APPLICATIONS):
        seconds = max(0.0, (now if run.ended is None else run.ended) - run.created)
        families.add("tuner_tuning_last_run_seconds", seconds, run.application)
        for name, value in one_of(RUN_STATES, run.state):
            families.add("tuner_tuning_last_run_state", value, run.application, name)


def add_retuning(session: Session, families: Families, now: float, wall: float) -> None:
    """Leases run by the machine's clock, all else by the service's."""
    phases: dict[str, int] = {"idle": 0}
    due, requests, longest = 0, 0, 0.0
    for retuning in list_retunings(session):
        phases[retuning.phase] = phases.get(retuning.phase, 0) + 1
        requests += len(retuning.asked)
        held = retuning.owner is not None and retuning.lease_until is not None and retuning.lease_until >= wall
        if retuning.due <= now and not held:
            due, longest = due + 1, max(longest, now - retuning.due)
    for phase, count in phases.items():
        families.add("tuner_watches", count, phase)
    families.add("tuner_watches_due", due)
    families.add("tuner_watch_overdue_seconds", longest)
    families.add("tuner_wishes_waiting", requests)
