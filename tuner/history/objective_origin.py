"""Trace an objective to its trial, surrogate and search, and through the stages of its roll-out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.wire import read_number, read_table, read_text
from tuner.store.connection import Session
from tuner.store.objectives import load_objective
from tuner.store.records import ObjectiveRecord, Trial
from tuner.store.runs import load_run
from tuner.store.surrogates import find_surrogate
from tuner.store.trials import load_trial

STAGES = ("shadow", "canary", "full")
FIGURES = ("cost", "cost_error", "violations", "reconfigurations")
MOST_DOUBTS = 3


@dataclass(frozen=True, slots=True)
class StageHistory:
    """How an objective came into a stage, and by what it ended."""

    name: str
    since: float | None
    ended: float | None
    who: str | None
    why: str | None
    figures: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectiveSource:
    """The search that found it and the model that this believed."""

    trial: int | None  # its id
    number: int | None  # within its run
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
    before: Mapping[str, float | None] | None = None  # cost and violations without it
    after: Mapping[str, float | None] | None = None
    confidence: float | None = None
    stages: tuple[StageHistory, ...] = ()
    reverted: Mapping[str, Any] | None = None


def find_pursued(session: Session, app: str, operator: str, version: int) -> Pursued:
    try:
        objective = load_objective(session, app, version)
    except BadInput:
        return Pursued(version, kept=False)
    evidence, weights = read_table(objective.evidence), objective.weights
    baseline = read_table(evidence.get("baseline"))
    return Pursued(
        version=version,
        kept=True,
        state=objective.state,
        changed=objective.changed,
        weights=weights.to_json(),
        bound=read_number(read_table(objective.bounds).get(operator)),
        provenance=objective.provenance,
        source=find_source(session, objective),
        before=pick_figures(baseline),
        after=pick_figures(evidence),
        confidence=read_number(evidence.get("confidence")),
        stages=list_stages(evidence),
        reverted=read_table(evidence.get("reverted")) or None,
    )


def pick_figures(table: Mapping[str, Any]) -> dict[str, float | None] | None:
    found = {key: read_number(table.get(key)) for key in FIGURES}
    return None if all(value is None for value in found.values()) else found


def list_stages(evidence: Mapping[str, Any]) -> tuple[StageHistory, ...]:
    stages = []
    for name in STAGES:
        told = read_table(evidence.get(name))
        if told:
            known = {key: told[key] for key in told if key not in ("since", "ended", "who", "why")}
            since, ended = read_number(told.get("since")), read_number(told.get("ended"))
            stages.append(
                StageHistory(name, since, ended, read_text(told.get("who")), read_text(told.get("why")), known)
            )
    return tuple(stages)


def find_source(session: Session, objective: ObjectiveRecord) -> ObjectiveSource | None:
    trial: Trial | None = None
    engine = seed = None
    if objective.trial_id is not None:
        try:
            trial = load_trial(session, objective.trial_id)
            run = load_run(session, trial.run_id)
            engine, seed = run.engine, run.seed
        except BadInput:  # taken out by hand: `prune` keeps what became an objective
            pass
    surrogate = objective.surrogate_id or (None if trial is None else trial.surrogate_id)
    if trial is None and surrogate is None:
        return None
    return ObjectiveSource(
        trial=objective.trial_id,
        number=None if trial is None else trial.number,
        run=None if trial is None else trial.run_id,
        engine=engine,
        seed=seed,
        **describe_surrogate(session, surrogate),
    )


def describe_surrogate(session: Session, surrogate_id: int | None) -> dict[str, Any]:
    found = None if surrogate_id is None else find_surrogate(session, surrogate_id)
    if found is None:
        return {"surrogate": None, "health": None, "error": None}
    doubts = list_doubts(found.document)
    return {"surrogate": found.number, "health": found.health, "error": found.error, "doubts": doubts}


def list_doubts(document: Any) -> tuple[str, ...]:
    """What the checks of a surrogate found wrong, the worst first."""
    checks = read_table(document).get("checks")
    found = [read_table(check) for check in checks] if isinstance(checks, list) else []
    told = [
        (str(check["verdict"]), f"{check.get('operator', '')}: {check['says']}")
        for check in found
        if check.get("verdict") in ("warn", "fail") and isinstance(check.get("says"), str)
    ]
    return tuple(says for _, says in sorted(told, key=lambda each: each[0])[:MOST_DOUBTS])
