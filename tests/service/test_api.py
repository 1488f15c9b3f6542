"""Requests of people to the API: versions, objectives, controls, requests, events, and refusals."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import httpx
from fastapi import FastAPI
from sqlalchemy.exc import TimeoutError as PoolTimeout

from scaler.model.errors import Retry
from scaler.model.task import Weights
from tests.service.conftest import BOUNDS, SHOP, WEIGHTS, sentence
from tuner.rollout.retuning_settings import DEFAULTS
from tuner.service.api.problems import HANDLERS
from tuner.store.applications import add_application, load_application
from tuner.store.audit_log import add_event
from tuner.store.connection import Store
from tuner.store.faults import StaleState
from tuner.store.objectives import add_objective
from tuner.store.orders import load_orders
from tuner.store.records import DecisionRecord, EventRecord, ObjectiveRecord, Trial, TuningRun
from tuner.store.runs import find_retuning, start_run
from tuner.store.trials import add_trial, find_trial


def put_shop(client: httpx.Client, **tables: Any) -> httpx.Response:
    return client.put("/v1/applications/shop", json={"document": {**SHOP, **tables}})


def events_of(client: httpx.Client, what: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/v1/applications/shop/events", params={"what": what}).json()["items"]
    return found


def test_registering_makes_a_version_for_each_change_and_watches(shop: httpx.Client, store: Store) -> None:
    first = shop.get("/v1/applications/shop").json()
    assert (first["application"], first["number"]) == ("shop", 1)
    assert [operator["name"] for operator in first["document"]["application"]["operator"]] == ["parse", "count"]
    assert put_shop(shop).json()["number"] == 1
    second = put_shop(shop, qos={"r_max": 0.2}).json()
    assert second["number"] == 2
    assert shop.get("/v1/applications/shop?version=1").json() == first
    assert [one["number"] for one in shop.get("/v1/applications").json()["items"]] == [2]
    assert [(event["who"], event["detail"]["version"]) for event in events_of(shop, "registered")] == [
        ("ann", 2),
        ("ann", 1),
    ]
    with store.read() as session:
        watch = find_retuning(session, "shop")
    assert watch is not None
    assert watch.settings == DEFAULTS


REFUSED_TABLES: dict[str, tuple[dict[str, Any], str]] = {
    "a file": ({"trace": {"file": "/etc/passwd"}}, "no file of this machine"),
    "a file of nodes": ({"infrastructure": {"file": "/etc/hosts.toml"}}, "no file of this machine"),
    "a file as a name": ({"infrastructure": {"name": "/etc/hosts.toml"}}, "must be one of A"),
    "a file as a graph": ({"application": {"builtin": "/etc/hosts.toml"}}, "must be one of single"),
    "no such table": ({"nonsense": {}}, "no such key"),
    "no table": ({"qos": 5}, "must be a table"),
    "a trace without end": ({"trace": {"generator": "diurnal", "low": 1.0, "high": 2.0, "slots": 10**12}}, "at most"),
    "a wrong date": ({"trace": {"generator": "diurnal", "low": 1.0, "high": 2.0, "start": "soon"}}, "start"),
    "no policy": ({"policy": {"name": "nonsense"}}, "no policy 'nonsense'"),
    "a circle": ({"application": {"operator": SHOP["application"]["operator"], "edge": [  # type: ignore[index]
        {"from": "parse", "to": "count"}, {"from": "count", "to": "parse"}]}}, "cycle|circle"),
}  # fmt: skip


def test_descriptions_that_cannot_be_are_refused(shop: httpx.Client) -> None:
    for what, (tables, says) in REFUSED_TABLES.items():
        told = sentence(put_shop(shop, **tables), 422)
        assert re.search(says, told), (what, told)
    assert shop.get("/v1/applications/shop").json()["number"] == 1


def test_controls_are_told_to_the_scalers_with_who_and_when(shop: httpx.Client, store: Store) -> None:
    place = "/v1/applications/shop/controls/direction_lock"
    asked = {"settings": {"only": "out"}, "until": 4e9, "note": "sale"}
    made = shop.put(place, params={"operator": "parse"}, json=asked).json()
    assert (made["who"], made["operator"], made["until"], made["note"]) == ("ann", "parse", 4e9, "sale")
    assert shop.get("/v1/applications/shop/orders").json()["guards"] == {"parse": {"direction_lock": {"only": "out"}}}
    assert [one["kind"] for one in shop.get("/v1/applications/shop/controls").json()["items"]] == ["direction_lock"]
    assert "nothing to lift" in sentence(shop.delete(place), 404)  # that of all operators
    assert shop.delete(place, params={"operator": "parse"}).status_code == 200
    assert shop.get("/v1/applications/shop/controls").json()["items"] == []
    assert shop.get("/v1/applications/shop/controls?all=true").json()["items"][0]["ended_by"] == "ann"
    assert shop.get("/v1/applications/shop/orders").json()["guards"] == {}
    assert [event["who"] for event in events_of(shop, "control set") + events_of(shop, "control lifted")] == ["ann"] * 2
    with store.read() as session:
        orders = load_orders(session, "shop")
    assert orders is not None
    assert orders.revision == 2


def test_controls_that_scalers_could_not_read_are_refused(shop: httpx.Client) -> None:
    place = "/v1/applications/shop/controls/"
    refused = {
        ("direction_lock", ""): ({"settings": {"only": "up"}}, 422),
        ("direction_lock", "nobody"): ({"settings": {"only": "in"}}, 422),
        ("nonsense", ""): ({"settings": {}}, 422),
        ("pin", ""): ({"settings": {}, "until": 5.0}, 422),
        ("bounds", ""): ({"settings": {"least": {"no such node": 1}}}, 422),
    }
    for (kind, operator), (body, status) in refused.items():
        assert sentence(shop.put(place + kind, params={"operator": operator}, json=body), status)
    assert "no application 'other'" in sentence(shop.put("/v1/applications/other/controls/pin", json={}), 404)
    assert shop.get("/v1/applications/shop/controls?all=true").json()["items"] == []


def test_an_objective_by_hand_is_proposed(shop: httpx.Client) -> None:
    place = "/v1/applications/shop/objectives"
    made = shop.post(place, json={"weights": WEIGHTS, "bounds": BOUNDS, "why": "a try"})
    assert made.status_code == 201
    assert (made.json()["version"], made.json()["state"], made.json()["weights"]) == (1, "proposed", WEIGHTS)
    assert shop.get(f"{place}/1").json() == made.json()
    assert "has no objective 2" in sentence(shop.get(f"{place}/2"), 404)
    assert shop.get(place, params={"state": "full"}).json()["items"] == []
    assert events_of(shop, "proposed")[0]["who"] == "ann"
    wrong = {"perf": 0.6, "rcf": 0.2, "res": 0.3}
    assert "must add up to 1" in sentence(shop.post(place, json={"weights": wrong, "bounds": BOUNDS}), 422)
    for bounds, says in (({"parse": 0.1}, "'count' has none"), ({**BOUNDS, "more": 0.1}, "no operator 'more'")):
        assert says in sentence(shop.post(place, json={"weights": WEIGHTS, "bounds": bounds}), 422)


def test_pushed_and_rolled_back(shop: httpx.Client) -> None:
    place = "/v1/applications/shop/objectives"
    for _ in range(2):
        assert shop.post(place, json={"weights": WEIGHTS, "bounds": BOUNDS}).status_code == 201
    why = {"why": "it must be"}
    assert shop.post(f"{place}/1/push", json={"stage": "full", **why}).json()["state"] == "full"
    orders = shop.get("/v1/applications/shop/orders").json()
    assert orders["objective"]["version"] == 1
    assert shop.post(f"{place}/2/push", json={"stage": "full", **why}).json()["state"] == "full"
    assert shop.get(f"{place}/1").json()["state"] == "retired"
    rolled = shop.post("/v1/applications/shop/rollback", json={"why": "it was late"})
    assert rolled.status_code == 200, rolled.text
    assert shop.get(f"{place}/2").json()["state"] == "reverted"
    assert shop.get("/v1/applications/shop/orders").json()["objective"]["version"] == 1
    assert [event["who"] for event in events_of(shop, "rolled back")] == ["ann"]
    assert sentence(shop.post(f"{place}/9/push", json={"stage": "full", **why}), 404)
    assert "stage" in sentence(shop.post(f"{place}/1/push", json={"stage": "half", **why}), 422)
    assert "why is missing" in sentence(shop.post(f"{place}/1/push", json={"stage": "full"}), 422)


def test_wishes_lie_before_the_daemons(shop: httpx.Client, store: Store) -> None:
    assert shop.post("/v1/applications/shop/tunings", json={"budget": 5, "engine": "random"}).status_code == 202
    assert shop.post("/v1/applications/shop/tunings/pause").status_code == 202
    assert "no engine 'x'" in sentence(shop.post("/v1/applications/shop/tunings", json={"engine": "x"}), 422)
    assert sentence(shop.post("/v1/applications/other/tunings", json={}), 404)
    assert sentence(shop.post("/v1/applications/shop/tunings/dance"), 422)
    with store.read() as session:
        watch = find_retuning(session, "shop")
    assert watch is not None
    assert watch.asked["tune"]["budget"] == 5
    assert watch.asked["tune"]["who"] == watch.asked["pause"]["who"] == "ann"
    assert [event["who"] for event in events_of(shop, "asked")] == ["ann", "ann"]


def test_the_retuning_is_set(shop: httpx.Client) -> None:
    place = "/v1/applications/shop/retuning"
    assert shop.get(place).json()["settings"] == DEFAULTS
    assert shop.put(place, json={"settings": {"budget": 7}}).json()["settings"] == {**DEFAULTS, "budget": 7}
    assert "no setting 'nonsense'" in sentence(shop.put(place, json={"settings": {"nonsense": 7}}), 422)
    assert "files of the manager" in sentence(shop.put(place, json={"settings": {"sources": ["/etc"]}}), 422)
    assert sentence(shop.get("/v1/applications/other/retuning"), 404)


def test_every_page_of_a_list_is_reached_by_its_links(shop: httpx.Client, store: Store) -> None:
    from tuner.store.decisions import save_decisions

    times = [60.0 * i + 0.1 for i in range(25)]
    with store.begin() as session:
        made = [DecisionRecord("shop", op, t, "HELD", "<b>why</b>") for t in times for op in ("parse", "count & more")]
        save_decisions(session, made)
        for time in times:
            add_event(session, EventRecord("shop", time, "bob", "drift", "it drifts"))
    walked = walk(shop, "/v1/applications/shop/decisions?limit=7&kind=HELD&kind=SCALED&since=60")
    assert [(d["time"], d["operator"]) for d in walked] == [
        (t, op) for t in reversed(times[1:]) for op in ("count & more", "parse")
    ]
    assert len(walk(shop, "/v1/applications/shop/decisions?limit=10&operator=count%20%26%20more")) == 25
    assert [e["time"] for e in walk(shop, "/v1/applications/shop/events?limit=10&what=drift")] == times[::-1]
    assert walk(shop, "/v1/applications/shop/objectives?limit=1") == []


def walk(client: httpx.Client, place: str | None) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    while place is not None:
        page = client.get(place).json()
        items += page["items"]
        place = page["next"]
    return items


def test_sketches_of_response_times_are_reported_and_listed(shop: httpx.Client) -> None:
    start = 60.0 * (time.time() // 60.0 - 5.0)
    sample = {"start": start, "end": start + 60.0, "evidence": "progress", "responses": {"-3": 2.5, "41": 10.0}}
    body = {"instance": "driver-1", "operator": "parse", "samples": [sample]}
    assert shop.post("/v1/applications/shop/reports", json=body).status_code == 200
    [listed] = shop.get("/v1/applications/shop/samples").json()["items"]
    assert listed["responses"] == {"-3": 2.5, "41": 10.0}
    for wrong in ({"one": 1.0}, {"1": -1.0}, {str(i): 1.0 for i in range(201)}):
        body = {"instance": "driver-1", "operator": "parse", "samples": [sample | {"responses": wrong}]}
        assert "responses" in sentence(shop.post("/v1/applications/shop/reports", json=body), 422)


def test_what_is_not_there_is_said(shop: httpx.Client) -> None:
    for place in ("decisions", "samples", "events", "objectives", "surrogates", "runs", "scalers", "controls"):
        assert "no application 'other'" in sentence(shop.get(f"/v1/applications/other/{place}"), 404)
    numbered = (f"/v1/applications/shop/{place}" for place in ("runs/5", "runs/5/trials", "trials/5", "orders"))
    for place in (*numbered, "/v1/runs/5", "/v1/nothing"):
        assert sentence(shop.get(place), 404)
    answer = shop.delete("/v1/applications")
    assert "cannot be done" in sentence(answer, 405)
    assert answer.headers["allow"] == "GET"


def test_runs_and_trials_go_by_the_numbers_that_people_see(shop: httpx.Client, store: Store) -> None:
    """By ids of the database, which are of all applications together, `/v1/trials/58` was another's."""
    with store.begin() as session:
        for app, count in (("other", 3), ("shop", 2)):
            version = add_application(session, app, SHOP, 1.0) if app == "other" else load_application(session, app)
            run = start_run(session, TuningRun(version.id or 0, "gp", 7, 60, 5.0, {}), "somebody", 5.0)
            for number in range(count):
                detail = {"purpose": "verify", "of": 0} if number == 1 else {}
                trial = Trial(run.id or 0, number, {}, "complete", 7, 6.0, 7.0, price=5.0 + number, detail=detail)
                add_trial(session, run, trial, 7.0)
        made_of = find_trial(session, "shop", 1)
        add_objective(session, ObjectiveRecord("shop", Weights(), BOUNDS, 8.0, trial_id=made_of.id))
    place = "/v1/applications/shop"
    (listed,) = shop.get(f"{place}/runs").json()["items"]
    assert listed == shop.get(f"{place}/runs/1").json()
    assert (listed["run"], listed["state"]) == (1, "interrupted")
    for state, found in (("interrupted", [listed]), ("running", []), ("done", [])):
        assert shop.get(f"{place}/runs", params={"state": state}).json()["items"] == found
    first, second = shop.get(f"{place}/runs/1/trials").json()["items"]
    assert [first, second] == [shop.get(f"{place}/trials/{number}").json() for number in (1, 2)]
    assert (first["trial"], first["run"], first["verified"]["trial"], first["verified"]["price"]) == (1, 1, 2, 6.0)
    assert (second["trial"], second["detail"]["of"], second["verified"]) == (2, 1, None)
    (objective,) = shop.get(f"{place}/objectives").json()["items"]
    assert (objective["trial"], objective["run"], objective["searched_price"]) == (1, 1, 5.0)
    assert not {"id", "run_id", "number", "ordinal", "trial_id"} & (listed.keys() | first.keys() | objective.keys())
    assert "has no trial 3" in sentence(shop.get(f"{place}/trials/3"), 404)


def test_filters_that_nobody_knows_are_refused(shop: httpx.Client) -> None:
    refused = ("limit=0", "limit=1001", "kind=held", "sinse=5", "since=nan", "since=inf", "after=x", "after=nan~a")
    for query in refused:
        assert sentence(shop.get(f"/v1/applications/shop/decisions?{query}"), 422)


def test_the_description_names_every_refusal(shop: httpx.Client) -> None:
    described = shop.get("/v1/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    operations = [one for path in described["paths"].values() for one in path.values()]
    assert len(operations) > 20
    for operation in operations:
        assert operation["tags"], operation
        assert {"401", "403", "422", "429", "503"} <= operation["responses"].keys()


def test_a_decision_is_explained(shop: httpx.Client, store: Store) -> None:
    from tuner.store.decisions import save_decisions

    with store.begin() as session:
        save_decisions(
            session, [DecisionRecord("shop", "parse", 60.0, "BLOCKED", "pin: it is pinned", alternatives={"a": 1.0})]
        )
    place = "/v1/applications/shop/explanation"
    [one] = shop.get(place, params={"at": 90.0, "operator": "parse"}).json()["operators"]
    assert (one["operator"], one["decision"]["kind"], one["decision"]["time"]) == ("parse", "BLOCKED", 60.0)
    assert {one["operator"] for one in shop.get(place).json()["operators"]} == {"parse", "count"}
    assert "no operator" in sentence(shop.get(place, params={"operator": "other"}), 404)
    assert sentence(shop.get("/v1/applications/other/explanation"), 404)


def test_faults_are_problems_without_insides() -> None:
    faults = {
        "unexpected": (RuntimeError("the secret is x"), 500, "the service failed at this"),
        "passing": (Retry("the database is\nlocked"), 503, "the database is locked"),
        "crowded": (PoolTimeout("QueuePool limit of size 5"), 503, "more to do than its database can take"),
        "outdated": (StaleState("objective 3 is full by now"), 409, "is full by now"),
    }
    app = FastAPI(exception_handlers=HANDLERS)

    @app.get("/{what}")
    async def fail(what: str) -> None:
        raise faults[what][0]

    async def ask(what: str) -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(f"/{what}")

    for what, (_, status, says) in faults.items():
        answer = asyncio.run(ask(what))
        told = sentence(answer, status)
        assert says in told
        assert "secret" not in told
        assert ("retry-after" in answer.headers) == (status == 503)
