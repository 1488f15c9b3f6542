"""Status of an application's agents (alive, orders, replicas, last decision), from its manager or the database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from scaler.link.http import ManagerConnection, read_address
from scaler.model.decision import Decision, parse_decision
from scaler.model.errors import BadInput, Retry
from scaler.model.wire import read_number, read_table, read_text, write_fields
from tuner.store.applications import load_application
from tuner.store.connection import Session
from tuner.store.decisions import list_decisions
from tuner.store.orders import list_scalers, load_orders

MAX_ROWS = 1000  # of a page
SILENT_SLOTS = 3.0  # without a report, after which a scaler is not alive
LEAST_S = 30.0  # scalers fetch their orders every 30 s at least
Rows = Iterable[Mapping[str, Any]]


class Manager:
    """Client of one application's manager over HTTP; for one thread."""

    def __init__(self, url: str, token: str, app: str, ca_file: Path | None = None) -> None:
        self.connection = ManagerConnection(read_address(url), token, ca_file)
        self.app = app

    def ask(self, method: str, path: str, document: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        answer = self.connection.request(
            method, f"/v1/applications/{quote(self.app, safe='')}{path}", document, headers
        )
        if answer.status >= 400:
            kind = BadInput if answer.status < 500 and answer.status != 429 else Retry
            raise kind(f"the manager at {self.connection.address} says {self.connection.describe(answer)}")
        return answer.document()

    def list_all(self, what: str, **asked: Any) -> list[dict[str, Any]]:
        """The newest rows of a list, a page of them."""
        query = urlencode({**asked, "limit": min(MAX_ROWS, asked.get("limit", MAX_ROWS))})
        rows: list[dict[str, Any]] = self.ask("GET", f"/{what}?{query}")["items"]
        return rows

    def find_revision(self) -> int | None:
        """Of the newest orders; None where there are none, or where the token does not let us see them."""
        path = f"/v1/applications/{quote(self.app, safe='')}/orders?wait=0"
        answer = self.connection.request("GET", path)
        document = answer.document()
        return int(document["revision"]) if answer.status == 200 and isinstance(document, dict) else None

    def close(self) -> None:
        self.connection.close()


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """One operator's agent, as it reported last."""

    operator: str
    instance: str
    alive: bool
    silent_s: float  # since its last report
    revision: int | None  # of the orders that it acts under
    last: Decision | None
    token: str | None = None  # name of the one that it reports with
    token_expires: float | None = None

    @property
    def replicas(self) -> Mapping[str, int] | None:
        return None if self.last is None else self.last.seen.deployment or None

    def to_json(self) -> dict[str, Any]:
        return write_fields(self) | {"replicas": self.replicas}


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
    ordered = sorted(scalers, key=lambda scaler: float(scaler["last_seen"]))
    newest = {str(scaler["operator"]): scaler for scaler in ordered}
    if not newest:
        raise BadInput(f"no agent of {app!r} ever reported; its driver attaches them by scaler.attach")
    decided: dict[str, list[Decision]] = {}
    for row in decisions:
        decided.setdefault(str(row["operator"]), []).append(parse_decision(row))
    agents = tuple(make_agent_status(newest[name], decided.get(name, []), now) for name in sorted(newest))
    return ApplicationStatus(app, revision, agents)


def make_agent_status(scaler: Mapping[str, Any], decisions: list[Decision], now: float) -> AgentStatus:
    last = sorted(decisions, key=lambda decision: -decision.time)
    detail = read_table(scaler.get("detail"))
    silent = now - float(scaler["last_seen"])
    slot = last[0].time - last[1].time if len(last) > 1 else 0.0
    return AgentStatus(
        operator=str(scaler["operator"]),
        instance=str(scaler["instance"]),
        alive=silent <= max(LEAST_S, SILENT_SLOTS * slot),
        silent_s=max(0.0, silent),
        revision=scaler["revision"],
        last=last[0] if last else None,
        token=read_text(detail.get("token")),
        token_expires=read_number(detail.get("token_expires")),
    )
