"""An objective and where it came from in; what its operators are told besides bounds and weights, as a document, out.

An objective is kept with its bounds and weights alone. What a scaler needs with them (service moments, constants, node
types, rate levels, the policy) is taken where the objective was found: from its run's plan, or, for one made by hand,
from the newest description and surrogate. It is kept in the objective's evidence as "model" when the objective first
leaves "proposed", so that a version always tells the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sim.setting import Setting, gains, tasks
from tuner.scenario.description import scenario_of
from tuner.search.problem import (
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
from tuner.store.surrogates import list_surrogates
from tuner.surrogate.fitted_application import list_constants
from tuner.surrogate.surrogate_records import from_record

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
    return describe(plan.proof, find_constants(session, objective.application, plan.surrogate_id))


def by_hand(session: Session, app: str) -> Model:
    """As the newest description and the newest surrogate that passed its checks have it."""
    document = load_application(session, app).document
    scenario = scenario_of({**document, "policy": choose_policy(document, {})}, name=app)
    setting, qos = scenario.settings[0], read_qos(scenario.document)
    sound = next((s.id for s in list_surrogates(session, app) if s.health != "fail"), None)
    if sound is not None:
        setting, _ = apply_surrogate(session, app, sound, setting, qos)
    highest = find_highest(session, app, setting, document)
    return describe(replace(setting, highest_rate=highest), find_constants(session, app, sound))


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


def find_constants(session: Session, app: str, surrogate_id: int | None) -> dict[str, float]:
    """Seconds that an answer takes at each operator besides queueing; none known without a surrogate."""
    if surrogate_id is None:
        return {}
    record = next(record for record in list_surrogates(session, app) if record.id == surrogate_id)
    return list_constants(from_record(record))


def describe(setting: Setting, constants: Mapping[str, float]) -> Model:
    """The setting's part of what `scaler.model.orders` reads as an objective."""
    told = tasks(setting)
    operators = {
        operator.name: {
            "mean": task.moments.mean,
            "variance": task.moments.variance,
            "constant": constants.get(operator.name, 0.0),
            "k_max": task.k_max,
            "highest_rate": task.highest_rate,
            "normaliser": task.dearest,
        }
        for operator, task in zip(setting.application.operators, told, strict=True)
    }
    nodes = [{"name": n.name, "speedup": n.speedup, "price": n.price} for n in setting.infrastructure.types]
    return {
        "policy": setting.policy,
        "options": dict(setting.options),
        "levels": setting.levels,
        "gamma": setting.gamma,
        "nodes": nodes,
        "operators": operators,
    }
