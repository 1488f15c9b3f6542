"""The shipped dashboard and alert rules parse, and name metrics that the service has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.service.made_decisions import NOW
from tests.service.showcase import furnish
from tuner.cli.serve_commands import SHIPPED, dashboards
from tuner.service.metrics.exposition import Meter
from tuner.store.connection import open_store
from tuner.store.orders import save_orders

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed, and the rules are YAML")

WORDS = {
    "and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset", "max",
    "min", "sum", "rate", "increase", "deriv", "clamp_max", "absent", "time",
}  # fmt: skip
LABELLED = re.compile(r"{[^{}]*}")
GROUPED = re.compile(r"\b(by|without|on|ignoring)\s*\(([^()]*)\)")
NAME = re.compile(r"[A-Za-z_:][\w:]*")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
DASHBOARD = json.loads(files("tuner.ship").joinpath("grafana.json").read_text())
RULES = [rule for group in yaml.safe_load(files("tuner.ship").joinpath("alerts.yml").read_text())["groups"]
         for rule in group["rules"]]  # fmt: skip
CURRENT = 41  # Grafana 12 and 11.6; newer ones read it


def list_panels() -> Iterator[dict[str, Any]]:
    for panel in DASHBOARD["panels"]:
        yield panel
        yield from panel.get("panels", [])


def list_expressions() -> dict[str, str]:
    told = {f"{p['title']} {t['refId']}": t["expr"] for p in list_panels() for t in p.get("targets", [])}
    told |= {note["name"]: note["expr"] for note in DASHBOARD["annotations"]["list"] if "expr" in note}
    return told | {rule["alert"]: rule["expr"] for rule in RULES}


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The labels of every metric that a filled database's service tells."""
    from prometheus_client.parser import text_string_to_metric_families

    store = open_store(tmp_path_factory.mktemp("shipped") / "tuner.db")
    furnish(store, 400)
    with store.begin() as session:
        save_orders(session, "clicks", {"slot_s": 60.0}, NOW)
    text = Meter(store, lambda: NOW, lambda: (0, 5000)).expose().decode()
    store.close()
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


@pytest.mark.parametrize("name", list_expressions())
def test_expressions_are_of_what_the_service_tells(name: str, exposed: dict[str, set[str]]) -> None:
    expression = list_expressions()[name]
    assert are_balanced(re.sub(r'"[^"]*"', '""', expression)), expression
    bare = GROUPED.sub(" ", LABELLED.sub(" ", re.sub(r"\[[^\]]*\]", " ", expression)))
    metrics = set(NAME.findall(bare)) - WORDS
    assert metrics, expression
    assert metrics <= exposed.keys()
    added = {"instance", "job"}  # by Prometheus
    asked = {label for table in LABELLED.findall(expression) for label in LABEL.findall(table)}
    asked |= {label.strip() for _, labels in GROUPED.findall(expression) for label in labels.split(",")}
    assert asked <= added.union(*(exposed[metric] for metric in metrics))


def are_balanced(expression: str) -> bool:
    open_ones = []
    for c in expression:
        if c in "([{":
            open_ones.append(c)
        elif c in ")]}" and (not open_ones or open_ones.pop() + c not in ("()", "[]", "{}")):
            return False
    return not open_ones


def test_unbalanced_expressions_would_be_found() -> None:
    assert are_balanced('sum by (a) (rate(b{c=""}[5m]))')
    assert not are_balanced("sum(rate(b[5m))")
    assert not are_balanced("sum(a")


def test_the_dashboard_has_its_rows_and_fits_the_grid() -> None:
    panels = list(list_panels())
    rows = [panel["title"] for panel in panels if panel["type"] == "row"]
    assert rows == ["QoS", "Cost", "Roll-out", "Surrogate", "Tuning", "Scalers", "Service"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert DASHBOARD["schemaVersion"] == CURRENT
    assert DASHBOARD["id"] is None
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert variables["application"]["multi"]
    used = {name for name in re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD)) if not name.startswith("__")}
    assert used == set(variables)


def test_every_panel_has_something_to_show_and_its_source() -> None:
    for panel in list_panels():
        if panel["type"] != "row":
            assert panel["targets"]
            assert {t["datasource"]["uid"] for t in panel["targets"]} == {"${datasource}"}


def test_rules_say_what_is_wrong_and_what_to_do() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    wanted = {
        "QosMissedFast",
        "ScalerSilent",
        "ServiceDown",
        "TuningFailed",
        "RolledBack",
        "SurrogateUnhealthy",
        "QueueGrowing",
    }
    assert wanted <= set(names)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}
        assert len(rule["annotations"]["description"]) > 80
        assert re.fullmatch(r"\d+[mhd]", rule.get("for", "1m"))


def test_variables_in_texts_are_labels_of_the_expression() -> None:
    for rule in RULES:
        named = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        kept = {label.strip() for _, labels in GROUPED.findall(rule["expr"]) for label in labels.split(",")}
        assert named <= (kept or {"instance"}), rule["alert"]


def test_both_files_are_written_once(tmp_path: Path) -> None:
    folder = tmp_path / "watching" / "over"
    first = CliRunner().invoke(dashboards, [str(folder)])
    assert first.exit_code == 0, first.output
    assert {path.name for path in folder.iterdir()} == set(SHIPPED)
    assert json.loads((folder / "grafana.json").read_text()) == DASHBOARD
    (folder / "alerts.yml").write_text("mine")
    again = CliRunner().invoke(dashboards, [str(folder)])
    assert "write over it with --force" in str(again.exception)
    assert (folder / "alerts.yml").read_text() == "mine"
    assert CliRunner().invoke(dashboards, [str(folder), "--force"]).exit_code == 0
    assert (folder / "alerts.yml").read_text() != "mine"
    (tmp_path / "file").touch()
    assert "there can be no folder" in str(CliRunner().invoke(dashboards, [str(tmp_path / "file" / "x")]).exception)
