"""The systemd unit and the container file: read by systemd where it is, else by a parser; what they run exists."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import click
import pytest

from tuner.cli import main

ROOT = Path(__file__).parents[2]
SHIP = files("tuner.ship")
UNIT = SHIP.joinpath("stream-scaler.service").read_text()
CONTAINER = SHIP.joinpath("Containerfile").read_text()
INSTRUCTIONS = {"FROM", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


def read_unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT)
    return parser


def list_instructions() -> list[tuple[str, str]]:
    """Instructions of the container file, continued lines joined."""
    lines = [line for line in CONTAINER.splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(head, rest) for head, _, rest in (line.partition(" ") for line in joined.splitlines())]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "stream-scaler.service"
    path.write_text(UNIT.replace("/opt/stream-scaler/bin/tuner", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True, timeout=60)
    about = [line for line in done.stderr.splitlines() if path.name in line]
    assert (done.returncode, about) == (0, []), done.stderr


def test_the_unit_runs_the_service_on_a_store_of_its_own() -> None:
    unit = read_unit()
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    assert shlex.split(service["ExecStart"])[1:] == ["serve", "$TUNER_FLAGS"]
    folder = f"/var/lib/{service['StateDirectory']}"
    assert f"Environment=TUNER_STORE={folder}/tuner.db" in UNIT
    assert f"Environment=XDG_CACHE_HOME=/var/cache/{service['CacheDirectory']}" in UNIT


def test_the_container_is_of_wheels_and_not_of_root() -> None:
    instructions = list_instructions()
    assert {head for head, _ in instructions} == INSTRUCTIONS
    values = dict(instructions)
    assert "--no-index --find-links /wheels" in values["RUN"]
    assert values["USER"] != "root"
    assert values["ENV"] == f"TUNER_STORE={values['VOLUME']}/tuner.db"
    extras = re.search(r"stream-scaler\[([\w,]+)\]", values["RUN"])
    assert extras is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras[1].split(",")) <= project["optional-dependencies"].keys()
    command = main.get_command(click.Context(main), values["CMD"].strip('[]"'))
    assert command is not None


def test_flags_of_the_comments_are_those_of_the_service() -> None:
    command = main.get_command(click.Context(main), "serve")
    assert command is not None
    known = {name for option in command.params for name in option.opts}
    (line,) = re.findall(r"#     (serve .*)", CONTAINER)
    assert {word for word in line.split() if word.startswith("--")} <= known
