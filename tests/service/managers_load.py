"""Load on managers behind one address: real links, reports and pushes without a pause, and what must hold after it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from scaler.link import Link, LinkSettings
from tests.link.manager import until
from tests.service.conftest import BOUNDS, WEIGHTS
from tuner.store.audit_log import check_chain, list_events
from tuner.store.connection import Store
from tuner.store.decisions import list_decisions
from tuner.store.maintenance import check_store
from tuner.store.objectives import list_objectives

APP = "/v1/applications/shop"
REPORTERS = 3


@dataclass(slots=True)
class Record:
    """What the managers said, ever, to anybody."""

    reports: set[float] = field(default_factory=set)  # acknowledged
    versions: dict[int, float] = field(default_factory=dict)  # bound by which each version can be told
    pushed: list[int] = field(default_factory=list)
    orders: dict[int, Any] = field(default_factory=dict)  # by revision
    wrong: list[str] = field(default_factory=list)
    given: dict[str, int] = field(default_factory=dict)  # rows handed to each link
    busy: int = 0  # requests that were asked to come again
    numbers: count[int] = field(default_factory=lambda: count(1))
    turn: threading.Lock = field(default_factory=threading.Lock)

    def note(self, known: dict[int, Any], number: int, said: Any) -> None:
        with self.turn:
            if known.setdefault(number, said) != said:
                self.wrong.append(f"{number} was {known[number]} and is {said}")


def make_link(url: str, secret: str, folder: Path, operator: str) -> Link:
    link = Link(url, "shop", [operator], secret, folder, f"driver of {operator}", LinkSettings(wait_s=5.0))
    link.start()
    return link


@contextmanager
def working(url: str, secret: str, folder: Path, record: Record) -> Iterator[list[Link]]:
    """Agents' links and clients at work while the block runs; then all that was handed to the links is sent."""
    over, headers = threading.Event(), {"Authorization": f"Bearer {secret}"}
    links = [make_link(url, secret, folder / f"link of {name}", name) for name in BOUNDS]
    with httpx.Client(base_url=url, headers=headers, timeout=60.0) as client:
        works: list[Callable[[], None]] = [
            *(lambda link=link: obey(link, record, over) for link in links),  # type: ignore[misc]
            *[lambda: repeat(over, record, lambda: report(client, record))] * REPORTERS,
            lambda: repeat(over, record, lambda: push(client, record)),
        ]
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        try:
            until(lambda: bool(record.pushed) and all(link.orders() for link in links))
            yield links
        finally:
            over.set()
            for thread in threads:
                thread.join(60.0)
    try:
        assert not any(thread.is_alive() for thread in threads)
        until(lambda: all(link.status().waiting == 0 for link in links))
    finally:
        for link in links:
            link.stop()


def wait_for_news(links: Sequence[Link], record: Record) -> None:
    """Until all agents have orders that nobody had before."""
    with record.turn:
        newest = max(record.orders)
    until(lambda: all((link.status().revision or 0) > newest for link in links))


def obey(link: Link, record: Record, over: threading.Event) -> None:
    """An agent: it notes what it is told, and reports under it."""
    revision, operator = 0, link.state.operators[0]
    for number in count(1):
        orders = link.orders()
        if orders is not None:
            if orders.revision < revision:
                record.wrong.append(f"{operator} was sent back from {revision} to {orders.revision}")
            revision = orders.revision
            record.note(record.orders, revision, orders.to_json())
            if orders.objective is not None:
                record.note(record.versions, orders.objective.version, orders.objective.bounds["parse"])
        link.report(operator, [{"time": 60.0 * number, "kind": "HELD", "reason": "r"}])
        record.given[operator] = number
        if over.wait(0.05):
            return


def repeat(over: threading.Event, record: Record, work: Callable[[], None]) -> None:
    while not over.is_set():
        try:
            with suppress(httpx.TransportError):  # killed, or between two managers
                work()
        except httpx.HTTPStatusError as error:
            if error.response.status_code != 503:
                raise
            record.busy += 1
        over.wait(0.01)


def report(client: httpx.Client, record: Record) -> None:
    moment = float(next(record.numbers))
    body = {"instance": "i", "operator": "other", "decisions": [{"time": moment, "kind": "HELD", "reason": "r"}]}
    client.post(f"{APP}/reports", json=body).raise_for_status()
    with record.turn:
        record.reports.add(moment)


def push(client: httpx.Client, record: Record) -> None:
    """Propose and push, each by whichever manager the connection leads to; then fetch the orders again."""
    bound = float(next(record.numbers))
    body = {"weights": WEIGHTS, "bounds": {**BOUNDS, "parse": bound}}
    version = client.post(f"{APP}/objectives", json=body).raise_for_status().json()["version"]
    record.note(record.versions, version, bound)
    client.post(f"{APP}/objectives/{version}/push", json={"stage": "full", "why": "a test"}).raise_for_status()
    with record.turn:
        record.pushed.append(version)
    orders = client.get(f"{APP}/orders", headers={"Connection": "close"}).raise_for_status().json()
    if orders["objective"]["version"] < version:  # one's own change is seen at once, whichever manager is asked
        record.wrong.append(f"{version} was pushed, and the orders had {orders['objective']['version']} still")


def check_acknowledged(store: Store, record: Record) -> None:
    with record.turn:
        acknowledged, versions = set(record.reports), set(record.versions)
    with store.read() as session:
        assert acknowledged <= {one.time for one in list_decisions(session, "shop", ["other"], limit=None)}
        assert versions <= {one.version for one in list_objectives(session, "shop")}


def check_all(store: Store, links: Sequence[Link], record: Record) -> None:
    assert not record.wrong, record.wrong[:3]
    check_acknowledged(store, record)
    assert all(link.status().refused == link.status().dropped == 0 for link in links)
    with store.read() as session:
        for operator, number in record.given.items():
            assert len(list_decisions(session, "shop", [operator], limit=None)) == number
        objectives = list_objectives(session, "shop")
        events = list_events(session, "shop", limit=None)
    known = sorted(one.version or 0 for one in objectives)
    assert known == list(range(1, len(known) + 1))
    assert Counter(one.state for one in objectives)["full"] == 1
    pushes = Counter((one.detail["version"], one.detail["stage"]) for one in events if one.what == "pushed")
    assert set(record.pushed) <= {version for version, _ in pushes}
    assert set(pushes.values()) == {1}
    assert Counter(one.what for one in events)["paused"] == 1  # one manager's daemon applied the request
    with store.read() as session:
        chained = check_chain(session)
    assert chained.fault is None
    assert chained.unsealed == 0
    assert chained.rows >= len(events)
    assert check_store(store) == []
