"""The scaler's own link against the real service: what it reports is kept, what is pushed reaches it and is noted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from scaler.agent.decider import Decider
from scaler.link import Link, LinkSettings
from scaler.model.nodes import Deployment, NodeType
from scaler.model.policy import Observation
from tests.service.conftest import BOUNDS, WEIGHTS
from tests.service.serve_process import add_secret
from tuner.store.connection import Store
from tuner.store.decisions import list_decisions
from tuner.store.orders import list_scalers
from tuner.store.samples import load_samples


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
