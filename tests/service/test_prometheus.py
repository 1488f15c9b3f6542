"""Prometheus scrapes a real `tuner serve`, its alerts fire, and every panel of the dashboard has data there.

An application's agents report real decisions over HTTP up to now; its surrogate is fitted, it is tuned, one objective
is in full use and another in its shadow, and a control is set: all that panels show. Then a person rolls back.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import httpx
import pytest

from scaler.model.task import Moments
from tests.commands import run, succeed
from tests.service.prometheus import Prometheus, needs_prometheus, scraping
from tests.service.serve_process import add_secret, service
from tests.service.world import SLOT_S, START, World, describe, live, over_http
from tuner.store.connection import Store, open_store

pytestmark = [pytest.mark.slow, needs_prometheus]
APP = "web shop"  # with a space, as a name may have
PATH = f"/v1/applications/{APP}"
SLOTS = 60  # of the run; two more while Prometheus looks on
DASHBOARD = json.loads(files("tuner.ship").joinpath("grafana.json").read_text())
PANELS = [panel for outer in DASHBOARD["panels"] for panel in (outer, *outer.get("panels", []))]
TARGETS = {f"{panel['title']} {target['refId']}": target for panel in PANELS for target in panel.get("targets", ())}
LEGEND = re.compile(r"{{(\w+)}}")


@dataclass(frozen=True, slots=True)
class Watched:
    prometheus: Prometheus
    client: httpx.Client


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    address = str(folder / "tuner.db")
    with closing(open_store(address)) as store:
        secret = add_secret(store)
        reader = add_secret(store, "prometheus", ("read",))
        with (
            service(address, "--rate", "10000", "--report-rate", "10000") as served,
            httpx.Client(base_url=served.url, headers={"Authorization": f"Bearer {secret}"}, timeout=60.0) as client,
        ):
            world = set_up(client, store, address)
            with scraping(folder, served.port, reader) as prometheus:
                prometheus.wait_for(lambda: prometheus.ask("tuner_decisions_total"))
                live(world, store, 2, over_http(client))
                prometheus.wait_for(lambda: prometheus.ask("sum(increase(tuner_decisions_total[1m])) > 0"))
                yield Watched(prometheus, client)


def set_up(client: httpx.Client, store: Store, address: str) -> World:
    begun = math.floor((time.time() - START) / SLOT_S) - SLOTS
    world = World(APP, {"parse": Moments(0.02, 0.0002), "count": Moments(0.015, 0.0001)}, day=SLOTS, slot=begun)
    document = {**describe(APP, world.truth, r_max=0.12, k_max=12), "policy": {"name": "threshold-c"}}
    change(client, "PUT", PATH, {"document": document})
    for bound in (0.05, 0.04):
        weights = {"perf": 0.6, "rcf": 0.2, "res": 0.2}
        bounds = dict.fromkeys(world.truth, bound)
        change(client, "POST", f"{PATH}/objectives", {"weights": weights, "bounds": bounds, "why": "a test"})
    change(client, "POST", f"{PATH}/objectives/1/push", {"stage": "full", "why": "a test"})
    live(world, store, SLOTS, over_http(client))
    succeed("surrogate", "fit", APP, "--store", address)
    run("tune", APP, "--engine", "random", "--budget", "2", "--slots", "40", "--store", address)
    change(client, "POST", f"{PATH}/objectives/2/push", {"stage": "shadow", "why": "a test"})
    change(client, "PUT", f"{PATH}/controls/pin?operator=count", {"settings": {}, "note": "a test"})
    return world


def change(client: httpx.Client, method: str, path: str, body: dict[str, Any]) -> None:
    answer = client.request(method, path, json=body)
    assert answer.status_code < 300, answer.text


def fill(expression: str) -> str:
    """As Grafana fills in its variables, with the application chosen."""
    known = {"application": APP, "__rate_interval": "1m"}
    return re.sub(r"\$\{?(\w+)\}?", lambda found: known[found[1]], expression)


def test_the_service_is_up_and_no_rule_fails(watched: Watched) -> None:
    (target,) = watched.prometheus.read("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    groups = watched.prometheus.read("rules")["groups"]
    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}


def test_the_dashboard_lists_the_application(watched: Watched) -> None:
    (variable,) = (one for one in DASHBOARD["templating"]["list"] if one["name"] == "application")
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()  # type: ignore[union-attr]
    assert watched.prometheus.read(f"label/{label}/values", **{"match[]": metric}) == [APP]


@pytest.mark.parametrize("name", TARGETS)
def test_a_panel_has_data_and_its_legend_names_them(watched: Watched, name: str) -> None:
    target = TARGETS[name]
    series = watched.prometheus.ask_range(fill(target["expr"]), 60.0)
    values = [float(value) for one in series for _, value in one["values"]]
    assert values, target["expr"]
    assert not any(map(math.isnan, values))
    for one in series:
        assert set(LEGEND.findall(target["legendFormat"])) <= one["metric"].keys()
    shown = {tuple(one["metric"][label] for label in LEGEND.findall(target["legendFormat"])) for one in series}
    assert len(shown) == len(series), "two lines have one name"


def test_figures_are_those_of_the_service(watched: Watched) -> None:
    asked = watched.prometheus.ask
    objective = watched.client.get(f"{PATH}/objectives", params={"limit": 10}).json()["items"]
    (full,) = (one["version"] for one in objective if one["state"] == "full")
    shown = {float(one["value"][1]) for one in asked(fill(TARGETS["Objective A"]["expr"]))}
    assert shown == {float(full)}
    kinds = {
        one["metric"]["kind"]: float(one["value"][1]) for one in asked(fill(TARGETS["Decisions by kind A"]["expr"]))
    }
    assert sum(kinds.values()) > 0.0
    replicas = {one["metric"]["operator"] for one in asked(fill(TARGETS["Replicas A"]["expr"]))}
    assert replicas == {"parse", "count"}


def test_a_roll_back_is_seen_as_an_alert_and_as_a_note_in_the_dashboard(watched: Watched) -> None:
    """Of the rules the one that fires at once; promtool tries the others, which wait, in test_alerts."""
    prometheus = watched.prometheus
    (note,) = (one for one in DASHBOARD["annotations"]["list"] if "expr" in one)
    assert prometheus.ask(fill(note["expr"])) == []
    change(watched.client, "POST", f"{PATH}/rollback", {"why": "late since noon"})

    def fired() -> list[dict[str, Any]]:
        alerts = prometheus.read("alerts")["alerts"]
        return [one for one in alerts if one["labels"]["alertname"] == "RolledBack" and one["state"] == "firing"]

    (alert,) = prometheus.wait_for(fired)
    assert alert["labels"] == {"alertname": "RolledBack", "application": APP, "severity": "warning"}
    assert alert["annotations"]["summary"] == f"An objective of {APP} was rolled back"
    assert f'tuner explain "{APP}".' in alert["annotations"]["description"]
    (series,) = prometheus.wait_for(lambda: prometheus.ask(fill(note["expr"])))
    assert series["metric"] == {"application": APP}
