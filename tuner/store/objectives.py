"""Objectives, numbered per application, and their states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Row, insert, select, update
from sqlalchemy.orm import Session

from scaler.model.task import Weights
from tuner.store.faults import NotFound, StaleState
from tuner.store.models import ObjectiveRow
from tuner.store.records import OBJECTIVE_STATES, ObjectiveRecord, check_one_of
from tuner.store.rows import columns_of, lock_turn, next_number, to_columns

KEPT = columns_of(ObjectiveRow, ObjectiveRecord, without=("weights",))
COLUMNS = [*KEPT, ObjectiveRow.performance, ObjectiveRow.reconfiguration, ObjectiveRow.resources]


def add_objective(session: Session, objective: ObjectiveRecord) -> ObjectiveRecord:
    """Keep it under the application's next version; the same with its version and id."""
    lock_turn(session, f"objectives of {objective.application}")
    mine = select(ObjectiveRow.version).where(ObjectiveRow.application == objective.application)
    changed = objective.created if objective.changed is None else objective.changed
    made = replace(objective, version=next_number(session, mine), changed=changed)
    weights = objective.weights
    values = to_columns(made, without=("id", "weights")) | {
        "performance": weights.performance,
        "reconfiguration": weights.reconfiguration,
        "resources": weights.resources,
    }
    return replace(made, id=session.scalar(insert(ObjectiveRow).values(values).returning(ObjectiveRow.id)))


def move_objective(
    session: Session, application: str, version: int, before: str, after: str, now: float,
    evidence: Mapping[str, Any] | None = None,
) -> ObjectiveRecord:  # fmt: skip
    """Change the state of an objective that is `before` still, and say why; what was in full use retires for it."""
    check_one_of(after, OBJECTIVE_STATES, "the objective's state")
    lock_turn(session, f"objectives of {application}")
    there = load_objective(session, application, version)
    if there.state != before:
        raise StaleState(f"objective {version} of {application!r} is {there.state} by now, not {before}; look again")
    if after == "full":
        others = (
            ObjectiveRow.application == application,
            ObjectiveRow.state == "full",
            ObjectiveRow.version != version,
        )
        session.execute(update(ObjectiveRow).where(*others).values(state="retired", changed=now))
    moved = replace(there, state=after, changed=now, evidence={**there.evidence, **(evidence or {})})
    values = {"state": after, "changed": now, "evidence": dict(moved.evidence)}
    session.execute(update(ObjectiveRow).where(ObjectiveRow.id == there.id).values(values))
    return moved


def merge_evidence(session: Session, objective: ObjectiveRecord, evidence: Mapping[str, Any]) -> ObjectiveRecord:
    """Add parts of the evidence, over stored parts of the same name; state and its time stay."""
    stored = load_objective(session, objective.application, objective.version or 0)
    merged = {**stored.evidence, **evidence}
    session.execute(update(ObjectiveRow).where(ObjectiveRow.id == stored.id).values(evidence=merged))
    return replace(stored, evidence=merged)


def list_applications_with(session: Session, states: Sequence[str]) -> set[str]:
    """Applications with an objective in one of these states."""
    return set(session.scalars(select(ObjectiveRow.application).where(ObjectiveRow.state.in_(states)).distinct()))


def load_objective(session: Session, application: str, version: int) -> ObjectiveRecord:
    same = (ObjectiveRow.application == application, ObjectiveRow.version == version)
    row = session.execute(select(*COLUMNS).where(*same)).first()
    if row is None:
        raise NotFound(f"application {application!r} has no objective {version}")
    return to_objective(row)


def find_full_objective(session: Session, application: str) -> ObjectiveRecord | None:
    """The one in full use, None before there is one."""
    return next(iter(list_objectives(session, application, ("full",), limit=1)), None)


def list_objectives(
    session: Session, application: str, states: Sequence[str] | None = None, limit: int | None = None
) -> list[ObjectiveRecord]:
    """The newest first."""
    query = select(*COLUMNS).where(ObjectiveRow.application == application)
    if states is not None:
        query = query.where(ObjectiveRow.state.in_(states))
    return [to_objective(row) for row in session.execute(query.order_by(ObjectiveRow.version.desc()).limit(limit))]


def to_objective(row: Row[Any]) -> ObjectiveRecord:
    values = dict(row._mapping)
    weights = Weights(values.pop("performance"), values.pop("reconfiguration"), values.pop("resources"))
    return ObjectiveRecord(weights=weights, **values)
