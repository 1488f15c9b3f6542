"""`tuner app`: versions of descriptions in the database, what is shown of them, and refusals."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import BashComplete

from sim.application import parse_application
from sim.setting import Setting
from tests.commands import refuse, run, succeed
from tuner.cli import main
from tuner.scenario.description import scenario_of
from tuner.scenario.document import describe_application, shape_of
from tuner.scenario.scenario import Scenario, read_scenario
from tuner.store.applications import add_application, load_application
from tuner.store.audit_log import list_events
from tuner.store.connection import open_store
from tuner.store.records import ApplicationVersion
from tuner.store.runs import find_retuning, save_retuning

DEMO = files("tuner.demo").joinpath("demo.toml").read_text()
OPERATORS = """
[[operator]]
name = "split"
service_rate = 100
scv = 0.5
[[operator]]
name = "count"
service_rate = 200
scv = 0.7
k_max = 4
[[edge]]
from = "split"
to = "count"
selectivity = 0.25
"""
NODES = (
    'name = "mine"\n[[node]]\nname = "a"\nspeedup = 1.0\nprice = 1.0\n[[node]]\nname = "b"\nspeedup = 2\nprice = 3\n'
)
RATES = "time,rate\n" + "".join(f"2026-01-01T00:0{i},{i + 1}\n" for i in range(9))
GRAPH = '[application]\nfile = "graph.toml"\n'
FILES = {
    "demo": DEMO,
    "alone": 'name = "other"\n' + OPERATORS,
    "built in": '[application]\nbuiltin = "diamond"\nk_max = 4\n[trace]\nslots = 50\n[infrastructure]\nname = "B"\n',
    "files": GRAPH
    + '[infrastructure]\nfile = "nodes.toml"\nn_res = 1\nfirst = "a"\n[trace]\nfile = "rates.csv"\nslots = 5\n',
    "a date": GRAPH + "[trace]\ngenerator = 'diurnal'\nlow = 2.0\nhigh = 5.0\nslots = 9\nstart = 2026-03-01\n",
    "a time": GRAPH + "[trace]\ngenerator = 'diurnal'\nlow = 2.0\nhigh = 5.0\nslots = 9\nstart = 2026-03-01T05:00:00\n",
    "an offset": GRAPH
    + "[trace]\ngenerator = 'diurnal'\nlow = 2.0\nhigh = 5.0\nslots = 9\nstart = 2026-03-01T05:00:00+02:00\n",
    "demands": GRAPH
    + '[qos]\nr_max = 0.3\neta_r = 0.2\npaths = { "split -> count" = 0.2 }\nbounds = { split = 0.1 }\n',
    "options": GRAPH + '[policy]\nnames = ["static", "threshold-c"]\noptions = { threshold = 0.6 }\n[run]\nseeds = 4\n',
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files to describe applications by, and the way to a database that is not there yet."""
    (tmp_path / "graph.toml").write_text(OPERATORS)
    (tmp_path / "nodes.toml").write_text(NODES)
    (tmp_path / "rates.csv").write_text(RATES)
    monkeypatch.setenv("TUNER_STORE", str(tmp_path / "tuner.db"))
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "shop.toml"
    path.write_text(text)
    return path


def load(place: Path, name: str = "shop", number: int | None = None) -> ApplicationVersion:
    with closing(open_store(place / "tuner.db")) as store, store.read() as session:
        return load_application(session, name, number)


def unnamed(scenario: Scenario) -> tuple[Setting, ...]:
    """The settings without the names of what was put inline."""
    return tuple(
        replace(
            setting,
            application=replace(setting.application, name=""),
            infrastructure=replace(setting.infrastructure, name=""),
        )
        for setting in scenario.settings
    )


@pytest.mark.parametrize("name", FILES)
def test_what_is_kept_simulates_as_the_file_does_without_the_files_it_named(place: Path, name: str) -> None:
    path = write(place, FILES[name])
    stated = read_scenario(None, {"application": {"file": str(path)}}) if name == "alone" else read_scenario(path)
    assert succeed("app", "add", "shop", path) == "shop: version 1.\n"
    for gone in ("graph.toml", "nodes.toml", "shop.toml"):
        (place / gone).unlink()
    kept = scenario_of(load(place).document)
    assert unnamed(kept) == unnamed(stated)
    assert kept.seeds == stated.seeds
    assert kept.document["qos"] == stated.document["qos"]
    assert kept.document["trace"] == stated.document["trace"]  # dates are dates again
    assert kept.settings[0].application.name == "shop"


@pytest.mark.parametrize("name", FILES)
def test_what_is_kept_is_written_as_a_file_that_says_the_same(place: Path, name: str) -> None:
    succeed("app", "add", "shop", write(place, FILES[name]))
    succeed("app", "show", "shop", "--toml", place / "again.toml")
    assert succeed("app", "add", "shop", place / "again.toml") == "shop: unchanged, version 1.\n"


def test_what_is_described_is_retuned_as_it_was_set_to_be(place: Path) -> None:
    path = write(place, DEMO)
    succeed("app", "add", "shop", path)
    with closing(open_store(place / "tuner.db")) as store, store.begin() as session:
        watch = find_retuning(session, "shop")
        assert watch is not None
        assert watch.settings["period_s"] == 86_400.0
        save_retuning(session, "shop", {**watch.settings, "period_s": 3600.0}, 0.0)
    succeed("app", "add", "shop", path, "--r-max", 0.2)
    with closing(open_store(place / "tuner.db")) as store, store.read() as session:
        assert [event.what for event in list_events(session, "shop")] == ["registered", "registered"]
        assert find_retuning(session, "shop").settings["period_s"] == 3600.0  # type: ignore[union-attr]


def test_only_a_change_makes_a_version_and_it_is_told(place: Path) -> None:
    path = write(place, DEMO)
    assert succeed("app", "add", "shop", path) == "shop: version 1.\n"
    assert succeed("app", "add", "shop", path) == "shop: unchanged, version 1.\n"
    assert succeed("app", "add", "shop", path, "--r-max", 0.05, "--eta-v", 0.01, "--eta-r", 0.2) == (
        "shop: version 2, with another qos than version 1.\n"
    )
    assert load(place).document["qos"] == {"r_max": 0.05, "eta_v": 0.01, "eta_r": 0.2}
    assert load(place, number=1).document["qos"] == {"r_max": 0.06}
    write(place, DEMO.replace("scv = 1.2", "scv = 1.1").replace("price = 0.5", "price = 0.4"))
    assert succeed("app", "add", "shop", path) == (
        "shop: version 3, with another application, infrastructure, qos than version 2.\n"
    )
    assert succeed("app", "add", "shop", write(place, OPERATORS)) == (
        "shop: version 4, with another application than version 3, and without its trace, infrastructure, qos, "
        "weights, policy, run.\n"
    )


@pytest.mark.parametrize("name", ["team/shop", "a/../b", "x" * 201, " shop", ""])
def test_name_that_no_agent_can_reach_is_refused(place: Path, name: str) -> None:
    """`team/shop` was taken, and its scalers got 404 for ever: %2F is decoded before routing."""
    told = refuse("app", "add", name, write(place, OPERATORS))
    assert "is no name for an application; write up to 200 printable characters" in told


BAD: dict[str, tuple[str, list[str], str]] = {
    "no operators": ("[qos]\nr_max = 0.1\n", [], "shop.toml describes no operators; head each one with"),
    "nothing": ("", [], "shop.toml describes no operators"),
    "no TOML": ("x = [", [], "shop.toml is not TOML"),
    "a wrong table": ("[aplication]\n", [], "shop.toml, [aplication]: there is no such key here; did you mean"),
    "a wrong operator": (OPERATORS.replace("scv = 0.7", "scv = -1"), [], "operator 'count': scv is -1, and must be"),
    "both ways": (OPERATORS + "[qos]\nr_max = 1\n", [], "the application: qos: there is no such key here"),
    "a cycle": (OPERATORS + '[[edge]]\nfrom = "count"\nto = "split"\n', [], "form a cycle"),
    "no trace": (GRAPH + "[trace]\nfile = 'none.csv'\n", [], "none.csv cannot be read"),
    "no graph": ("[application]\nfile = 'none.toml'\n", [], "none.toml cannot be read"),
    "no nodes": (GRAPH + "[infrastructure]\nfile = 'none.toml'\n", [], "none.toml cannot be read"),
    "a wrong path": (GRAPH + '[qos]\npaths = { "count" = 1 }\n', [], "the path 'count'; the paths are split -> count"),
    "a path at once": (
        GRAPH + '[qos]\npaths = { "split -> count" = 0 }\n',
        [],
        "[qos]: the bound of split -> count is 0 s",
    ),
    "a share": (GRAPH + "[qos]\neta_v = 5\n", [], "shop.toml, [qos]: eta_v is 5, and must lie between 0 and 1"),
    "a flag": (GRAPH, ["--eta-r", "0"], "--eta-r: eta_r is 0.0, and must lie between 0 and 1"),
    "no bound": (GRAPH, ["--r-max", "nan"], "--r-max is nan, and must be a finite number"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_simulated_is_refused_before_anything_is_written(place: Path, name: str) -> None:
    text, flags, said = BAD[name]
    assert said in refuse("app", "add", "shop", write(place, text), *flags)
    assert not (place / "tuner.db").exists()


@pytest.mark.parametrize("name", ["", " shop", "a\nb"])
def test_a_name_that_nobody_can_type_is_refused(place: Path, name: str) -> None:
    assert "is no name for an application" in refuse("app", "add", name, write(place, DEMO))


def test_show_says_everything_to_people_and_to_programs(place: Path) -> None:
    succeed("app", "add", "shop", write(place, FILES["demands"]))
    known = json.loads(succeed("app", "show", "shop", "--json"))
    assert [operator["name"] for operator in known["operators"]] == ["split", "count"]
    assert [operator["gain"] for operator in known["operators"]] == [1.0, 0.25]
    assert known["paths"] == {"split -> count": 0.2}
    assert known["qos"] == {"r_max": 0.3, "quantile": None, "eta_v": 0.05, "eta_r": 0.2}
    assert known["assumed"] == ["infrastructure", "trace", "policy"]
    assert (known["runs"], known["trials"], known["best"], known["standing"]) == (0, 0, None, None)
    shown = succeed("app", "show", "shop")
    lines = [line.split() for line in shown.splitlines()]
    assert ["split", "count", "x", "0.25", "10", "0.5", "10", "1", "1", "no"] in lines
    assert ["count", "-", "5", "0.7", "4", "1", "0.25", "no"] in lines
    assert ["split", "->", "count", "200"] in lines
    assert "late in at most 0.05 of the slots, replicas changed in at most 0.2." in shown
    assert "Trace (by default): diurnal, made up" in shown
    assert "It was not tuned yet; do so with: tuner tune shop" in shown


def test_a_version_that_is_not_there_is_one_sentence(place: Path) -> None:
    succeed("app", "add", "shop", write(place, DEMO))
    assert refuse("app", "show", "shop", "--version", 2) == "application 'shop' has no version 2; its newest is 1"
    assert refuse("app", "show", "shap") == "there is no application 'shap'; did you mean 'shop'?"


def test_a_trace_that_is_gone_does_not_keep_the_application_from_being_shown(place: Path) -> None:
    succeed("app", "add", "shop", write(place, FILES["files"]))
    (place / "rates.csv").unlink()
    assert str(place / "rates.csv") in succeed("app", "show", "shop")
    assert "rates.csv cannot be read" in refuse("app", "add", "shop", write(place, FILES["files"]))


def test_the_list_has_every_application(place: Path) -> None:
    assert "there is no database" in refuse("app", "list")
    open_store(place / "tuner.db").close()
    assert run("app", "list").stderr == "There are no applications yet; add one with: tuner app add NAME FILE.toml\n"
    for name in ("shop", "clicks", "shop"):
        succeed("app", "add", name, write(place, DEMO))
    with closing(open_store(place / "tuner.db")) as store, store.begin() as session:
        add_application(session, "empty", {}, 0.0)  # as older programs let through
    rows = json.loads(succeed("app", "list", "--json"))
    assert [(row["name"], row["version"], row["operators"], row["runs"]) for row in rows] == [
        ("clicks", 1, 3, 0),
        ("empty", 1, None, 0),
        ("shop", 1, 3, 0),
    ]
    head, rule, *lines = succeed("app", "list").splitlines()
    assert {len(line) for line in lines} == {len(head), len(rule)}


def test_older_documents_are_applications_alone() -> None:
    alone: dict[str, Any] = {"name": "clicks", "operator": [{"name": "parse", "service_rate": 500, "scv": 0.5}]}
    for document in (alone, {"application": alone}):
        assert shape_of(document) == parse_application(alone)
        setting = scenario_of(document, {"qos": {"r_max": 0.02}}).settings[0]
        assert (setting.application, setting.r_max) == (parse_application(alone), 0.02)
        assert setting.trace.start == datetime(2026, 1, 5, tzinfo=UTC)
    assert parse_application(describe_application(shape_of(alone))) == shape_of(alone)


def test_simulate_takes_what_is_demanded_and_bounds_of_paths(place: Path) -> None:
    flags = ("--policy", "static", "--slots", 300, "--json")
    violations = []
    for bound in (0.5, 0.005):
        path = write(place, GRAPH + f'[qos]\nr_max = 0.5\neta_v = 0.01\npaths = {{ "split -> count" = {bound} }}\n')
        violations.append(json.loads(succeed("simulate", path, *flags))["policies"][0]["violations"]["mean"])
    assert violations[0] < violations[1] == 1.0
    assert "the paths are split -> count" in refuse("simulate", write(place, BAD["a wrong path"][0]))


def complete(*arguments: str, incomplete: str = "") -> list[str]:
    found = BashComplete(main, {}, "tuner", "_TUNER_COMPLETE").get_completions(list(arguments), incomplete)
    return [item.value for item in found]


def test_a_shell_completes_commands_and_the_names_of_applications(place: Path) -> None:
    for name in ("shop", "clicks", "shapes"):
        succeed("app", "add", name, write(place, DEMO))
    assert sorted(complete(incomplete="tri")) == ["trial", "trials"]
    assert complete("app", "show") == ["clicks", "shapes", "shop"]
    assert complete("trials", "--sort", "price", incomplete="sh") == ["shapes", "shop"]
    assert complete("trials", "--sort", incomplete="p") == ["price"]
    assert complete("app", "add", incomplete="cl") == ["clicks"]


def test_completion_is_silent_where_there_is_no_database_and_makes_none(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert complete("trials") == []
    assert not (place / "tuner.db").exists()
    for address in (str(place), str(place / "rates.csv"), "mysql://x/y", str(place / "no" / "x.db")):
        monkeypatch.setenv("TUNER_STORE", address)
        assert complete("trials") == []
    monkeypatch.delenv("TUNER_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(place / "data"))
    assert complete("trials") == []
    assert not (place / "data").exists()


def test_completion_takes_the_database_from_the_line_that_is_typed(place: Path) -> None:
    succeed("app", "add", "shop", write(place, DEMO), "--store", place / "other.db")
    assert complete("trials", "--store", str(place / "other.db")) == ["shop"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_asks_the_program(shell: str) -> None:
    script = succeed("completion", shell)
    assert f"_TUNER_COMPLETE={shell}_complete" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True, env=dict(os.environ))
