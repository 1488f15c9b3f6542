"""What stands in the database about an application in; the one document that its scalers are told, kept as orders, out.

Made anew in the transaction of whatever changed it, so that nothing is told that was not committed, nor kept untold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.history.qos_history import SLOT_S
from tuner.rollout.objective_model import model_of
from tuner.store.applications import load_application
from tuner.store.connection import Session
from tuner.store.controls import list_controls
from tuner.store.objectives import find_full_objective, list_objectives
from tuner.store.orders import save_orders
from tuner.store.records import ObjectiveRecord, OrdersRecord
from tuner.store.rows import lock_turn

CANDIDATES = ("shadow", "canary")  # states of an objective on its way in


def issue_orders(session: Session, app: str, now: float) -> OrdersRecord:
    """The application's orders as of now; those that stand already where they say the same."""
    lock_turn(session, f"orders of {app}")  # before reading: what others commit meanwhile is told by the later one
    document = load_application(session, app).document
    standing = find_full_objective(session, app)
    candidate = next(iter(list_objectives(session, app, CANDIDATES, limit=1)), None)
    told = {
        "application": app,
        "slot_s": find_slot(document),
        "objective": None if standing is None else tell_objective(session, standing),
        "candidate": None if candidate is None else tell_candidate(session, candidate),
        "guards": list_guards(session, app, now),
    }
    return save_orders(session, app, told, now)


def tell(orders: OrdersRecord) -> dict[str, Any]:
    """The document as it goes over the wire, and as `scaler.model.orders.parse_orders` reads it."""
    return {**orders.document, "revision": orders.revision}


def find_slot(document: Mapping[str, Any]) -> float:
    """Seconds between two decisions of a scaler, as described."""
    stated = document.get("run", {}).get("slot_s") or document.get("trace", {}).get("step_s") or SLOT_S
    return float(stated)


def tell_objective(session: Session, objective: ObjectiveRecord) -> dict[str, Any]:
    """The objective in full."""
    model = model_of(session, objective)
    weights = objective.weights
    known = {name: model["operators"][name] for name in objective.bounds if name in model["operators"]}
    return {
        "version": objective.version,
        "weights": {"perf": weights.performance, "rcf": weights.reconfiguration, "res": weights.resources},
        "provenance": objective.provenance,
        **{key: model[key] for key in ("policy", "options", "levels", "gamma", "nodes")},
        "operators": {name: {"bound": objective.bounds[name], **target} for name, target in known.items()},
    }


def tell_candidate(session: Session, candidate: ObjectiveRecord) -> dict[str, Any]:
    """The objective and how far it leads."""
    whole = {"objective": tell_objective(session, candidate), "stage": candidate.state}
    if candidate.state != "canary":
        return whole
    canary = candidate.evidence.get("canary", {})
    return whole | {key: canary[key] for key in ("operators", "share", "period_s") if key in canary}


def list_guards(session: Session, app: str, now: float) -> dict[str, dict[str, Any]]:
    """The controls that stand, by operator and kind."""
    guards: dict[str, dict[str, Any]] = {}
    for control in reversed(list_controls(session, app, at=now)):
        guards.setdefault(control.operator, {})[control.kind] = dict(control.settings)
    return guards
