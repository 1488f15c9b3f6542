"""Every command names the next one, by what the database has of the application."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.commands import succeed
from tuner.cli import main

LOG = str(files("tuner.demo").joinpath("recorded/clicks.zstd"))


def run(*words: str) -> str:
    """The command that these words name next."""
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code in (0, 1), result.output
    return result.stderr.partition("Next: ")[2]


def test_each_command_names_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_STORE", str(tmp_path / "tuner.db"))
    drafted = succeed("init", LOG, "--app", "shop").partition("Next: ")[2].splitlines()
    assert drafted[0] == "tuner app add shop shop.toml"
    assert run("app", "add", "shop", "shop.toml").startswith("tuner ingest LOG_OR_FOLDER --app shop")
    assert drafted[1].strip() == f"tuner ingest {LOG} --app shop --window 10"
    assert run(*drafted[1].split()[1:]).startswith("tuner surrogate fit shop")
    assert run("surrogate", "fit", "shop").startswith("tuner tune shop  ")
    assert run("ingest", LOG, "--app", "other", "--window", "120").startswith("tuner init LOG_OR_FOLDER")
    assert "--app 'my shop'  " in run("ingest", LOG, "--app", "my shop")
    run("app", "add", "other", "shop.toml")
    assert "tuner tune other --as-described" in run("surrogate", "fit", "other")
