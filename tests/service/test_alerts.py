"""The shipped alert rules in Prometheus' own tool: each fires on what it is for, and once for all instances.

Every series is told by two instances of the service, as they tell it of one database.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.service.made_decisions import NOW
from tests.service.showcase import furnish
from tuner.service.metrics.exposition import Meter
from tuner.store.connection import Store

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed, and the rules are YAML")
pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="there is no promtool here (Debian's package prometheus has it)"
)

SHIPPED = files("tuner.ship").joinpath("alerts.yml").read_text(encoding="utf-8")
RULES = {rule["alert"]: rule for group in yaml.safe_load(SHIPPED)["groups"] for rule in group["rules"]}
INSTANCES = ("a:8321", "b:8321")
APP = {"application": "shop"}
PARSE = {**APP, "operator": "parse"}
SPAN = 'tuner_violated_slots_ratio{application="shop",span="%s"}'
REFUSED = 'tuner_decisions_total{application="shop",operator="parse",kind="%s",reason="other"}'
REPORTED = 'tuner_report_age_seconds{application="shop",operator="parse"}'
DECIDED = 'tuner_decision_age_seconds{application="shop",operator="parse"}'
LEFT = 'tuner_token_left_seconds{token="agents"}'
ALLOWED = {'tuner_violated_slots_allowed_ratio{application="shop"}': "0.05"}


@dataclass(frozen=True)
class Case:
    """Series in promtool's notation (one number: constant), under which an alert fires `at`, and others, under which
    it does not; `waits`: when the condition holds, and not yet for as long as the rule wants."""

    series: Mapping[str, str]
    quiet: Mapping[str, str]
    at: str
    waits: str | None
    labels: Mapping[str, str] = field(default_factory=lambda: APP)
    value: str = ""  # as the texts show it


CASES = {
    "QosMissedFast": Case(
        {SPAN % "1h": "0.5", SPAN % "5m": "0.5", **ALLOWED}, {SPAN % "1h": "0.5", SPAN % "5m": "0.15", **ALLOWED},
        "3m", "1m", value="50%",
    ),
    "QosMissed": Case(
        {SPAN % "1d": "0.08", SPAN % "1h": "0.2", **ALLOWED}, {SPAN % "1d": "0.08", SPAN % "1h": "0.04", **ALLOWED},
        "16m", "14m", value="8%",
    ),
    "ReconfiguredTooOften": Case(
        {'tuner_reconfigured_slots_ratio{application="shop",span="1d"}': "0.3",
         'tuner_reconfigured_slots_allowed_ratio{application="shop"}': "0.2"},
        {'tuner_reconfigured_slots_ratio{application="shop",span="1d"}': "0.2",
         'tuner_reconfigured_slots_allowed_ratio{application="shop"}': "0.2"},
        "61m", "59m", value="30%",
    ),
    "ScalerSilent": Case({REPORTED: "0+60x99"}, {REPORTED: "60"}, "20m", "13m", PARSE, "20m 0s"),
    "ScalerUndecided": Case(
        {DECIDED: "0+60x99", REPORTED: "30"}, {DECIDED: "0+60x99", REPORTED: "400"}, "30m", "20m", PARSE, "30m 0s"
    ),
    "ScalersHold": Case(
        {REFUSED % "HELD": "0+2x99", REFUSED % "NO_CHANGE": "0+1x99"},
        {REFUSED % "HELD": "0+1x99", REFUSED % "NO_CHANGE": "0+2x99"},
        "40m", "10m",
    ),
    "ActuationFails": Case(
        {REFUSED % "ACTUATION_FAILED": "0+1x99"}, {REFUSED % "ACTUATION_FAILED": "0x20 2x80"}, "40m", "3m"
    ),
    "ScalersBehind": Case(
        {'tuner_scalers_behind{application="shop"}': "2"}, {'tuner_scalers_behind{application="shop"}': "0"},
        "16m", "14m", value="2",
    ),
    "ServiceDown": Case({}, {"tuner_build_info{}": "1"}, "3m", "1m", {}),
    "TuningFailed": Case(
        {'tuner_tuning_last_run_state{application="shop",state="failed"}': "1"},
        {'tuner_tuning_last_run_state{application="shop",state="failed"}': "0"},
        "11m", "9m",
    ),
    "NotTuned": Case(
        {'tuner_events_total{application="shop",what="not tuned"}': "0x60 1x60 2x60 3x600"},
        {'tuner_events_total{application="shop",what="not tuned"}': "0x60 1x60 2x660"},
        "10h", "3h5m",
    ),
    "RolledBack": Case(
        {'tuner_events_total{application="shop",what="rolled back"}': "0x9 1x90"},
        {'tuner_events_total{application="shop",what="rolled back"}': "1"},
        "20m", "9m",
    ),
    "RolloutStuck": Case(
        {'tuner_candidate_age_seconds{application="shop",stage="canary"}': "259201+60x99"},
        {'tuner_candidate_age_seconds{application="shop",stage="canary"}': "3600+60x99"},
        "61m", "59m", {**APP, "stage": "canary"},
    ),
    "SurrogateUnhealthy": Case(
        {'tuner_surrogate_health{application="shop",health="fail"}': "1"},
        {'tuner_surrogate_health{application="shop",health="fail"}': "0"},
        "16m", "14m",
    ),
    "SurrogateWrong": Case(
        {'tuner_surrogate_error_ratio{application="shop"}': "0.3"},
        {'tuner_surrogate_error_ratio{application="shop"}': "0.2"},
        "16m", "14m", value="30%",
    ),
    "QueueGrowing": Case(
        {"tuner_intake_waiting{}": "0+120x99", "tuner_intake_room{}": "5000"},
        {"tuner_intake_waiting{}": "900", "tuner_intake_room{}": "5000"},
        "20m", "11m", {"instance": ""}, "2",
    ),
    "WatchesOverdue": Case(
        {"tuner_watch_overdue_seconds{}": "0+60x99"}, {"tuner_watch_overdue_seconds{}": "60"}, "45m", "35m", {},
        "45m 0s",
    ),
    "TokenExpires": Case({LEFT: "864000"}, {LEFT: "1300000"}, "61m", "59m", {"token": "agents"}, "10d 0h 0m 0s"),
    "TokenExpiresNow": Case({LEFT: "86400"}, {LEFT: "864000"}, "61m", "59m", {"token": "agents"}, "1d 0h 0m 0s"),
}  # fmt: skip


def tell(series: Mapping[str, str]) -> list[dict[str, str]]:
    """Each of them by both instances."""
    told = []
    for name, values in series.items():
        for instance in INSTANCES:
            comma = "" if name.endswith("{}") else ","
            whole = values if "x" in values else f"{values}x700"
            told.append({"series": f'{name[:-1]}{comma}instance="{instance}"}}', "values": whole})
    return told


def expect(name: str, case: Case) -> list[dict[str, Any]]:
    """What is to fire: once, but for rules on a process, which fire for each."""
    rule, alerts = RULES[name], []
    for instance in INSTANCES if "instance" in case.labels else INSTANCES[:1]:
        labels = {**case.labels, **({"instance": instance} if "instance" in case.labels else {})}
        texts = {key: fill(text, labels, case.value) for key, text in rule["annotations"].items()}
        alerts.append({"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": texts})
    return alerts


def fill(text: str, labels: Mapping[str, str], value: str) -> str:
    text = re.sub(r"{{ \$labels\.(\w+) }}", lambda found: labels[found[1]], text)
    return re.sub(r"{{ \$value[^}]*}}", value, text)


def ask(*arguments: object) -> str:
    ended = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=60.0)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "alerts.yml").write_text(SHIPPED)
    return tmp_path / "alerts.yml"


def test_prometheus_loads_the_rules(rules: Path) -> None:
    assert f"SUCCESS: {len(RULES)} rules found" in ask("check", "rules", rules)


def test_each_rule_fires_on_what_it_is_for_and_says_so(rules: Path) -> None:
    assert CASES.keys() == RULES.keys()
    tests = []
    for name, case in CASES.items():
        wanted = [{"eval_time": case.at, "alertname": name, "exp_alerts": expect(name, case)}]
        if case.waits is not None:
            wanted.append({"eval_time": case.waits, "alertname": name, "exp_alerts": []})
        tests.append({"name": name, "interval": "1m", "input_series": tell(case.series), "alert_rule_test": wanted})
        never = [{"eval_time": case.at, "alertname": name, "exp_alerts": []}]
        quiet = {"name": f"{name}, quiet", "interval": "1m", "input_series": tell(case.quiet)}
        tests.append({**quiet, "alert_rule_test": never})
    whole = rules.with_name("cases.json")  # which is YAML, too
    whole.write_text(json.dumps({"rule_files": [rules.name], "evaluation_interval": "1m", "tests": tests}))
    assert "SUCCESS" in ask("test", "rules", whole)


def test_a_rule_that_is_wrong_would_be_found(rules: Path) -> None:
    case = CASES["ServiceDown"]
    wanted = [{"eval_time": "1m", "alertname": "ServiceDown", "exp_alerts": expect("ServiceDown", case)}]
    whole = rules.with_name("cases.json")
    test = {"interval": "1m", "input_series": [], "alert_rule_test": wanted}
    whole.write_text(json.dumps({"rule_files": [rules.name], "tests": [test]}))
    with pytest.raises(AssertionError, match="FAILED"):
        ask("test", "rules", whole)


def test_what_is_exposed_passes_the_checks_of_prometheus(store: Store) -> None:
    furnish(store, 100)
    text = Meter(store, lambda: NOW, lambda: (0, 5000)).expose()
    ended = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60.0)
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, b"")
