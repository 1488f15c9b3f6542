"""Find the model of an objective that has none stored: one made by hand, or proposed by an older program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scaler.model.orders import ObjectiveModel
from sim.setting import Setting, gains
from tuner.scenario.description import scenario_of
from tuner.scenario.scenario import make_qos
from tuner.search.monitored_arrivals import ArrivalsAsked, choose_arrivals, read_arrivals
from tuner.search.recommendation import make_model
from tuner.search.search_plan import (
    apply_surrogate,
    choose_policy,
    has_trace,
    make_plan,
)
from tuner.search.seen_nodes import add_seen_nodes
from tuner.store.applications import find_sound_surrogate, load_application
from tuner.store.connection import Session
from tuner.store.objectives import ObjectiveEvidence
from tuner.store.records import ObjectiveRecord
from tuner.store.runs import load_run
from tuner.store.samples import count_samples


def find_model(session: Session, record: ObjectiveRecord) -> ObjectiveModel:
    """The model of the plan of its run, or of the newest description and surrogate."""
    if ObjectiveEvidence.from_json(record.evidence).run_id is None:
        return model_by_hand(session, record.application)
    return make_model(*find_setting(session, record))


def find_setting(session: Session, record: ObjectiveRecord) -> tuple[Setting, Mapping[str, float]]:
    """The setting that it was found in, and the operators' constants."""
    run_id = ObjectiveEvidence.from_json(record.evidence).run_id
    if run_id is None:
        return describe_setting(session, record.application)
    run = load_run(session, run_id)
    plan = make_plan(session, record.application, run.settings, run.engine, run.seed, run.budget)
    return plan.verification.setting, plan.constants


def model_by_hand(session: Session, app: str) -> ObjectiveModel:
    """The model of the newest description and the newest surrogate that passed its checks."""
    return make_model(*describe_setting(session, app))


def describe_setting(session: Session, app: str) -> tuple[Setting, Mapping[str, float]]:
    """The setting of the newest description and the newest surrogate that passed its checks."""
    document = add_seen_nodes(session, app, load_application(session, app).document)
    scenario = scenario_of({**document, "policy": choose_policy(document, {})}, name=app)
    setting, qos = scenario.settings[0], make_qos(scenario.document["qos"])
    constants: Mapping[str, float] = {}
    sound = find_sound_surrogate(session, app)
    if sound is not None:
        setting, _, constants = apply_surrogate(session, app, sound, setting, qos)
    highest = find_highest_rate(session, app, setting, document)
    return replace(setting, highest_rate=highest), constants


def find_highest_rate(session: Session, app: str, setting: Setting, document: Mapping[str, Any]) -> float:
    """The highest rate of the external stream: as described, else as monitored, else what can be served at all."""
    if has_trace(document, {}):
        return float(setting.trace.rates.max()) if setting.highest_rate is None else setting.highest_rate
    if count_samples(session, app):
        chosen = choose_arrivals(session, app, setting.application, ArrivalsAsked())
        return float(read_arrivals(session, app, setting.application, chosen).rates.max())
    fastest = max(node.speedup for node in setting.infrastructure.types)
    served = [
        operator.k_max * fastest / operator.moments.mean / gain
        for operator, gain in zip(setting.application.operators, gains(setting.application), strict=True)
        if gain > 0.0
    ]
    return min(served, default=1.0)
