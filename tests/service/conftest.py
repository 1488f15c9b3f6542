"""Databases as the store's tests have them; the whole service on one, heard over real HTTP, and clients with tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest
from fastapi import FastAPI

from tests.service.browsed import Site, browsing
from tests.service.http_server import running
from tests.service.serve_process import add_secret
from tests.service.showcase import furnish
from tests.store.conftest import address, postgres, server_store, store
from tuner.service.access.gate import RateLimits
from tuner.service.app import make_app, release_agents
from tuner.service.exchange.services import Settings
from tuner.store.connection import Store

__all__ = ["address", "postgres", "server_store", "store"]
Ask = Callable[..., httpx.Response]
SHOP = {
    "application": {
        "operator": [
            {"name": "parse", "service_rate": 200.0, "scv": 0.5, "k_max": 4},
            {"name": "count", "service_rate": 300.0, "scv": 0.5, "k_max": 4},
        ],
        "edge": [{"from": "parse", "to": "count"}],
    },
    "infrastructure": {"node": [{"name": "small", "speedup": 1.0, "price": 1.0}]},
    "trace": {"generator": "diurnal", "low": 50.0, "high": 400.0, "slots": 200},
    "policy": {"name": "planner"},
}
BOUNDS = {"parse": 0.05, "count": 0.05}
WEIGHTS = {"perf": 0.6, "rcf": 0.2, "res": 0.2}


@pytest.fixture
def app(store: Store) -> FastAPI:
    return make_app(store, Settings(limits=RateLimits(rate=1e6)))


@pytest.fixture
def url(app: FastAPI) -> Iterator[str]:
    with running(app, on_stop=lambda: release_agents(app)) as heard:
        yield heard


@pytest.fixture
def client(url: str, store: Store) -> Iterator[httpx.Client]:
    """With a token of all scopes."""
    headers = {"Authorization": f"Bearer {add_secret(store, 'ann')}"}
    with httpx.Client(base_url=url, headers=headers, timeout=60.0) as opened:
        yield opened


@pytest.fixture
def changed(store: Store) -> Iterator[Site]:
    """The page over a story, on each database, for tests that change something."""
    furnish(store, 400)
    with browsing(store) as found:
        yield found


@pytest.fixture
def shop(client: httpx.Client) -> httpx.Client:
    """A client of a service that knows an application `shop`."""
    assert client.put("/v1/applications/shop", json={"document": SHOP}).status_code == 200
    return client


def sentence(answer: httpx.Response, status: int) -> str:
    """What a refusal says; that it is a problem of this status."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == "about:blank"
    assert problem["status"] == status
    assert problem["title"]
    assert "\n" not in problem["detail"]
    return str(problem["detail"])
