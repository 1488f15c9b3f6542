"""Thousands of requests, with and without faults of the database: no 5xx but 503, bounded memory, nothing lost.

The small campaign runs in the suite; tests/bench/bench_fuzz.py runs the one of 20,000 requests by the same functions.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.service.conftest import BOUNDS, SHOP, WEIGHTS
from tests.service.fuzzing import (
    THREADS,
    TIMEOUT,
    Asked,
    Campaign,
    list_api_requests,
    list_heavy_requests,
    list_page_requests,
    read_memory,
    reporting,
    send_all,
)
from tests.service.injected_faults import (
    Fault,
    drop_role,
    injecting,
    list_file_faults,
    list_server_faults,
    make_role,
)
from tests.service.serve_process import ServeProcess, add_secret, service
from tests.store.conftest import POSTGRES, make_database
from tuner.service.access.page_session import make_csrf
from tuner.store.connection import Store, open_store
from tuner.store.objectives import list_objectives

MAX_MEMORY = 450.0  # MiB that the service may have at most, whatever is sent to it; the daemon is another matter
LIMITS = ("--rate", "1000000", "--report-rate", "1000000", "--no-retention")  # pruned is not lost
BEGIN = 1_500_000_000.0  # of a steady agent; each piece has a thousand slots and more of its own


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a piece of the campaign came to."""

    campaign: Campaign
    faults: list[str]
    memory: tuple[float, float]  # MiB: at its end, and the most
    lost: set[object]
    traces: list[str]  # in the service's log, their ends


def run_piece(
    address: str,
    number: int,
    count: int,
    faults: bool,
    server: str = "",
    heavy: int = 24,
    watched: str = "",
    threads: int = THREADS,
) -> Outcome:
    """So many requests to a service of its own, of which every fifth is for pages, and some are heavy."""
    campaign, done = Campaign(), list[str]()
    with closing(open_store(address)) as store, ExitStack() as stack:
        secret = add_secret(store, f"fuzz {number}")
        served = stack.enter_context(service(address, *LIMITS))
        cookie = set_up(served, secret)
        document = httpx.get(f"{served.url}/v1/openapi.json", headers=bearer(secret)).json()
        requests = [*list_api_requests(document, number, count * 4 // 5), *list_page_requests(number, count // 5)]
        requests += list_heavy_requests(number, heavy)
        random.Random(number).shuffle(requests)
        stack.enter_context(reporting(campaign, served.url, secret, BEGIN + 1e6 * number))
        with ExitStack() as trouble:
            if faults:
                known = list_faults(address, served, server, watched)
                trouble.enter_context(injecting(known, number, done))
            send_all(campaign, served.url, secret, cookie, make_csrf(cookie), requests, threads)
        check_recovered(campaign, served, secret)
        memory = read_memory(served.process.pid)
        stack.close()
        return Outcome(campaign, done, memory, find_lost(store, campaign), list_traces(served))


def list_faults(address: str, served: ServeProcess, server: str, watched: str) -> dict[str, Fault]:
    if server:
        return dict(list_server_faults(server, watched))
    return dict(list_file_faults(Path(address), served.process.pid))


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def set_up(served: ServeProcess, secret: str) -> str:
    """An application with an objective, and the cookie of a person."""
    with httpx.Client(base_url=served.url, headers=bearer(secret), timeout=TIMEOUT) as client:
        app = "/v1/applications/shop"
        assert client.put(app, json={"document": SHOP}).status_code == 200
        assert client.post(f"{app}/objectives", json={"weights": WEIGHTS, "bounds": BOUNDS}).status_code == 201
        client.post(f"{app}/objectives/1/push", json={"stage": "full", "why": "to begin with"})
        entered = client.post("/login", data={"token": secret}, headers={"Origin": served.url})
        assert entered.status_code == 303, entered.text
        return str(entered.cookies["tuner"])


def check_recovered(campaign: Campaign, served: ServeProcess, secret: str) -> None:
    """The faults are over: it is ready, and takes what it refused."""
    until = time.monotonic() + TIMEOUT
    with httpx.Client(base_url=served.url, headers=bearer(secret), timeout=TIMEOUT) as client:
        while (answer := client.get("/readyz")).status_code != 200:
            assert time.monotonic() < until, answer.text
            time.sleep(0.2)
        body = {"instance": "last", "operator": "last", "decisions": [{"time": BEGIN, "kind": "HELD", "reason": "r"}]}
        asked = Asked("POST", "/v1/applications/shop/reports", given={"json": body})
        campaign.judge(asked, answer := client.post(asked.url, json=body))
        assert answer.status_code == 200, answer.text


def list_traces(served: ServeProcess) -> list[str]:
    return [json.loads(line).get("trace", line)[-1500:] for line in served.told if "Traceback" in line]


def find_lost(store: Store, campaign: Campaign) -> set[object]:
    """Of what was acknowledged, what the database has not."""
    from sqlalchemy import select

    from tuner.store.tables import DECISIONS, SAMPLES

    with store.read() as session:
        d, s = DECISIONS.c, SAMPLES.c
        found = {("decision", *row) for row in session.execute(select(d.application, d.operator, d.time))}
        found |= {("sample", *row) for row in session.execute(select(s.application, s.operator, s.start))}
        versions = {(app, one.version) for app in {app for app, _ in campaign.objectives}
                    for one in list_objectives(session, app)}  # fmt: skip
    return (campaign.acknowledged - found) | (campaign.objectives - versions)


def check(outcome: Outcome) -> None:
    campaign = outcome.campaign
    assert outcome.traces == []
    assert campaign.wrong == []
    assert outcome.lost == set()
    assert outcome.memory[1] <= MAX_MEMORY
    assert campaign.statuses[200] > 0
    assert len(campaign.acknowledged) > 10


@pytest.mark.slow
@pytest.mark.parametrize("faults", [False, True], ids=["whole", "faulty"])
def test_a_small_campaign_on_a_file(tmp_path: Path, faults: bool) -> None:
    outcome = run_piece(str(tmp_path / "tuner.db"), 1, 400, faults)
    check(outcome)
    assert bool(outcome.faults) == faults


@pytest.fixture
def role(postgres: str) -> Iterator[tuple[str, str]]:
    """A database's own address, and that of a user of it."""
    database = make_database(postgres)
    yield database, make_role(postgres, database)
    drop_role(postgres)


@POSTGRES
@pytest.mark.slow
def test_a_small_campaign_on_a_server(postgres: str, role: tuple[str, str]) -> None:
    outcome = run_piece(role[1], 2, 400, True, postgres, watched=role[0])
    check(outcome)
    assert outcome.faults
