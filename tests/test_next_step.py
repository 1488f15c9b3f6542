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
    assert run("app", "add", "shop", "shop.toml").startswith("tuner ingest LOG_OR_FOLDER --app shop --window 10  ")
    assert drafted[1].strip() == f"tuner ingest {LOG} --app shop --window 10"
    assert run(*drafted[1].split()[1:]).startswith("tuner surrogate fit shop")
    assert run("surrogate", "fit", "shop").startswith("tuner tune shop  ")
    assert run("ingest", LOG, "--app", "other", "--window", "120").startswith("tuner init LOG_OR_FOLDER")
    assert "--app 'my shop'  " in run("ingest", LOG, "--app", "my shop")
    run("app", "add", "other", "shop.toml")
    assert "tuner tune other --as-described" in run("surrogate", "fit", "other")


def warn(*words: str) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code in (0, 1), result.output
    return "\n".join(line for line in result.stderr.splitlines() if line.startswith("Warning: "))


def test_operators_of_other_names_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log went into an application with another operator without a word; only `tune` noticed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_STORE", str(tmp_path / "tuner.db"))
    succeed("init", LOG, "--app", "shop")
    text = Path("shop.toml").read_text()
    Path("shop.toml").write_text(text.replace('name = "parse"', 'name = "prase"'))
    assert warn("app", "add", "shop", "shop.toml") == ""
    told = "the monitoring of shop has parse, where its description has prase (did you mean 'parse'?)"
    assert told in warn("ingest", LOG, "--app", "shop", "--window", "10")
    assert told in warn("app", "add", "shop", "shop.toml")
    assert told in warn("surrogate", "fit", "shop")
    Path("shop.toml").write_text(text)
    assert warn("app", "add", "shop", "shop.toml") == ""
    mistyped = warn("ingest", LOG, "--app", "shopp", "--window", "120")
    assert mistyped.endswith("no application is described under the name shopp; did you mean 'shop'?")


def test_a_bound_in_a_wrong_unit_is_doubted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without samples by what deployments can do, with samples by what was observed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_STORE", str(tmp_path / "tuner.db"))
    succeed("init", LOG, "--app", "shop")
    assert warn("app", "add", "shop", "shop.toml", "--r-max", "6s") == ""
    assert "so that most slots are late; state its unit" in warn("app", "add", "shop", "shop.toml", "--r-max", "6ms")
    assert "hardly any slot can be late" in warn("app", "add", "shop", "shop.toml", "--r-max", "6h")
    assert "so that most slots are late" in warn("simulate", "shop.toml", "--r-max", "6ms", "--policy", "static")
    assert warn("simulate", "shop.toml", "--policy", "static") == ""
    succeed("ingest", LOG, "--app", "shop", "--window", "10")
    assert "the responses of parse took" in warn("app", "add", "shop", "shop.toml", "--r-max", "6ms")
    said = succeed("try", LOG, "--r-max", "6ms")
    assert "R_max is 6 ms, and the responses of parse took" in said
    assert "state its unit" not in succeed("try", LOG, "--r-max", "6s")
