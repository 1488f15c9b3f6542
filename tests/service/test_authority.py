"""Whose word counts: decisions belong to who wrote them, and only known agents' slots are evidence."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from tests.commands import succeed
from tests.service.conftest import BOUNDS, WEIGHTS
from tests.service.serve_process import add_secret
from tuner.rollout.retuning_settings import RetuningSettings
from tuner.rollout.stage_checks import BROKEN, PASSED, WAITS, check_stage
from tuner.service.access.page_session import open_session
from tuner.store.connection import Store
from tuner.store.decisions import list_decisions
from tuner.store.objectives import load_objective, move_objective
from tuner.store.orders import save_scalers
from tuner.store.records import Scaler

SLOT_S, SLOTS = 60.0, 400


def report(client: httpx.Client, instance: str, operator: str, decisions: list[dict[str, Any]]) -> httpx.Response:
    body = {"instance": instance, "operator": operator, "decisions": decisions}
    return client.post("/v1/applications/shop/reports", json=body)


def test_second_writer_changes_nothing_and_leaves_an_event(shop: httpx.Client) -> None:
    start = float(int(time.time()) - 600)
    honest = {"time": start, "kind": "SCALED", "reason": "honest: the rate rises"}
    forged = {"time": start, "kind": "HELD", "reason": "forged: nothing ever happened"}
    assert report(shop, "driver-1", "parse", [honest]).status_code == 200
    for _ in range(3):
        assert report(shop, "forger", "parse", [forged]).status_code == 200
    assert report(shop, "driver-2", "parse", [honest]).status_code == 200  # what driver-1 had left to send
    [stands] = shop.get("/v1/applications/shop/decisions").json()["items"]
    assert (stands["kind"], stands["reason"], stands["instance"]) == ("SCALED", "honest: the rate rises", "driver-1")
    [event] = shop.get("/v1/applications/shop/events", params={"what": "decision refused"}).json()["items"]
    assert event["who"] == "ann"
    assert event["message"].startswith("forger sent another decision of parse than driver-1 had written")
    assert event["detail"] == {"operator": "parse", "instance": "forger", "stands": "driver-1", "time": start}


def test_an_agent_corrects_its_decision_and_both_reports_are_told(shop: httpx.Client, store: Store) -> None:
    start = float(int(time.time()) - 600)
    first = {"time": start, "kind": "SCALED", "reason": "the rate rises", "proposed": {"small": 1}}
    newer = {"time": start, "kind": "ACTUATION_FAILED", "reason": "no worker was free", "proposed": {"small": 1}}
    for sent in (first, newer, first, newer):  # the answer to the first two may have been lost
        assert report(shop, "driver-1", "parse", [sent]).status_code == 200
    place = "/v1/applications/shop"
    [stands] = shop.get(f"{place}/decisions").json()["items"]
    assert (stands["kind"], stands["corrections"]) == ("ACTUATION_FAILED", 1)
    [earlier] = shop.get(f"{place}/corrections", params={"operator": "parse"}).json()["items"]
    assert (earlier["number"], earlier["who"], earlier["time"]) == (1, "ann", start)
    assert (earlier["document"]["kind"], earlier["document"]["reason"]) == ("SCALED", "the rate rises")
    [event] = shop.get(f"{place}/events", params={"what": "decision corrected"}).json()["items"]
    assert event["message"] == "driver-1 corrected a decision of parse: SCALED became ACTUATION_FAILED"
    told = " ".join(succeed("explain", "shop", "--operator", "parse", "--store", url_of(store)).split())
    assert "because no worker was free" in told
    assert "by ann; first reported as SCALED +1 small: the rate rises" in told
    cookie = {"Cookie": f"tuner={open_session(store, add_secret(store, 'bob', ('read',)), time.time())}"}
    page = httpx.get(str(shop.base_url.join("/applications/shop?tab=decisions")), headers=cookie)
    assert '<small class="faint">corrected</small>' in page.text


def url_of(store: Store) -> str:
    return store.address.url.render_as_string(hide_password=False)


class Stage:
    """An objective in full use for 400 slots, under which driver-1 is known."""

    def __init__(self, client: httpx.Client, store: Store) -> None:
        self.client, self.store, self.now = client, store, time.time()
        self.began = SLOT_S * (self.now // SLOT_S - SLOTS - 1)
        objective = {"weights": WEIGHTS, "bounds": BOUNDS}
        assert client.post("/v1/applications/shop/objectives", json=objective).status_code == 201
        with store.begin() as session:
            move_objective(session, "shop", 1, "proposed", "full", self.began)
        self.know("driver-1", 0.0)

    def know(self, instance: str, after: float) -> None:
        with self.store.begin() as session:
            known = [Scaler("shop", name, instance, self.began + after, self.now) for name in BOUNDS]
            save_scalers(session, known)

    def outcome(self, instance: str, shift: float, response: float) -> str:
        """Of the stage after the instance told of every slot, with this response time."""
        figures = {"objective_version": 1, "rate": 90.0, "response": response, "bound": 0.05, "price": 1.0}
        slots = [
            {"time": self.began + SLOT_S * i + shift, "kind": "NO_CHANGE", "reason": "x", **figures}
            for i in range(SLOTS)
        ]
        for operator in BOUNDS:
            assert report(self.client, instance, operator, slots).status_code == 200
        with self.store.read() as session:
            return check_stage(
                session, load_objective(session, "shop", 1), RetuningSettings(watch_slots=SLOTS // 2), self.now
            ).outcome


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_invented_slots_are_no_evidence(shop: httpx.Client, store: Store) -> None:
    """One request with 400 invented late slots had a full objective rolled back within 1.2 s."""
    stage = Stage(shop, store)
    assert stage.outcome("forger", 0.0, 9.0) == WAITS
    assert stage.outcome("driver-1", 1.0, 0.001) == PASSED
    stage.know("driver-2", 0.5)
    assert stage.outcome("driver-2", 2.0, 9.0) == PASSED  # as well known as the other, but not as long


def test_late_slots_of_a_known_agent_are_evidence(shop: httpx.Client, store: Store) -> None:
    assert Stage(shop, store).outcome("driver-1", 0.0, 9.0) == BROKEN


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_corrections_are_no_evidence(shop: httpx.Client, store: Store) -> None:
    """The name of an agent is no secret, so whoever has a token could rewrite 400 slots of the past."""
    stage = Stage(shop, store)
    assert stage.outcome("driver-1", 0.0, 0.001) == PASSED
    assert stage.outcome("driver-1", 0.0, 9.0) == PASSED
    with store.read() as session:
        assert list_decisions(session, "shop", limit=1)[0].response == 9.0
