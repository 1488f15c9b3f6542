"""An application in; how its scalers stand (alive, under which orders, on which replicas, why) out, as a document.

It is read from a manager over HTTP, or from the database itself: both tell the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from scaler.model.errors import BadInput
from tuner.history.manager_client import Manager
from tuner.history.scene import Moment, read_moment

if TYPE_CHECKING:
    from tuner.store.connection import Session

SILENT_SLOTS = 3.0  # without a word, after which a scaler is not alive
LEAST_S = 30.0  # scalers hear of their orders every 30 s at least
Rows = Iterable[Mapping[str, Any]]


def ask_status(manager: Manager, now: float) -> dict[str, Any]:
    scalers = manager.list_all("scalers")
    operators = {str(scaler["operator"]) for scaler in scalers}
    last = [row for name in sorted(operators) for row in manager.list_all("decisions", operator=name, limit=2)]
    return describe(manager.app, scalers, last, manager.find_revision(), now)


def read_status(session: Session, app: str, now: float) -> dict[str, Any]:
    from tuner.store.applications import load_application
    from tuner.store.decisions import list_decisions
    from tuner.store.orders import load_orders
    from tuner.store.scalers import list_scalers

    load_application(session, app)
    scalers = [asdict(scaler) for scaler in list_scalers(session, app)]
    operators = {scaler["operator"] for scaler in scalers}
    last = [asdict(row) for name in sorted(operators) for row in list_decisions(session, app, [name], limit=2)]
    orders = load_orders(session, app)
    return describe(app, scalers, last, None if orders is None else orders.revision, now)


def describe(app: str, scalers: Rows, decisions: Rows, revision: int | None, now: float) -> dict[str, Any]:
    """`decisions`: the last two of each operator; `revision`: of the newest orders, None where it is not known."""
    heard: dict[str, Mapping[str, Any]] = {}
    for scaler in sorted(scalers, key=lambda scaler: float(scaler["last_seen"])):
        heard[str(scaler["operator"])] = scaler
    if not heard:
        raise BadInput(f"no scaler of {app!r} was ever heard of; its driver attaches them by scaler.attach")
    told: dict[str, list[Moment]] = {}
    for row in sorted(decisions, key=lambda row: -float(row["time"])):
        told.setdefault(str(row["operator"]), []).append(read_moment(row))
    operators = [describe_one(heard[name], told.get(name, []), now) for name in sorted(heard)]
    return {"application": app, "revision": revision, "operators": operators}


def describe_one(scaler: Mapping[str, Any], last: list[Moment], now: float) -> dict[str, Any]:
    """`last`: its last decisions, the newest first."""
    silent = now - float(scaler["last_seen"])
    slot = last[0].time - last[1].time if len(last) > 1 else 0.0
    newest = last[0] if last else None
    return {
        "operator": scaler["operator"],
        "instance": scaler["instance"],
        "alive": silent <= max(LEAST_S, SILENT_SLOTS * slot),
        "silent_s": max(0.0, silent),
        "revision": scaler["revision"],
        "replicas": None if newest is None else newest.replicas,
        "last": None if newest is None else describe_moment(newest),
    }


def describe_moment(moment: Moment) -> dict[str, Any]:
    response = moment.response
    return {
        "time": moment.time, "kind": moment.kind, "action": moment.action, "reason": moment.reason,
        "rate": moment.rate, "response": "Infinity" if response is not None and math.isinf(response) else response,
        "bound": moment.bound,
    }  # fmt: skip
