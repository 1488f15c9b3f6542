"""Restoration drills under real agents: a real service, killed before every other one, links that report and obey."""

from __future__ import annotations

import random
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from scaler.link import Link, LinkSettings
from tests.link.manager import until
from tests.service.conftest import BOUNDS, SHOP, WEIGHTS
from tests.service.serve_process import ServeProcess, add_secret, start_service
from tuner.store.backup import back_up
from tuner.store.connection import Store
from tuner.store.decisions import list_decisions
from tuner.store.maintenance import check_store
from tuner.store.objectives import list_objectives
from tuner.store.orders import load_orders
from tuner.store.restore import restore

APP = "/v1/applications/shop"
DRILLS = 20
SLOT_S = 60.0  # of the application


@dataclass(slots=True)
class Heard:
    """What the service said, ever, to anybody."""

    reports: set[float] = field(default_factory=set)  # acknowledged
    gone: int = 0  # reports that were acknowledged after a copy, or while it was restored
    restored: int = 0
    versions: dict[int, float] = field(default_factory=dict)  # bound by which each version can be told
    orders: dict[int, Any] = field(default_factory=dict)  # by revision
    twice: list[str] = field(default_factory=list)
    numbers: count[int] = field(default_factory=lambda: count(1))
    turn: threading.Lock = field(default_factory=threading.Lock)

    def hear(self, known: dict[int, Any], number: int, said: Any) -> None:
        with self.turn:
            if known.setdefault(number, said) != said:
                self.twice.append(f"{number} was {known[number]} and is {said}")


@pytest.mark.long
@pytest.mark.slow
def test_twenty_restorations_under_running_agents(
    store: Store, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, heard, over = random.Random(7), Heard(), threading.Event()
    secret = add_secret(store)
    served = start_service(address)
    with httpx.Client(base_url=served.url, headers={"Authorization": f"Bearer {secret}"}, timeout=60.0) as client:
        client.put(APP, json={"document": SHOP}).raise_for_status()
        links = [make_link(served.url, secret, tmp_path / f"link{i}", name) for i, name in enumerate(BOUNDS)]
        works = [
            *(threading.Thread(target=obey, args=(link, heard, over)) for link in links),
            *(threading.Thread(target=again, args=(over, work, client, heard)) for work in (report, report, push)),
        ]
        for thread in works:
            thread.start()
        try:
            reconciled = []
            for drill in range(DRILLS):
                served, seconds = run_drill(drill, served, store, address, links, heard, rng, tmp_path)
                reconciled.append(seconds)
        finally:
            over.set()
            for thread in works:
                thread.join(60.0)
            for link in links:
                link.stop()
            served.kill()
    with store.read() as session:
        known = {one.version for one in list_objectives(session, "shop")}
    assert heard.twice == []
    assert known <= heard.versions.keys() | {None}
    assert all(link.status().refused == link.status().dropped == 0 for link in links)
    assert max(reconciled) < 2 * SLOT_S
    with capsys.disabled():
        print(
            f"\n{DRILLS} restorations: of {len(heard.reports) + heard.gone} reports all {len(heard.reports)} "
            f"acknowledged before a copy are there; {len(heard.versions)} versions and {len(heard.orders)} revisions, "
            f"none twice; agents obeyed after {sorted(reconciled)[DRILLS // 2]:.1f} s, {max(reconciled):.1f} s at most"
        )


def make_link(url: str, secret: str, folder: Path, operator: str) -> Link:
    link = Link(url, "shop", [operator], secret, folder, f"driver of {operator}", LinkSettings(wait_s=5.0))
    link.start()
    return link


def obey(link: Link, heard: Heard, over: threading.Event) -> None:
    """An agent: it notes what it is told, and reports under it."""
    for number in count(1):
        orders = link.orders()
        if orders is not None:
            heard.hear(heard.orders, orders.revision, orders.to_json())
            if orders.objective is not None:
                heard.hear(heard.versions, orders.objective.version, orders.objective.bounds["parse"])
            version = None if orders.objective is None else orders.objective.version
            decision = {"time": 60.0 * number, "kind": "HELD", "reason": "r", "objective_version": version}
            link.report(link.state.operators[0], [decision])
        if over.wait(0.1):
            return


def again(over: threading.Event, work: Any, client: httpx.Client, heard: Heard) -> None:
    while not over.is_set():
        with suppress(httpx.HTTPError):  # killed, or busy
            work(client, heard)
        over.wait(0.02)


def report(client: httpx.Client, heard: Heard) -> None:
    moment = float(next(heard.numbers))
    body = {"instance": "i", "operator": "count", "decisions": [{"time": moment, "kind": "HELD", "reason": "r"}]}
    before = heard.restored
    client.post(f"{APP}/reports", json=body).raise_for_status()
    with heard.turn:
        if heard.restored == before:
            heard.reports.add(moment)
        else:  # it may have been committed before the restoration, and its answer read after it
            heard.gone += 1


def push(client: httpx.Client, heard: Heard) -> None:
    bound = float(next(heard.numbers))
    body = {"weights": WEIGHTS, "bounds": {**BOUNDS, "parse": bound}}
    made = client.post(f"{APP}/objectives", json=body).raise_for_status().json()
    heard.hear(heard.versions, made["version"], bound)
    client.post(f"{APP}/objectives/{made['version']}/push", json={"stage": "full", "why": "a drill"}).raise_for_status()


def run_drill(
    drill: int, served: ServeProcess, store: Store, address: str, links: list[Link], heard: Heard,
    rng: random.Random, folder: Path,
) -> tuple[ServeProcess, float]:  # fmt: skip
    """Copy, go on, restore: the service lives, or is killed before and its file damaged; seconds until agents obey."""
    time.sleep(rng.uniform(0.2, 1.0))
    with heard.turn:
        copy, acknowledged = folder / "copy.db", set(heard.reports)
    back_up(store, copy, time.time())
    time.sleep(rng.uniform(0.2, 1.0))
    if drill % 2:
        served.kill()
        if store.address.path is not None and drill % 4 == 3:  # what the attack did: the log of before stays
            shutil.copy(copy, store.address.path)
        restore(copy, store.address, "a drill", time.time())
        restored = time.monotonic()
        served = start_service(address, "--port", str(served.port))
    else:
        restore(copy, store.address, "a drill", time.time())
        restored = time.monotonic()
    with heard.turn:
        heard.restored += 1
        answered = set(heard.reports)
    with store.read() as session:
        found = {one.time for one in list_decisions(session, "shop", ["count"], limit=None)}
        orders = load_orders(session, "shop")
    assert acknowledged <= found
    heard.reports -= answered - found  # after the copy: these are gone
    heard.gone += len(answered - found)
    assert orders is not None
    least = orders.revision
    until(lambda: all((link.status().revision or 0) >= least for link in links))
    assert check_store(store) == []
    return served, time.monotonic() - restored
