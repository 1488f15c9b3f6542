"""The locks name what pyproject allows, whole, with hashes and no place to fetch it from; and the SBOM of a release."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {
    "driver.txt": [],
    "manager.txt": ["tuner", "postgres", "oidc"],
    "pipeline.txt": ["tuner", "postgres", "oidc", "spark"],
}
PLATFORM = {  # that the locks are for
    "python_version": "3.11", "python_full_version": "3.11.9", "sys_platform": "linux", "platform_system": "Linux",
    "platform_machine": "x86_64", "implementation_name": "cpython", "platform_python_implementation": "CPython",
    "os_name": "posix",
}  # fmt: skip
ENTRY = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?P<hashes>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")
SBOM = shutil.which("cyclonedx-py", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


def read_lock(name: str) -> dict[str, Version]:
    """What it pins; that there is nothing else in it."""
    text = (ROOT / ".lock" / name).read_text(encoding="utf-8")
    entries = list(ENTRY.finditer(text))
    assert "".join(entry[0] for entry in entries) == text
    assert len({entry["name"] for entry in entries}) == len(entries)
    return {entry["name"]: Version(entry["version"]) for entry in entries}


def list_wanted(extras: list[str]) -> list[Requirement]:
    """What pyproject asks for with these extras, those that they name in turn included."""
    own = {**PROJECT["optional-dependencies"], "": PROJECT["dependencies"]}
    wanted, ahead = [], ["", *extras]
    while ahead:
        for text in own[ahead.pop()]:
            asked = Requirement(text)
            if asked.name == PROJECT["name"]:
                ahead.extend(asked.extras)
            else:
                wanted.append(asked)
    return wanted


@pytest.mark.parametrize("name", EXTRAS)
def test_locked_versions_are_those_that_pyproject_allows(name: str) -> None:
    lock = read_lock(name)
    for wanted in list_wanted(EXTRAS[name]):
        found = lock[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(found), (str(wanted), str(found))


@pytest.mark.parametrize("name", EXTRAS)
def test_a_lock_is_whole(name: str) -> None:
    """Whatever a locked package needs is locked, too: as installed ones of the same version say, and most are."""
    lock, looked = read_lock(name), 0
    asked = {canonicalize_name(wanted.name): wanted.extras for wanted in list_wanted(EXTRAS[name])}
    for package, pinned in lock.items():
        try:
            if Version(version(package)) != pinned:
                continue
        except PackageNotFoundError:
            continue
        looked += 1
        for needed in map(Requirement, requires(package) or ()):
            extras = ["", *asked.get(package, ())]
            if needed.marker is None or any(needed.marker.evaluate({**PLATFORM, "extra": one}) for one in extras):
                found = lock.get(canonicalize_name(needed.name))
                assert found is not None, (package, str(needed))
                assert needed.specifier.contains(found, prereleases=True), (package, str(needed), str(found))
    if sys.version_info[:2] == (3, 11):  # elsewhere many have other versions
        assert looked >= len(lock) / 2


def test_the_smaller_locks_have_the_versions_of_the_largest() -> None:
    driver, manager, pipeline = map(read_lock, EXTRAS)
    assert driver.items() <= manager.items() <= pipeline.items()
    assert set(driver) == {"numpy"}


def test_no_graphics_card_is_needed_and_torch_is_for_processors() -> None:
    manager = read_lock("manager.txt")
    assert manager["torch"].local == "cpu"
    assert not [name for name in manager if name.startswith(("nvidia", "cuda", "triton"))]


def make_sbom(folder: Path, *arguments: str) -> dict[str, Any]:
    assert SBOM is not None
    path = os.pathsep.join([str(Path(SBOM).parent), os.environ["PATH"]])
    command = [str(ROOT / ".lock" / "sbom"), str(folder / "sbom.json"), *arguments]
    ended = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads((folder / "sbom.json").read_text()))


def list_components(sbom: dict[str, Any]) -> dict[str, Version]:
    return {canonicalize_name(one["name"]): Version(one["version"]) for one in sbom["components"]}


needs_tool = pytest.mark.skipif(SBOM is None, reason="there is no cyclonedx-py here (package cyclonedx-bom)")


@needs_tool
@pytest.mark.slow
def test_the_sbom_names_every_package_and_who_needs_it(tmp_path: Path) -> None:
    sbom = make_sbom(tmp_path, sys.executable)
    assert (sbom["bomFormat"], sbom["metadata"]["component"]["name"]) == ("CycloneDX", PROJECT["name"])
    assert sbom["metadata"]["component"]["version"] == PROJECT["version"]
    components = list_components(sbom)
    for wanted in list_wanted(EXTRAS["pipeline.txt"]):
        assert components[canonicalize_name(wanted.name)] == Version(version(wanted.name))
    assert all(one["purl"].startswith("pkg:") for one in sbom["components"] if one["name"] != PROJECT["name"])
    needs = {one["ref"]: one.get("dependsOn", []) for one in sbom["dependencies"]}
    root = {canonicalize_name(ref.partition("==")[0]) for ref in needs[sbom["metadata"]["component"]["bom-ref"]]}
    assert {canonicalize_name(wanted.name) for wanted in list_wanted(EXTRAS["pipeline.txt"])} <= root


@needs_tool
@pytest.mark.long
def test_the_lock_installs_and_the_sbom_of_it_is_the_lock(tmp_path: Path) -> None:
    """With torch for processors where pip finds it; 1 GB, and minutes."""
    assert list_components(make_sbom(tmp_path)) == read_lock("manager.txt")
