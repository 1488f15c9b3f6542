"""The scaler's own link against the real service: what it reports is kept, what is pushed reaches it and is noted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from scaler.agent.decider import Decider
from scaler.link import Link, LinkSettings
from scaler.model.nodes import Deployment, NodeType
from scaler.model.policy import Observation
from tests.commands import refuse, succeed
from tests.service.conftest import BOUNDS, WEIGHTS
from tests.service.serve_process import add_secret
from tuner.service.access.callers import Caller
from tuner.service.access.envelope import wrap
from tuner.service.access.token import make_token
from tuner.service.app import make_app
from tuner.service.page.overview_page import list_expiry
from tuner.store.connection import Store
from tuner.store.decisions import list_decisions
from tuner.store.orders import list_scalers
from tuner.store.retention import DAY_S
from tuner.store.samples import load_samples
from tuner.store.tokens import list_tokens, revoke_token


@pytest.fixture
def app(store: Store) -> FastAPI:
    """In the envelope that `tuner serve` puts around it."""
    made = make_app(store)
    made.add_middleware(wrap)
    return made


def wait_for(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < limit, "it did not come to pass within 30 s"
        time.sleep(0.01)


def test_a_pilot_is_told_decides_and_is_heard(shop: httpx.Client, store: Store, url: str, tmp_path: Path) -> None:
    token = add_secret(store, "driver", ("report",))
    link = Link(url, "shop", ["parse", "count"], token, tmp_path, "driver-1", settings=LinkSettings(wait_s=5.0))
    link.start()
    try:
        made = shop.post("/v1/applications/shop/objectives", json={"weights": WEIGHTS, "bounds": BOUNDS, "why": "x"})
        assert made.status_code == 201, made.text
        pushed = shop.post("/v1/applications/shop/objectives/1/push", json={"stage": "full", "why": "to begin"})
        assert pushed.status_code == 200, pushed.text
        wait_for(lambda: link.orders() is not None)
        pilot = Decider("parse", [NodeType("small", 1.0, 1.0)])
        seen = Observation(60.0, 190.0, 0.95, math.inf, Deployment((1,)))
        step = pilot.step(seen, link.orders(), 120.0)
        pilot.actuated(step, step.change)
        decision = step.decision
        sample = {"start": 60.0, "end": 120.0, "evidence": "progress", "arrived": 11_400.0, "completeness": 1.0}
        link.report("parse", [decision.to_json()], [sample])
        wait_for(lambda: link.status().sent == 2)
    finally:
        link.stop()
    with store.read() as session:
        (kept,) = list_decisions(session, "shop")
        assert (kept.operator, kept.kind, kept.action) == ("parse", decision.kind, decision.action)
        assert (kept.rate, kept.response, kept.seen["deployment"]) == (190.0, math.inf, {"small": 1})
        assert kept.objective_version == 1
        assert kept.reason == decision.reason
        assert [(s.operator, s.arrived) for s in load_samples(session, "shop")] == [("parse", 11_400.0)]
        known = {scaler.operator: scaler for scaler in list_scalers(session, "shop")}
    assert {name: one.revision for name, one in known.items()} == {"parse": 1, "count": 1}
    assert link.status().fault == ""


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_token_rotates_under_a_running_link(
    shop: httpx.Client, store: Store, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Told before it expires, rotated into its file, and the secret before ended: nothing is refused on the way."""
    file, now = tmp_path / "driver.token", time.time()
    with store.begin() as session:
        before, secret = make_token(session, "driver", ("report",), "a test", now, now + 9 * DAY_S, ["shop"])
    file.write_text(secret)
    link = Link(url, "shop", ["parse"], file, tmp_path / "link", "driver-1", settings=LinkSettings(wait_s=0.2))
    link.start()
    try:
        send(link, 60.0, 1)
        assert link.status().token_expires == pytest.approx(now + 9 * DAY_S, abs=1.0)
        wait_for(lambda: is_noted(store))
        assert 'tuner_token_left_seconds{token="driver"}' in shop.get("/metrics").text
        [scaler] = shop.get("/v1/applications/shop/scalers").json()["items"]
        assert scaler["detail"] == {"token": "driver", "token_expires": before.expires}
        told = succeed("live", "status", "shop", "--store", store.address.path)
        assert "the token 'driver' expires at" in told
        with store.read() as session:
            [shown] = list_expiry(session, Caller("ann", frozenset(), 0, frozenset(["shop"])), now)
            assert list_expiry(session, Caller("ann", frozenset(), 0, frozenset(["bank"])), now) == []
        assert shown.endswith("make its next secret with: tuner token rotate driver")
        rotated = succeed("token", "rotate", "driver", "--file", file, "--grace", "1h", "--store", store.address.path)
        assert rotated == f"The next secret of driver is in {file}; the one before works for 1h still.\n"
        assert file.stat().st_mode & 0o777 == 0o600
        send(link, 120.0, 2)
        with store.begin() as session:
            [replaced] = [one.name for one in list_tokens(session) if one.name.startswith("driver until")]
            revoke_token(session, replaced, time.time())
        time.sleep(1.1)  # that an answer of the database is believed
        send(link, 180.0, 3)
        [scaler] = shop.get("/v1/applications/shop/scalers").json()["items"]
        assert scaler["detail"]["token"] == "driver"
        assert "does not let this token" not in caplog.text
    finally:
        link.stop()
    assert (link.status().dropped, link.status().refused) == (0, 0)
    assert "was replaced already" in refuse("token", "rotate", replaced, "--store", store.address.path)


def is_noted(store: Store) -> bool:
    """Whether the database knows that the token is in use, which is written after the answer."""
    with store.read() as session:
        return any(one.name == "driver" and one.used is not None for one in list_tokens(session))


def send(link: Link, moment: float, count: int) -> None:
    link.report("parse", [{"time": moment, "kind": "NO_CHANGE", "reason": "it is quiet"}])
    wait_for(lambda: link.status().sent == count)
