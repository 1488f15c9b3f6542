"""Run cluster, manager and stream of the live demo to the end of its replay; the decisions and costs of its slots.

However it ends, so does everything that it started.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scaler.link.credential import read_token_file
from scaler.model.decision import SCALED, Decision, parse_decision
from scaler.model.errors import BadInput, Retry
from tuner.demo.cluster import ROOT, Worker, find_page, make_environment, start_cluster, wait_for
from tuner.demo.demo_plan import (
    APP,
    BOUNDS,
    K_MAX,
    LARGE,
    OPERATORS,
    SLOT_S,
    SMALL,
    WEIGHTS,
    Plan,
    describe,
    record_days,
)
from tuner.demo.process_guard import guarded
from tuner.history.live_status import Manager
from tuner.rollout.known_history import keep_history
from tuner.service.access.token import LIFE_S, SCOPES, make_token
from tuner.store.applications import add_application
from tuner.store.connection import open_store

STORE = "manager.db"
SCALERS, PEOPLE = "scalers", "people"  # tokens of the demo's own manager


def describe_locally(address: Path, plan: Plan, days: Path) -> None:
    """Add the application to the database itself, as `tuner app add` does: a service reads no file for anybody."""
    with closing(open_store(address)) as store, store.begin() as session:
        add_application(session, APP, describe(plan, days), time.time())


def pursue(manager: Manager, weights: Mapping[str, float], bounds: Mapping[str, float], why: str) -> int:
    """Push an objective made by hand to the application's agents; its version."""
    made = manager.ask("POST", "/objectives", {"weights": weights, "bounds": bounds, "why": why})
    manager.ask("POST", f"/objectives/{made['version']}/push", {"stage": "full", "why": why})
    return int(made["version"])


def send_history(address: Path, version: int) -> None:
    """Let agents begin with what the planner learns from the days before, as `tuner push` does."""
    with closing(open_store(address)) as store:
        keep_history(store, APP, version, time.time())


@contextmanager
def serve(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Run a `tuner serve` on a new database until the block ends; its URL. Its tokens are in files of mode 0600."""
    store = folder / STORE
    make_tokens(store, folder, APP)
    command = [sys.executable, "-m", "tuner", "serve", "--port", "0", "--no-daemon"]
    log = folder / "manager.log"
    with guarded([*command, "--store", str(store)], environment, log, ROOT) as process:
        yield wait_for(log, r'"url": ?"(http[^"]+)"', process=process)


def make_tokens(address: Path, folder: Path, app: str) -> None:
    """Make one token for the agents, of scope report alone, and one for the demo."""
    with closing(open_store(address)) as store:
        now = time.time()
        for name, scopes in ((SCALERS, ("report",)), (PEOPLE, tuple(SCOPES))):
            with store.begin() as session:
                _, secret = make_token(session, name, scopes, "tuner live demo", now, now + LIFE_S, [app])
            file = os.open(name_token_file(folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as sink:
                sink.write(secret)


def name_token_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.token"


CORES = K_MAX * len(OPERATORS)  # so that any of the types can have all replicas
WORKERS = (
    Worker("127.0.0.2", SMALL.name, SMALL.speedup, CORES, f"{600 * CORES}m"),
    Worker("127.0.0.3", LARGE.name, LARGE.speedup, CORES, f"{600 * CORES}m"),
)
LOOK_S = 0.5
TOTALS = ("lines", "words", "counted", "exact", "ended")
AFTER_S = 300.0  # that the driver may take beyond the replay


@dataclass(frozen=True, slots=True)
class Progress:
    """The stage of the demo, and the decisions that its manager has."""

    at: str
    began: float | None = None  # when the replay did, seconds since 1970
    until: float | None = None
    decisions: tuple[dict[str, Any], ...] = ()  # the oldest first
    totals: dict[str, Any] = field(default_factory=dict)


def run_demo(folder: Path, plan: Plan, show: Callable[[Progress], None]) -> Progress:
    """`folder` is new or empty. `show` is called again and again, and with the end."""
    took: dict[str, float] = {}
    began = time.monotonic()
    with ExitStack() as stack:
        show(Progress("starting a cluster: a master and a worker of each node type"))
        master = stack.enter_context(start_cluster(folder / "cluster", WORKERS))
        took["cluster"] = time.monotonic() - began
        environment = make_environment("127.0.0.1")
        show(Progress("starting the manager"))
        url = stack.enter_context(serve(folder, environment))
        took["manager"] = time.monotonic() - began - sum(took.values())
        manager = stack.enter_context(closing(Manager(url, read_token_file(name_token_file(folder, PEOPLE)), APP)))
        describe_locally(folder / STORE, plan, record_days(plan, folder / "days.txt"))
        version = pursue(manager, WEIGHTS, BOUNDS, "for the demo")
        show(Progress("replaying the days before, for the agents to begin with"))
        send_history(folder / STORE, version)
        page, token = find_page(folder / "cluster"), name_token_file(folder, SCALERS)
        arguments = [master, page, url, str(token), str(folder), json.dumps(asdict(plan))]
        command = [sys.executable, "-m", "tuner.demo.stream", *arguments]
        driver = stack.enter_context(guarded(command, environment, folder / "driver.log", ROOT))
        end = follow(driver, manager, folder, plan, show)
        took["driver"] = (end.began or time.time()) - time.time() + time.monotonic() - began - sum(took.values())
        return Progress("done", end.began, end.until, end.decisions, {**end.totals, "starting": took})


def follow(
    driver: subprocess.Popen[bytes], manager: Manager, folder: Path, plan: Plan, show: Callable[[Progress], None]
) -> Progress:
    """Poll driver and manager until the stream is done."""
    limit = time.monotonic() + plan.seconds + AFTER_S
    since: dict[str, float] = {}
    decisions: tuple[dict[str, Any], ...] = ()
    while time.monotonic() < limit:
        over = driver.poll() is not None
        at = read_state(folder)
        since |= {key: at[key] for key in ("began", "until") if key in at}
        decisions = list_decisions(manager, decisions)
        totals: dict[str, Any] = {key: at[key] for key in TOTALS if key in at}
        progress = Progress(str(at["at"]), since.get("began"), since.get("until"), decisions, totals)
        show(progress)
        if progress.at == "done":
            return progress
        if over:
            break
        time.sleep(LOOK_S)
    said = (folder / "driver.log").read_text(errors="replace").strip().rpartition("\n")[2][:300]
    raise Retry(f"the stream {'failed' if driver.poll() else 'did not end'} while {read_state(folder)['at']}: "
                f"{said or 'it said nothing'}; run again with --keep FOLDER to see its log")  # fmt: skip


def list_decisions(manager: Manager, known: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """All decisions, the oldest first; those known before while the manager does not answer."""
    try:
        rows = manager.list_all("decisions")
    except (BadInput, Retry):
        return known
    return tuple(sorted(rows, key=lambda row: (row["time"], row["operator"])))


def read_state(folder: Path) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads((folder / "at.json").read_text())
    except FileNotFoundError:
        return {"at": "starting the driver"}
    return told


HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Moment:
    """One operator in one slot."""

    operator: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Scene:
    """Slots of `slot_s` seconds of operators, in the order of time; `began` is when the replay did."""

    operators: tuple[str, ...]
    node_types: tuple[str, ...]
    slot_s: float
    began: float
    moments: tuple[Moment, ...]

    def of(self, operator: str) -> list[Decision]:
        return [moment.decision for moment in self.moments if moment.operator == operator]

    @property
    def cost(self) -> float:
        """What the replicas of all slots cost, in the prices' money; of slots whose price nobody knows, as the last."""
        return sum(self.cost_of(operator) for operator in self.operators)

    def cost_of(self, operator: str) -> float:
        total = price = 0.0
        for decision in self.of(operator):
            price = price if decision.price is None else decision.price
            total += price * self.slot_s / HOUR_S
        return total

    def late_share(self, operator: str) -> float | None:
        known = [decision.late for decision in self.of(operator) if decision.late is not None]
        return sum(known) / len(known) if known else None

    @property
    def changes(self) -> int:
        return sum(moment.decision.kind == SCALED for moment in self.moments)

    @property
    def changed_share(self) -> float:
        """Share of slots in which any operator was reconfigured."""
        changed = {moment.decision.time for moment in self.moments if moment.decision.kind == SCALED}
        return len(changed) * self.slot_s / self.seconds if self.moments else 0.0

    @property
    def seconds(self) -> float:
        times = {moment.decision.time for moment in self.moments}
        return len(times) * self.slot_s

    def static_cost(self, static: Mapping[str, int], price: float) -> float:
        """Of so many replicas of this price, had they been there in all slots."""
        slots = sum(len(self.of(operator)) * count for operator, count in static.items())
        return slots * price * self.slot_s / HOUR_S


def read_scene(progress: Progress) -> Scene | None:
    """None until the replay begins.

    It has the slots that end after the replay began and begin before it ended; of two decisions of one slot the later.
    """
    if progress.began is None:
        return None
    until = math.inf if progress.until is None else progress.until
    found: dict[tuple[float, str], Moment] = {}
    moments = (Moment(str(row["operator"]), parse_decision(row)) for row in progress.decisions)
    for moment in sorted(moments, key=lambda moment: moment.decision.time):
        time = moment.decision.time
        if moment.operator in OPERATORS and time + SLOT_S > progress.began and time < until:
            found[time, moment.operator] = moment
    types = sorted({name for row in progress.decisions for name in row.get("seen", {}).get("deployment", {})})
    return Scene(OPERATORS, tuple(types), SLOT_S, progress.began, tuple(found.values()))
