"""The settings reference has every option of every command, every key of every TOML table and every argument."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields

import click
import pytest

import scaler
from sim import application, infrastructure
from sim.toml_table import Kind
from tests.guide import meanings
from tests.guide.settings_reference import describe, find_variables, list_commands
from tests.guide.test_blocks import PAGES
from tuner.guide.pages import read_page
from tuner.lab import plan
from tuner.rollout import retuning_settings
from tuner.scenario import layout
from tuner.service.access import oidc_settings

PAGE = read_page("settings")
TABLES: dict[str, dict[str, Kind]] = {
    **{f"[{name}]": kinds for name, kinds in layout.KINDS.items()},
    "[[application.operator]]": application.OPERATOR,
    "[application.operator.hold]": application.HOLD,
    "[application.operator.batches]": application.BATCHES,
    "[[application.edge]]": application.EDGE,
    "[[infrastructure.node]]": infrastructure.NODE,
    "Retuning": retuning_settings.KINDS,
    "Log-in of people (`tuner serve --oidc FILE`)": oidc_settings.KINDS,
    "[[group]]": oidc_settings.GROUP_KINDS,
    "Plan of a benchmark (`tuner lab compare`)": {name: kind for name, (kind, _) in plan.PLAN.items()},
    "[[workload]]": plan.WORKLOAD,
}


def find_section(heading: str) -> str:
    """The text from a heading to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", PAGE, re.S | re.M)
    assert found is not None, heading
    return found[1]


@pytest.mark.parametrize("path", list_commands())
def test_each_option_of_a_command_is_documented(path: str) -> None:
    section = find_section(path)
    for one in list_commands()[path].params:
        if isinstance(one, click.Option):
            assert all(f"`{name}`" in section for name in (*one.opts, *one.secondary_opts))
            assert (one.help or "").replace("|", "\\|") in section


@pytest.mark.parametrize("heading", TABLES)
def test_each_key_of_a_table_is_documented(heading: str) -> None:
    keys = re.findall(r"^\| `(\w+)` \|", find_section(heading), re.M)
    assert keys == list(TABLES[heading])


def test_each_argument_of_attach_is_documented() -> None:
    assert all(f"| `{name}` |" in find_section("scaler.attach") for name in inspect.signature(scaler.attach).parameters)
    for one in fields(scaler.AttachSettings):
        assert f"| `{one.name}` |" in find_section("scaler.AttachSettings")


def test_each_variable_of_the_environment_is_documented() -> None:
    assert {"TUNER_STORE", "TUNER_OIDC_SECRET", "XDG_DATA_HOME", "JAVA_HOME"} <= find_variables()
    assert all(f"| `{name}` |" in find_section("Environment variables") for name in find_variables())


def test_a_key_without_a_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match="'weights', and the code do not agree on new"):
        describe("weights", [(name, "", None) for name in (*meanings.MEANINGS["weights"], "new")])


def test_options_named_in_sentences_exist() -> None:
    """Of any command: a flag that was renamed is found in prose, too."""
    known = {name for one in list_commands().values() for option in one.params if isinstance(option, click.Option)
             for name in (*option.opts, *option.secondary_opts)}  # fmt: skip
    others = {"--long", "--help", "--version"}  # pytest's, and those that click has
    for name, path in PAGES.items():
        for code in re.findall(r"`([^`\n]+)`", path.read_text(encoding="utf-8")):
            flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", code)) if code.startswith(("--", "tuner ")) else set()
            assert flags <= known | others, (name, code)
