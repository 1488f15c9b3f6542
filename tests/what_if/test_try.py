"""`tuner try` and `tuner init` on a recorded log of a real stream without a name, and on logs of several queries."""

from __future__ import annotations

import inspect
import json
import runpy
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import scaler
from scaler.model.nodes import ONE_TYPE
from scaler.sensing.observation import name_alike
from tests.commands import refuse, run, succeed
from tests.what_if.record import write_log

RECORDED = Path(__file__).parent / "recorded" / "unnamed.zstd"  # local[2], 40 records/s of 4 ms each, no query name
DEMO = files("tuner.demo").joinpath("recorded", "clicks.zstd")  # one partition, on one core
NAME = "460e960c"  # the beginning of the query's id
WAVING = [800, 900, 700, 1000, 600] * 8


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUNER_STORE", str(tmp_path / "tuner.db"))
    return tmp_path


class TestTry:
    def test_a_recorded_stream_is_found_and_answered(self) -> None:
        said = succeed("try", RECORDED)
        assert "Found 1 streaming query with 41 batches" in said
        assert f"{NAME}: The least that meets it is 1 executor" in said
        assert "More executors than recorded help only with more partitions, for a batch has 2 tasks now" in said
        assert "An executor here runs 2 tasks at a time; `tuner init` and `tune` count replicas" in said
        assert "Executor-hours:" in said
        assert "Next: tuner init " in said

    def test_one_task_a_batch_is_told_from_no_use(self, tmp_path: Path) -> None:
        """`try` said that executors cannot help, and the demo scaled the same stream out to several."""
        said = succeed("try", DEMO)
        assert "help only with more partitions, for a batch has 1 task now" in said
        assert "if partitioned" in said
        assert "what a batch takes at the mean rate" in said
        succeed("init", DEMO, "--app", "clicks", "--folder", tmp_path)
        drafted = (tmp_path / "clicks.toml").read_text()
        assert "its batches had 1 task in the" in drafted
        assert "partitions =" not in drafted

    def test_a_folder_of_several_queries_gets_a_row_each(self, tmp_path: Path) -> None:
        write_log(tmp_path, WAVING).rename(tmp_path / "one")
        (tmp_path / "other").mkdir()
        write_log(tmp_path / "other", WAVING, name="taps")
        found = json.loads(succeed("try", tmp_path, "--json"))["queries"]
        assert sorted(one["query"] for one in found) == ["taps", "words"]
        assert all(one["answer"]["least"] for one in found)

    def test_what_is_no_log_is_refused_in_a_sentence(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("nothing\n")
        assert "nothing there is known; name the event log of a Structured" in refuse("try", tmp_path / "notes.txt")
        assert "missing" in refuse("try", tmp_path / "missing")
        assert "--r-max is -1 s" in refuse("try", RECORDED, "--r-max", "-1")


class TestInit:
    def test_the_scenario_is_simulated_added_and_tuned(self, db: Path) -> None:
        said = succeed("init", RECORDED, "--app", "clicks", "--folder", db / "mine")
        assert "Next: tuner app add " in said
        scenario = db / "mine" / "clicks.toml"
        table = json.loads(succeed("simulate", scenario, "--no-floor", "--json"))["policies"]
        assert [row["policy"] for row in table] == ["planner"]
        succeed("app", "add", "clicks", scenario)
        shown = json.loads(succeed("app", "show", "clicks", "--json"))
        assert [one["name"] for one in shown["operators"]] == [NAME]
        (drafted,) = shown["operators"]  # 4 ms of sleep, and a task's own time; a replica is a core, as agents count it
        assert drafted["service_time"] == pytest.approx(0.0077, rel=0.02)
        assert [one["name"] for one in shown["node_types"]] == [ONE_TYPE.name]

    def test_ingestion_names_the_query_as_the_scenario_does(self, db: Path) -> None:
        succeed("ingest", RECORDED, "--app", "clicks", "--window", 5)
        names = {row["operator"] for row in json.loads(succeed("samples", "clicks", "--limit", 0, "--json"))}
        assert names == {NAME}

    def test_the_snippet_attaches_to_the_operators_by_name(self, db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        succeed("init", RECORDED, "--app", "clicks", "--folder", db)
        snippet = runpy.run_path(str(db / "clicks_driver.py"))
        assert snippet["OPERATORS"] == [NAME]
        given: list[Any] = []
        signature = inspect.signature(scaler.attach)
        monkeypatch.setattr(scaler, "attach", lambda *args, **named: given.append(signature.bind(*args, **named)))
        snippet["attach"]("the session")
        assert given[0].arguments["app"] == "clicks"
        assert given[0].arguments["settings"].slot_s == 10.0

    def test_several_queries_share_the_arrivals(self, tmp_path: Path) -> None:
        logs_folder = tmp_path / "logs"
        logs_folder.mkdir()
        write_log(logs_folder, WAVING).rename(logs_folder / "one")
        (logs_folder / "other").mkdir()
        write_log(logs_folder / "other", [3 * size for size in WAVING], name="taps")
        succeed("init", logs_folder, "--app", "both", "--folder", tmp_path)
        text = (tmp_path / "both.toml").read_text()
        assert "sources = { " in text
        assert succeed("simulate", tmp_path / "both.toml", "--no-floor", "--policy", "static").startswith("policy")

    def test_files_that_are_there_stay(self, tmp_path: Path) -> None:
        (tmp_path / "clicks.toml").write_text("mine")
        assert "clicks.toml is there already" in refuse("init", RECORDED, "--app", "clicks", "--folder", tmp_path)
        assert sorted(file.name for file in tmp_path.iterdir()) == ["clicks.toml"]
        assert "is no name for an application" in refuse("init", RECORDED, "--app", "a/b", "--folder", tmp_path)
        assert run("init", RECORDED, "--app", "clicks", "--folder", tmp_path, "--force").exit_code == 0


def test_a_short_log_has_no_description(tmp_path: Path) -> None:
    write_log(tmp_path, [80, 80])
    assert "has 2 batches with records in the log" in refuse("init", tmp_path, "--app", "shop", "--folder", tmp_path)


def test_replicas_without_a_type_are_of_the_only_one() -> None:
    assert name_alike({"": 2}, [ONE_TYPE]) == {"executor": 2}
    assert name_alike({"": 2}, [ONE_TYPE, ONE_TYPE]) == {"": 2}
    assert name_alike({"big": 1, "": 2}, [ONE_TYPE]) == {"big": 1, "": 2}
    assert name_alike(None, [ONE_TYPE]) is None
