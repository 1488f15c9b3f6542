"""Applications that real pilots run, on a fast clock, over the real HTTP API: what drifts is tuned again and rolled out
stage by stage; what is secretly bad comes back by itself, and says why."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from scaler.model.task import Moments
from tests.commands import succeed
from tests.service.browsed import browsing
from tests.service.world import START, World, describe, live, over_http
from tests.store.conftest import POSTGRES
from tuner.retuning.loop import run_once
from tuner.store.connection import Store
from tuner.store.orders import save_scalers
from tuner.store.records import Scaler
from tuner.store.runs import save_retuning

pytestmark = pytest.mark.slow
APP = "shop"
TAKES = Moments(0.02, 0.0002)
SETTINGS = {
    "budget": 4,
    "engine": "random",
    "check_s": 600.0,
    "shadow_slots": 20,
    "canary_slots": 40,
    "watch_slots": 60,
}


@pytest.fixture
def world(client: httpx.Client, store: Store) -> World:
    """Registered, and reported by scalers that pursue nothing yet for two and a half of its days."""
    from tuner.rollout.retuning_settings import read_settings

    world = World(APP, {"parse": TAKES, "count": TAKES}, start=(6,))
    document = describe(APP, world.truth, r_max=0.12, k_max=12)
    assert client.put(f"/v1/applications/{APP}", json={"document": document}).status_code == 200
    with store.begin() as session:  # due on the clock of this world
        save_retuning(session, APP, read_settings(SETTINGS), START)
        save_scalers(session, [Scaler(APP, name, "driver", START, START) for name in world.truth])
    return world


def read(client: httpx.Client, listed: str, **asked: Any) -> list[dict[str, Any]]:
    answer = client.get(f"/v1/applications/{APP}/{listed}", params={"limit": 1000, **asked})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


def stages(client: httpx.Client) -> list[tuple[int, str]]:
    """Which objective went where, in order."""
    events = [e for e in reversed(read(client, "events")) if e["what"] in ("pushed", "settled", "rolled back")]
    return [(e["detail"]["version"], e["detail"].get("stage") if e["what"] == "pushed" else e["what"]) for e in events]


def states(client: httpx.Client) -> Mapping[int, str]:
    return {one["version"]: one["state"] for one in read(client, "objectives")}


@pytest.mark.parametrize("address", [pytest.param("postgresql", marks=POSTGRES)], indirect=True)
def test_what_drifts_is_tuned_again_and_rolled_out(client: httpx.Client, store: Store, world: World) -> None:
    report = over_http(client)
    live(world, store, 150, report)

    def look() -> None:
        run_once(store, lambda: world.now)

    live(world, store, 140, report, look)
    way = ["shadow", "canary", "full", "settled"]
    assert stages(client) == [(1, stage) for stage in way]
    world.truth = {name: Moments(0.025, 0.00032) for name in world.truth}
    live(world, store, 260, report, look)
    first, *_, last = stages(client)[4:]
    assert first == (2, "shadow")
    assert last[1] == "settled"
    assert states(client)[last[0]] == "full"
    assert states(client)[1] == "retired"
    assert any("the mean service time became" in e["message"] for e in read(client, "events", what=["drift"]))


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_what_is_secretly_bad_comes_back_by_itself(client: httpx.Client, store: Store, world: World) -> None:
    """Busy replicas are in each other's way, which nobody can know who has never had any: no sample shows it, so that
    the surrogate is sound by all its checks, and the shadow, which predicts by it, sees nothing either."""
    cautious = {"weights": {"perf": 0.6, "rcf": 0.2, "res": 0.2}, "bounds": {"parse": 0.035, "count": 0.035}}
    path = f"/v1/applications/{APP}/objectives"
    assert client.post(path, json={**cautious, "why": "to begin with"}).status_code == 201
    pushed = client.post(f"{path}/1/push", json={"stage": "full", "why": "to begin with"})
    assert pushed.status_code == 200, pushed.text
    settle(store, world)
    world.contention, world.busy = 1.8, 0.6
    report = over_http(client)
    live(world, store, 150, report)
    for _ in range(20):
        live(world, store, 10, report, lambda: run_once(store, lambda: world.now))
        if states(client).get(2) == "reverted":  # before what was seen of busy replicas is tuned for
            break
    assert states(client) == {1: "full", 2: "reverted"}
    assert stages(client)[1:] == [(1, "settled"), (2, "shadow"), (2, "canary"), (2, "rolled back")]
    assert [s["health"] for s in read(client, "surrogates")] != ["fail"]
    bad = client.get(f"{path}/2").json()["evidence"]
    assert bad["shadow"]["violations"] <= 0.05  # as predicted
    assert bad["canary"]["operators"] == ["parse"]
    reverted = bad["reverted"]
    assert (reverted["who"], reverted["stage"]) == ("the daemon", "canary")
    assert reverted["figures"]["violations"] > 0.15
    assert "were violations" in reverted["why"]
    event = read(client, "events", what=["rolled back"])[0]
    assert event["message"] == f"the daemon rolled back objective 2 from canary: {reverted['why']}"
    assert "costs" in bad["better"]["why"]  # why it was pushed
    check_told(store, reverted["why"], reverted["when"] - 60.0)


def check_told(store: Store, why: str, at: float) -> None:
    """On the pages of the objective and of the slot, and by `tuner explain`."""
    with browsing(store) as site:
        for page in (f"/objectives/2?app={APP}", f"/explain?app={APP}&operator=parse&at={at}"):
            assert why in site.see(page).said
    moment = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    told = succeed("explain", APP, "--at", moment, "--operator", "parse", "--store", store.address.path)
    assert why in " ".join(told.split())


def settle(store: Store, world: World) -> None:
    """What a person pushed by the clock of the wall began by that of the world."""
    from sqlalchemy import update

    from tuner.store.objectives import load_objective, merge_evidence
    from tuner.store.tables import OBJECTIVES

    with store.begin() as session:
        there = load_objective(session, APP, 1)
        merge_evidence(session, there, {"full": {**there.evidence["full"], "since": world.now}})
        session.execute(update(OBJECTIVES.table).values(changed=world.now, created=world.now))
