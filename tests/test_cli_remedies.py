"""What was made by mistake is taken back by a command; what the page can do, commands can do; copies can be read."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from scaler.model.sample import Sample
from scaler.model.task import Weights
from tests.commands import refuse, run, succeed
from tuner.store.audit_log import check_chain, list_events
from tuner.store.connection import open_store
from tuner.store.objectives import add_objective
from tuner.store.records import ObjectiveRecord, SourceMark
from tuner.store.samples import load_samples, save_marks, save_samples

EXAMPLE = str(files("tuner.demo").joinpath("demo.toml"))
NOBODY = 65534


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An application with a proposed objective, and samples under a misspelt name."""
    path = tmp_path / "tuner.db"
    monkeypatch.setenv("TUNER_STORE", str(path))
    succeed("app", "add", "clicks", EXAMPLE)
    operators = json.loads(succeed("app", "show", "clicks", "--json"))["document"]["application"]["operator"]
    with closing(open_store(path)) as store, store.begin() as session:
        bounds = {operator["name"]: 0.01 for operator in operators}
        add_objective(session, ObjectiveRecord("clicks", Weights(), bounds, 1.0, evidence={"cost": 3.5}))
        save_samples(session, [Sample("clcks", "parse", 0.0, 60.0, "table", tuples_in=3.0)])
        save_marks(session, [SourceMark("clcks", "/logs/a", 10, 1.0)])
    return path


def whats(path: Path, app: str) -> list[str]:
    with closing(open_store(path)) as store, store.read() as session:
        assert not check_chain(session).fault
        return [event.what for event in list_events(session, app)]


class TestNames:
    def test_a_name_that_only_samples_have_is_listed(self, db: Path) -> None:
        result = run("app", "list")
        assert "Monitored, and not described yet: clcks;" in result.stderr
        rows = json.loads(succeed("app", "list", "--json"))
        assert [(row["name"], row["version"]) for row in rows] == [("clicks", 1), ("clcks", None)]

    def test_a_misspelt_name_is_put_right_with_its_samples(self, db: Path) -> None:
        assert succeed("app", "rename", "clcks", "taps", "--why", "misspelt") == "clcks is taps now.\n"
        with closing(open_store(db)) as store, store.read() as session:
            assert [sample.application for sample in load_samples(session, "taps")] == ["taps"]
            assert load_samples(session, "clcks") == []
        assert whats(db, "taps") == ["renamed"]

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (("app", "rename", "nosuch", "shop"), "there is no application 'nosuch'; there are clicks"),
            (("app", "rename", "clcks", "clicks"), "there is an application 'clicks' already"),
            (("app", "rename", "clcks", "a/b"), "'a/b' is no name for an application"),
            (("app", "remove", "nosuch", "--yes"), "there is no application 'nosuch'; there are clicks"),
            (("app", "remove", "clcks"), "confirm it with --yes"),
            (("remove-run", "clicks", 9), "application 'clicks' has no tuning run 9; `tuner runs clicks` lists"),
            (("propose", "clicks", 9), "application 'clicks' has no objective 9"),
        ],
    )
    def test_what_cannot_be_taken_back_is_refused(self, db: Path, words: tuple[object, ...], sentence: str) -> None:
        assert sentence in refuse(*words, "--why", "a test")

    def test_an_application_is_removed_with_all_of_it(self, db: Path) -> None:
        history = db.with_name("tuner-history") / "application=clcks"
        history.mkdir(parents=True)
        assert succeed("app", "remove", "clcks", "--yes", "--why", "misspelt") == (
            "clcks is removed: 1 samples and 1 source marks.\n"
        )
        assert not history.exists()
        succeed("app", "remove", "clicks", "--yes", "--why", "not used any more")
        assert json.loads(succeed("app", "list", "--json")) == []
        assert whats(db, "clicks")[0] == "removed"

    def test_one_whose_agents_have_orders_stays_unless_forced(self, db: Path) -> None:
        succeed("push", "clicks", 1, "--stage", "full", "--why", "to begin")
        words = ("app", "remove", "clicks", "--yes", "--why", "a test")
        assert "agents of 'clicks' follow orders of this database" in refuse(*words)
        succeed(*words, "--force")


class TestRuns:
    def test_a_run_is_listed_and_removed_unless_an_objective_stems_from_it(self, db: Path) -> None:
        tune = ("tune", "clicks", "--engine", "random", "--budget", 1, "--slots", 600, "--policy", "threshold-c")
        assert run(*tune, "--r-max", "59ms").exit_code in (0, 1)
        made = json.loads(succeed("runs", "clicks", "--json"))[0]
        assert "59" in succeed("runs", "clicks")
        if any(one["trial"] for one in json.loads(succeed("objectives", "clicks", "--json"))):
            assert "whose evidence it is; it stays" in refuse("remove-run", "clicks", made["run"], "--why", "a test")
        assert run(*tune, "--eta-v", "0.1%").exit_code == 1  # nothing feasible
        other = json.loads(succeed("runs", "clicks", "--json"))[0]
        assert succeed("remove-run", "clicks", other["run"], "--why", "a test").startswith("clicks: run 2 is removed")
        assert [one["run"] for one in json.loads(succeed("runs", "clicks", "--json"))] == [made["run"]]


class TestObjectives:
    def test_one_that_was_rolled_back_is_proposed_anew(self, db: Path) -> None:
        succeed("push", "clicks", 1, "--why", "to begin")
        succeed("roll-back", "clicks", "--why", "an outage")
        assert refuse("push", "clicks", 1, "--why", "again").endswith("try them again: tuner propose clicks 1")
        assert "objective 2 is proposed, as 1 was" in succeed("propose", "clicks", 1, "--why", "it was the outage")
        assert "objective 2 is in shadow now" in succeed("push", "clicks", "--why", "again")
        shown = succeed("objectives", "clicks")
        assert [row.split()[1] for row in shown.splitlines()[2:]] == ["shadow", "rolled"]

    def test_what_was_done_is_listed(self, db: Path) -> None:
        succeed("push", "clicks", 1, "--why", "to begin")
        assert "pushed objective 1 to shadow: to begin" in " ".join(succeed("events", "clicks").split())
        assert "there is no application 'nosuch'" in refuse("events", "nosuch")
        assert run("events", "clcks").exit_code == 0


class TestControls:
    def test_pin_lock_and_block_stand_until_they_are_lifted(self, db: Path) -> None:
        succeed("control", "pin", "clicks", "--until", "6h", "--why", "release")
        succeed("control", "lock", "clicks", "out", "--operator", "parse", "--why", "sale")
        succeed("control", "block", "clicks", "08:00", "18:00", "--days", "mon,fri", "--why", "office hours")
        standing = json.loads(succeed("control", "list", "clicks", "--json"))
        assert {one["kind"]: one["settings"] for one in standing} == {
            "pin": {},
            "direction_lock": {"only": "out"},
            "blocked_hours": {"from": "08:00", "to": "18:00", "days": ["mon", "fri"], "zone": "UTC"},
        }
        assert "office hours" in succeed("control", "list", "clicks")
        succeed("control", "lift", "clicks", "pin", "--why", "released")
        assert "no pin stands for application 'clicks'" in refuse("control", "lift", "clicks", "pin", "--why", "twice")
        assert whats(db, "clicks")[:4] == ["control lifted", "control set", "control set", "control set"]

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (("pin", "clicks", "--operator", "foo"), "'clicks' has no operator 'foo'"),
            (("pin", "clicks", "--until", "2020-01-01"), "which is past"),
            (("block", "clicks", "8", "18:00"), "guard 'blocked_hours'"),
            (("block", "clicks", "08:00", "18:00", "--days", "someday"), "--days has 'someday', and may have mon"),
            (("pin", "nosuch"), "there is no application 'nosuch'"),
            (("retuning", "nosuch", "pause"), "there is no application 'nosuch'"),
        ],
    )
    def test_wrong_controls_are_refused(self, db: Path, words: tuple[str, ...], sentence: str) -> None:
        assert sentence in refuse("control", *words, "--why", "a test")

    def test_retuning_is_paused_by_a_request(self, db: Path) -> None:
        assert "clicks: asked for" in succeed("control", "retuning", "clicks", "pause", "--why", "release")
        assert whats(db, "clicks")[0] == "asked"


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A folder that is not ours to write to; root may write anywhere, so that it becomes somebody else meanwhile."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    yield folder
    os.seteuid(os.getuid())
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_read_only_database_can_be_read(db: Path, nobody: Path) -> None:
    with closing(open_store(db)) as store:
        assert store.address.path == db
    copy = nobody / "copy.db"
    succeed("db", "backup", copy)
    copy.chmod(0o444)
    nobody.chmod(0o555)
    if os.getuid() == 0:
        os.seteuid(NOBODY)
    assert "clicks" in succeed("app", "list", "--store", copy)
    assert "objective" in succeed("objectives", "clicks", "--store", copy)
    assert "is not yours to write to" in refuse("push", "clicks", 1, "--why", "a test", "--store", copy)
    assert list(nobody.iterdir()) == [copy]
