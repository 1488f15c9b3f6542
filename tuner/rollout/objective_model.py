"""Find what an objective's operators are told besides bounds and weights, as a document.

An objective is stored with its bounds and weights. What a scaler needs with them (service moments, constants, node
types, rate levels, the policy) is in its evidence as "model": put there by the search that proposed it, or when it
first leaves "proposed", so that a version always says the same. For an objective made by hand it comes from the newest
description and surrogate; for one proposed by an older program, from the plan of its run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sim.setting import Setting, gains
from tuner.scenario.description import scenario_of
from tuner.search.objective_model import describe_model
from tuner.search.search_plan import (
    apply_surrogate,
    choose_policy,
    find_samples,
    has_trace,
    make_plan,
    read_arrivals,
    read_qos,
)
from tuner.store.applications import load_application
from tuner.store.connection import Session
from tuner.store.records import ObjectiveRecord
from tuner.store.runs import load_run
from tuner.store.samples import count_samples
from tuner.store.surrogates import find_sound_surrogate

MODEL = "model"  # in an objective's evidence
Model = dict[str, Any]


def model_of(session: Session, objective: ObjectiveRecord) -> Model:
    """What it always tells, or would from now on."""
    kept = objective.evidence.get(MODEL)
    if kept is not None:
        return dict(kept)
    run_id = objective.evidence.get("run")
    return by_hand(session, objective.application) if run_id is None else of_run(session, objective, run_id)


def of_run(session: Session, objective: ObjectiveRecord, run_id: int) -> Model:
    """As the search believed it to be."""
    run = load_run(session, run_id)
    plan = make_plan(session, objective.application, run.settings, run.engine, run.seed, run.budget)
    return describe_model(plan.verification, plan.constants)


def by_hand(session: Session, app: str) -> Model:
    """As the newest description and the newest surrogate that passed its checks have it."""
    document = load_application(session, app).document
    scenario = scenario_of({**document, "policy": choose_policy(document, {})}, name=app)
    setting, qos = scenario.settings[0], read_qos(scenario.document)
    constants: Mapping[str, float] = {}
    sound = find_sound_surrogate(session, app)
    if sound is not None:
        setting, _, constants = apply_surrogate(session, app, sound, setting, qos)
    highest = find_highest(session, app, setting, document)
    return describe_model(replace(setting, highest_rate=highest), constants)


def find_highest(session: Session, app: str, setting: Setting, document: Mapping[str, Any]) -> float:
    """The highest rate of the external stream: as described, else as monitored, else what can be served at all."""
    if has_trace(document, {}):
        return float(setting.trace.rates.max()) if setting.highest_rate is None else setting.highest_rate
    if count_samples(session, app):
        return float(read_arrivals(session, app, setting.application, find_samples(session, app)).rates.max())
    fastest = max(node.speedup for node in setting.infrastructure.types)
    most = [
        operator.k_max * fastest / operator.moments.mean / gain
        for operator, gain in zip(setting.application.operators, gains(setting.application), strict=True)
        if gain > 0.0
    ]
    return min(most, default=1.0)
