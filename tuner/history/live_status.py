"""How an application's scalers stand: alive, orders, replicas, last decision; over HTTP or from the database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from scaler.model.decision import Decision
from scaler.model.errors import BadInput
from tuner.history.manager_client import Manager
from tuner.history.scene import read_moment
from tuner.store.applications import load_application
from tuner.store.connection import Session
from tuner.store.decisions import list_decisions
from tuner.store.orders import load_orders
from tuner.store.scalers import list_scalers

SILENT_SLOTS = 3.0  # without a word, after which a scaler is not alive
LEAST_S = 30.0  # scalers hear of their orders every 30 s at least
Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """One operator's agent, as it reported last."""

    operator: str
    instance: str
    alive: bool
    silent_s: float  # since its last report
    revision: int | None  # of the orders that it acts under
    last: Decision | None

    @property
    def replicas(self) -> Mapping[str, int] | None:
        return None if self.last is None else self.last.seen.deployment or None

    def to_json(self) -> dict[str, Any]:
        return {
            "operator": self.operator,
            "instance": self.instance,
            "alive": self.alive,
            "silent_s": self.silent_s,
            "revision": self.revision,
            "replicas": self.replicas,
            "last": None if self.last is None else self.last.to_json(),
        }


@dataclass(frozen=True, slots=True)
class ApplicationStatus:
    application: str
    revision: int | None  # of the newest orders; None where it is not known
    operators: tuple[AgentStatus, ...]


def ask_status(manager: Manager, now: float) -> ApplicationStatus:
    scalers = manager.list_all("scalers")
    operators = {str(scaler["operator"]) for scaler in scalers}
    last = [row for name in sorted(operators) for row in manager.list_all("decisions", operator=name, limit=2)]
    return describe(manager.app, scalers, last, manager.find_revision(), now)


def read_status(session: Session, app: str, now: float) -> ApplicationStatus:
    load_application(session, app)
    scalers = [asdict(scaler) for scaler in list_scalers(session, app)]
    operators = {scaler["operator"] for scaler in scalers}
    last = [asdict(row) for name in sorted(operators) for row in list_decisions(session, app, [name], limit=2)]
    orders = load_orders(session, app)
    return describe(app, scalers, last, None if orders is None else orders.revision, now)


def describe(app: str, scalers: Rows, decisions: Rows, revision: int | None, now: float) -> ApplicationStatus:
    """`decisions`: the last two of each operator; `revision`: of the newest orders, None where it is not known."""
    heard: dict[str, Mapping[str, Any]] = {}
    for scaler in sorted(scalers, key=lambda scaler: float(scaler["last_seen"])):
        heard[str(scaler["operator"])] = scaler
    if not heard:
        raise BadInput(f"no scaler of {app!r} was ever heard of; its driver attaches them by scaler.attach")
    told: dict[str, list[Decision]] = {}
    for moment in sorted(map(read_moment, decisions), key=lambda moment: -moment.decision.time):
        told.setdefault(moment.operator, []).append(moment.decision)
    agents = tuple(make_agent_status(heard[name], told.get(name, []), now) for name in sorted(heard))
    return ApplicationStatus(app, revision, agents)


def make_agent_status(scaler: Mapping[str, Any], last: list[Decision], now: float) -> AgentStatus:
    """`last`: its last decisions, the newest first."""
    silent = now - float(scaler["last_seen"])
    slot = last[0].time - last[1].time if len(last) > 1 else 0.0
    return AgentStatus(
        operator=str(scaler["operator"]),
        instance=str(scaler["instance"]),
        alive=silent <= max(LEAST_S, SILENT_SLOTS * slot),
        silent_s=max(0.0, silent),
        revision=scaler["revision"],
        last=last[0] if last else None,
    )
