"""Trace an objective to its trial, surrogate and search, and through the stages of its roll-out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.hold import HoldTimes
from scaler.model.wire import read_number, read_table
from tuner.store.applications import find_surrogate
from tuner.store.connection import Session
from tuner.store.json_fields import read_fields
from tuner.store.objectives import STAGES, ObjectiveEvidence, Reversion, StageEvidence, load_objective
from tuner.store.records import ObjectiveRecord
from tuner.store.runs import load_run
from tuner.store.trials import load_trial

MAX_DOUBTS = 3


@dataclass(frozen=True, slots=True)
class ExpectedFigures:
    """What the verification of an objective predicts: price per hour, shares of slots."""

    cost: float | None = None
    cost_error: float | None = None
    violations: float | None = None
    reconfigurations: float | None = None


@dataclass(frozen=True, slots=True)
class ObjectiveSource:
    """The search that found it, and the surrogate that this used."""

    trial: int | None  # its number in the application, as that of the run
    run: int | None
    engine: str | None
    seed: int | None
    surrogate: int | None  # its number
    health: str | None
    error: float | None  # relative, of response times
    doubts: tuple[str, ...] = ()  # checks of the surrogate that did not pass


@dataclass(frozen=True, slots=True)
class Pursued:
    """The objective that a decision was made under."""

    version: int
    kept: bool  # whether the database knows it
    state: str | None = None  # by now
    changed: float | None = None
    weights: Mapping[str, float] | None = None
    bound: float | None = None  # of this operator, seconds, on the queueing part
    provenance: str = ""
    source: ObjectiveSource | None = None
    before: ExpectedFigures = ExpectedFigures()  # without it
    after: ExpectedFigures = ExpectedFigures()
    confidence: float | None = None
    stages: Mapping[str, StageEvidence] = field(default_factory=dict)
    reverted: Reversion | None = None
    hold: HoldTimes | None = None  # of this operator's reconfigurations, as measured


def find_pursued(session: Session, app: str, operator: str, version: int) -> Pursued:
    try:
        objective = load_objective(session, app, version)
    except BadInput:
        return Pursued(version, kept=False)
    document, weights = read_table(objective.evidence), objective.weights
    evidence = ObjectiveEvidence.from_json(document)
    return Pursued(
        version=version,
        kept=True,
        state=objective.state,
        changed=objective.changed,
        weights=weights.to_json(),
        bound=read_number(read_table(objective.bounds).get(operator)),
        provenance=objective.provenance,
        source=find_source(session, objective),
        before=read_fields(ExpectedFigures, document.get("baseline")),
        after=read_fields(ExpectedFigures, document),
        confidence=read_number(document.get("confidence")),
        stages={name: evidence.stages[name] for name in STAGES[1:] if name in evidence.stages},
        reverted=evidence.reverted,
        hold=find_hold(evidence, operator),
    )


def find_hold(evidence: ObjectiveEvidence, operator: str) -> HoldTimes | None:
    model = None if evidence.model is None else evidence.model.operators.get(operator)
    return None if model is None else model.hold


def find_source(session: Session, objective: ObjectiveRecord) -> ObjectiveSource | None:
    trial, run = None, None
    if objective.trial_id is not None:
        with suppress(BadInput):  # taken out by hand: `prune` keeps what became an objective
            trial = load_trial(session, objective.trial_id)
            run = load_run(session, trial.run_id)
    surrogate_id = objective.surrogate_id or (None if trial is None else trial.surrogate_id)
    if trial is None and surrogate_id is None:
        return None
    surrogate = None if surrogate_id is None else find_surrogate(session, surrogate_id)
    return ObjectiveSource(
        trial=None if trial is None else trial.ordinal,
        run=None if run is None else run.ordinal,
        engine=None if run is None else run.engine,
        seed=None if run is None else run.seed,
        surrogate=None if surrogate is None else surrogate.number,
        health=None if surrogate is None else surrogate.health,
        error=None if surrogate is None else surrogate.error,
        doubts=() if surrogate is None else list_doubts(surrogate.document),
    )


def list_doubts(document: Any) -> tuple[str, ...]:
    """What the checks of a surrogate found wrong, the worst first."""
    checks = read_table(document).get("checks")
    found = [read_table(check) for check in checks] if isinstance(checks, list) else []
    failed = [
        (str(check["verdict"]), f"{check.get('operator', '')}: {check['says']}")
        for check in found
        if check.get("verdict") in ("warn", "fail") and isinstance(check.get("says"), str)
    ]
    return tuple(says for _, says in sorted(failed, key=lambda each: each[0])[:MAX_DOUBTS])
