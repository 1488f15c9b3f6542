"""kill -9 of a real `tuner serve` at random moments loses nothing acknowledged and leaves nothing half done."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.conftest import BOUNDS, SHOP, WEIGHTS
from tests.service.serve_process import ServeProcess, add_secret, service, start_service
from tuner.store.audit_log import list_events
from tuner.store.connection import Store
from tuner.store.decisions import list_decisions
from tuner.store.objectives import list_objectives
from tuner.store.orders import load_orders

SCALERS = 4
LONGEST = 1.0  # seconds of work before a kill
APP = "/v1/applications/shop"


@dataclass(slots=True)
class Told:
    """What the service acknowledged, ever."""

    reports: set[tuple[str, float]] = field(default_factory=set)
    versions: list[int] = field(default_factory=list)
    pushed: list[int] = field(default_factory=list)
    revisions: list[int] = field(default_factory=list)


@pytest.mark.long
@pytest.mark.slow
def test_twenty_kills_lose_nothing(store: Store, address: str) -> None:
    """Ten on each database."""
    kill_often(store, address, 10)


def test_kills_lose_nothing(store: Store, address: str) -> None:
    kill_often(store, address, 3)


def kill_often(store: Store, address: str, kills: int) -> None:
    rng, told, numbers = random.Random(kills), Told(), count(1)
    headers = {"Authorization": f"Bearer {add_secret(store)}"}
    for _ in range(kills):
        served = start_service(address)
        try:
            work_until_killed(served, headers, rng.uniform(0.05, LONGEST), told, numbers)
        finally:
            served.kill()
        check(store, told)
    assert len(told.reports) > kills
    assert told.versions


def work_until_killed(
    served: ServeProcess, headers: dict[str, str], seconds: float, told: Told, numbers: count[int]
) -> None:
    """Reports and pushes without a pause; the clock starts when all are at work."""
    with httpx.Client(base_url=served.url, headers=headers, timeout=60.0) as client:
        if not told.reports:
            client.put(APP, json={"document": SHOP}).raise_for_status()
        busy = threading.Barrier(SCALERS + 2)
        works: list[Callable[[], None]] = [
            *(lambda operator=f"op{i}": report(client, operator, told, numbers) for i in range(SCALERS)),  # type: ignore[misc]
            lambda: push(client, told),
        ]
        threads = [threading.Thread(target=until_gone, args=(work, busy)) for work in works]
        for thread in threads:
            thread.start()
        busy.wait(60.0)
        time.sleep(seconds)
        served.process.kill()
        for thread in threads:
            thread.join(60.0)
            assert not thread.is_alive()


def until_gone(work: Callable[[], None], busy: threading.Barrier) -> None:
    busy.wait(60.0)
    try:
        while True:
            work()
    except httpx.TransportError:  # killed
        return


def report(client: httpx.Client, operator: str, told: Told, numbers: count[int]) -> None:
    moment = float(next(numbers))
    decision: dict[str, Any] = {"time": moment, "kind": "HELD", "reason": "r"}
    body = {"instance": "i", "operator": operator, "decisions": [decision]}
    client.post(f"{APP}/reports", json=body).raise_for_status()
    told.reports.add((operator, moment))


def push(client: httpx.Client, told: Told) -> None:
    made = client.post(f"{APP}/objectives", json={"weights": WEIGHTS, "bounds": BOUNDS}).raise_for_status()
    version = made.json()["version"]
    told.versions.append(version)
    client.post(f"{APP}/objectives/{version}/push", json={"stage": "full", "why": "a test"}).raise_for_status()
    told.pushed.append(version)
    orders = client.get(f"{APP}/orders").raise_for_status().json()
    assert orders["objective"]["version"] == version  # one's own change is seen at once
    told.revisions.append(orders["revision"])


def check(store: Store, told: Told) -> None:
    with store.read() as session:
        decided = {(one.operator, one.time) for one in list_decisions(session, "shop", limit=None)}
        objectives = list_objectives(session, "shop")
        events = list_events(session, "shop", ["pushed"], limit=None)
        orders = load_orders(session, "shop")
    assert told.reports <= decided
    known = {one.version: one.state for one in objectives}
    assert len(told.versions) == len(set(told.versions))
    assert set(told.versions) <= known.keys()
    assert sorted(known, key=lambda version: version or 0) == list(range(1, len(known) + 1))
    assert told.revisions == sorted(set(told.revisions))
    # an objective, the event that says why, and the orders that tell it are pushed together or not at all
    full = [version for version, state in known.items() if state == "full"]
    pushed = {event.detail["version"] for event in events}
    assert set(told.pushed) <= pushed == {version for version, state in known.items() if state in ("full", "retired")}
    if pushed:
        assert orders is not None
        assert [orders.document["objective"]["version"]] == full == [max(pushed)]


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_a_database_that_was_away_for_a_while_is_gone_on_with(store: Store, address: str, tmp_path: Path) -> None:
    headers = {"Authorization": f"Bearer {add_secret(store)}"}
    path = Path(address)
    store.close()
    with service(address) as served, httpx.Client(base_url=served.url, headers=headers, timeout=60.0) as client:
        assert client.put("/v1/applications/shop", json={"document": SHOP}).status_code == 200
        path.rename(tmp_path / "aside.db")
        statuses = {client.get(f"/v1/applications/{name}").status_code for name in ("shop", "till") for _ in range(20)}
        assert 500 not in statuses
        assert not path.exists()
        (tmp_path / "aside.db").rename(path)
        answer = client.get("/v1/applications/shop")
        assert (answer.status_code, answer.json()["number"]) == (200, 1)
