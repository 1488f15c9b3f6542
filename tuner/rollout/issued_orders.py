"""Write an application's orders: the one document that its agents receive.

They are written in the transaction of the change that they follow from, so that agents receive nothing uncommitted.
The model of an objective (moments, constants, node types, rate levels, policy) is in its evidence: put there by the
search that proposed it, or when a push first moves it out of "proposed", so that a version's orders never change. For
an objective made by hand it comes from the newest description and surrogate; for one that an older program proposed,
from the plan of its run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.model.change_budget import make_budget
from scaler.model.orders import Candidate, Objective, ObjectiveModel, Orders
from tuner.scenario.layout import DEFAULTS, SLOT_S
from tuner.store.applications import load_application
from tuner.store.connection import Session
from tuner.store.known_histories import find_history
from tuner.store.objectives import ObjectiveEvidence, find_full_objective, list_objectives
from tuner.store.orders import list_controls, save_orders
from tuner.store.records import ObjectiveRecord, OrdersRecord
from tuner.store.rows import lock_turn

CANDIDATES = ("shadow", "canary")  # states of a candidate


def model_of(session: Session, record: ObjectiveRecord) -> ObjectiveModel:
    """The stored model, else the one that a push would store now."""
    model = ObjectiveEvidence.from_json(record.evidence).model
    if model is not None:
        return model
    from tuner.rollout.objective_model import find_model  # loads numpy, scipy, the search: not for every command

    return find_model(session, record)


def issue_orders(session: Session, app: str, now: float) -> OrdersRecord:
    """Write the application's orders; the stored ones stay where they say the same."""
    lock_turn(session, f"orders of {app}")  # before reading: the later transaction writes what both commit
    document = load_application(session, app).document
    standing = find_full_objective(session, app)
    candidate = next(iter(list_objectives(session, app, CANDIDATES, limit=1)), None)
    known = find_history(session, app, [one.version for one in (candidate, standing) if one is not None])
    orders = Orders(
        application=app,
        revision=0,  # the store gives it
        slot_s=find_slot(document),
        objective=None if standing is None else make_objective(session, standing),
        candidate=None if candidate is None else make_candidate(session, candidate),
        guards=list_guards(session, app, now),
        change_budget=make_budget(find_eta_r(document)),
        experience={} if known is None else known.document,
    )
    document = orders.to_json()
    del document["revision"]
    return save_orders(session, app, document, now)


def write_orders(orders: OrdersRecord) -> dict[str, Any]:
    """The document on the wire, as `scaler.model.orders.parse_orders` reads it."""
    return {**orders.document, "revision": orders.revision}


def find_slot(document: Mapping[str, Any]) -> float:
    """Decision period in seconds, as described."""
    stated = document.get("run", {}).get("slot_s") or document.get("trace", {}).get("step_s") or SLOT_S
    return float(stated)


def find_eta_r(document: Mapping[str, Any]) -> float:
    """The share of slots that may reconfigure, as described."""
    return float({**DEFAULTS["qos"], **document.get("qos", {})}["eta_r"])


def make_objective(session: Session, record: ObjectiveRecord) -> Objective:
    """The objective in full, of the operators that its model knows."""
    model = model_of(session, record)
    bounds = {name: bound for name, bound in record.bounds.items() if name in model.operators}
    return Objective(record.version or 0, record.weights, bounds, model, record.provenance)


def make_candidate(session: Session, record: ObjectiveRecord) -> Candidate:
    """The objective and how far it leads."""
    objective = make_objective(session, record)
    canary = ObjectiveEvidence.from_json(record.evidence).stages.get("canary")
    if record.state != "canary" or canary is None:
        return Candidate(objective, record.state)
    period = {} if canary.period_s is None else {"period_s": canary.period_s}
    return Candidate(objective, record.state, canary.operators, canary.share, **period)


def list_guards(session: Session, app: str, now: float) -> dict[str, dict[str, Any]]:
    """The controls that stand, by operator and kind."""
    guards: dict[str, dict[str, Any]] = {}
    for control in reversed(list_controls(session, app, at=now)):
        guards.setdefault(control.operator, {})[control.kind] = dict(control.settings)
    return guards
