"""Help texts, lazy loading and missing packages, of all commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.commands import run
from tests.guide.settings_reference import PAGE, write_page
from tuner.cli import COMMANDS, main
from tuner.cli.lazy_group import Entry, LazyGroup, summary_of

ROOT = Path(__file__).parents[1]
NO_HEAD = re.compile(  # prepositions, conjunctions, pronouns and articles
    r"(about|above|after|against|along|among|around|as|at|because|before|behind|below|beside|between|beyond|by|down|"
    r"during|each|for|from|how|if|in|inside|instead|into|like|likewise|near|of|off|on|once|one|only|onto|or|out|over|"
    r"per|since|so|than|then|through|till|to|toward|under|until|up|upon|what|when|where|which|while|who|why|with|"
    r"within|without|this|that|these|those|it|its|their|here|there|the|a|an)\b(?!-)",
    re.IGNORECASE,
)
SLOW = ["sim.setting", "numpy", "alembic", "sqlalchemy.dialects.postgresql"]  # a tenth of a second each, or two
HEAVY = ("torch", "numba", "pyspark", "pandas", "scipy", "gpytorch", "skopt", "optuna", "pyarrow", "fastapi", "jinja2")


def walk(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    yield ctx.command_path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None
            yield from walk(below, click.Context(below, ctx, name))


ALL = dict(walk(main, click.Context(main, info_name="tuner")))


def list_options() -> list[tuple[str, click.Option]]:
    return [(path, one) for path, command in ALL.items() for one in command.params if isinstance(one, click.Option)]


@pytest.mark.parametrize("path", ALL)
def test_every_command_has_help_with_an_example(path: str) -> None:
    command = ALL[path]
    assert command.help
    assert "Example" in (command.epilog or "")
    assert f"  {path}" in (command.epilog or "")
    assert all(option.help for option in command.params if isinstance(option, click.Option))


@pytest.mark.parametrize("path", ALL)
def test_help_begins_with_a_noun_or_a_verb(path: str) -> None:
    options = [option.help or "" for option in ALL[path].params if isinstance(option, click.Option)]
    for text in (ALL[path].help or "", *options):
        assert text[:1].isupper(), text
        assert not NO_HEAD.match(text), text
        assert text.split("\n\n")[0].rstrip().endswith("."), text


def list_entries() -> Iterator[tuple[str, LazyGroup, Entry]]:
    for name, entry in COMMANDS.items():
        if isinstance(entry, LazyGroup):
            yield from ((f"tuner {name} {below}", entry, one) for below, one in entry.entries.items())
        else:
            yield f"tuner {name}", main, entry  # type: ignore[misc]


def test_the_overview_says_what_a_command_s_own_help_begins_with() -> None:
    for path, _, entry in list_entries():
        assert (ALL[path].help or "").partition("\n")[0] == summary_of(entry), path


@pytest.mark.parametrize(
    "name", ["--app", "--application", "--seed", "--seeds", "--json", "--html", "--keep", "--floor", "--store"]
)
def test_an_option_means_one_thing(name: str) -> None:
    """The sentence's first noun phrase is the same wherever the option is."""
    texts = [(one.help or "") for _, one in list_options() if name in one.opts]
    found = {re.split(r"[(,;:]| of ", text)[0].strip(" .") for text in texts}
    assert len(found) == 1, found


@pytest.mark.parametrize(
    ("statement", "own"),
    [
        ("import tuner.cli", ["tuner.store", "tuner.views", "tuner.scenario", "sim", "rich", "numpy", "sqlalchemy"]),
        ("import tuner.cli.lazy_group", ["tuner.store", "sim", "rich", "numpy", "sqlalchemy"]),
        ("import tuner.cli.admin_commands", SLOW),
        ("import tuner.cli.samples_commands", SLOW),
        ("import tuner.cli.agent_commands", SLOW),
        ("import tuner.cli.list_commands", SLOW),
        ("import tuner.cli.app_commands", []),
        ("import tuner.cli.trace_commands", []),
    ],
)
def test_a_light_command_loads_nothing_heavy(statement: str, own: list[str]) -> None:
    code = f"{statement}; import sys, json; print(json.dumps([m for m in {[*HEAVY, *own]} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


BLOCKED = """
import sys
from importlib.abc import MetaPathFinder
class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from tuner.cli import main
main({arguments})
"""


@pytest.mark.parametrize(
    ("packages", "arguments", "extra"),
    [
        (["sqlalchemy"], ["db", "check"], "store"),
        (["rich"], ["samples", "shop"], "tuner"),
        (["fastapi", "starlette"], ["serve"], "service"),
        (["pyspark", "py4j"], ["live", "demo", "--minutes", "0.5"], "spark"),
        (["jinja2"], ["tune", "shop"], "service"),
        (["pyarrow"], ["try", "rates.csv"], "tuner"),
        (["pyspark"], ["ingest", "rates.csv", "--app", "shop", "--store", "nowhere.db"], "spark"),
    ],
)
def test_a_missing_package_is_one_sentence(
    packages: list[str], arguments: list[str], extra: str, tmp_path: Path
) -> None:
    (tmp_path / "rates.csv").write_text("operator,start,end,rate\nparse,0,60,5\n")
    code = BLOCKED.format(packages=set(packages), arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": ""},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert done.stderr.endswith(f"install it with: pip install 'stream-scaler[{extra}]'\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["serve", "--help"], ["daemon", "--once"], ["trace", "export", "--help"]])
def test_what_needs_no_spark_runs_without_it(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "rates.csv").write_text("operator,start,end,rate\nparse,0,60,5\n")
    code = BLOCKED.format(packages={"pyspark", "py4j"}, arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_driver_without_click_is_told_the_extra(tmp_path: Path) -> None:
    code = BLOCKED.replace("tuner.cli", "tuner.__main__").format(packages={"click"}, arguments="")
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": ""},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.endswith("install it with: pip install 'stream-scaler[tuner]'\n")


def test_python_m_tuner_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tuner", "--version"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == run("--version").stdout


def test_the_settings_reference_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == write_page(), "write it anew: python -m tests.guide.settings_reference"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["demo", "--save", "mine.toml"],
        ["db", "upgrade", "--store", "tuner.db"],
        ["simulate", "--policy", "planner", "--slots", "50", "--no-floor"],
        ["tune", "--help"],
        ["serve", "--help"],
    ],
)
def test_commands_but_the_search_need_no_torch(arguments: list[str], tmp_path: Path) -> None:
    code = BLOCKED.format(packages={"torch", "gpytorch"}, arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_search_by_another_engine_needs_no_torch(tmp_path: Path) -> None:
    arguments = ["tune", "shop", "--engine", "random", "--budget", "2", "--slots", "200", "--store", "tuner.db"]
    made = [["demo", "--save", "shop.toml"], ["app", "add", "shop", "shop.toml", "--store", "tuner.db"], arguments]
    code = "\n".join(
        [*BLOCKED.format(packages={"torch", "gpytorch"}, arguments="").splitlines()[:-1]]
        + [f"main({each}, standalone_mode=False)" for each in made]
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": ""},
    )  # fmt: skip
    assert "torch" not in done.stderr, done.stderr
    assert "of run 1" in done.stdout or "tuning run 1" in done.stdout
