"""A wheel of the release before, in a virtual environment of its own that borrows this one's dependencies.

The last tag is that release. Where there is none it is the commit before the newest migration, whose programs know the
schema before.
"""

from __future__ import annotations

import io
import subprocess
import sys
import sysconfig
import tarfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tuner.store.schema_version import HEAD

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0  # seconds
TELL = "import tuner.store.schema_version as found; print(found.__file__, found.HEAD)"


@dataclass(frozen=True, slots=True)
class Release:
    python: Path
    commit: str
    schema: str

    def command(self, program: str, *arguments: str) -> list[str]:
        """Isolated: neither the working folder nor PYTHONPATH leads to the newer program."""
        return [str(self.python), "-I", "-c", program, *arguments]


def run(*command: str | Path, cwd: Path = ROOT) -> bytes:
    return subprocess.run(command, cwd=cwd, capture_output=True, check=True, timeout=PATIENCE).stdout


def find_commit() -> str:
    """Of the release before; skips the test where there is no history to find it in."""
    try:
        top = Path(run("git", "rev-parse", "--show-toplevel").decode().strip())
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git checkout: the release before cannot be built")
    if top != ROOT:
        pytest.skip(f"{ROOT} is part of another git checkout: the release before cannot be built")
    if tags := run("git", "tag", "--merged", "HEAD", "--sort=-creatordate").decode().split():
        return tags[0]
    newest = f"migrations/versions/{HEAD}_*.py"
    added = run("git", "log", "--diff-filter=A", "--format=%H", "--", newest).decode().split()
    if not added:
        pytest.skip(f"{newest} is not committed: no commit is known to be before it")
    return f"{added[-1]}^"  # the first one: it may have been renamed since


def build_release(folder: Path) -> Release:
    if find_spec("setuptools") is None:
        pytest.skip("no setuptools here: the release before cannot be built without downloading it")
    commit = run("git", "rev-parse", "--short", find_commit()).decode().strip()
    source, environment = folder / "source", folder / "older"
    with tarfile.open(fileobj=io.BytesIO(run("git", "archive", commit))) as archive:
        archive.extractall(source, filter="data")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, source, cwd=folder)
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=folder)
    python = environment / "bin" / "python"
    (wheel,) = folder.glob("*.whl")
    run(*pip, "--python", python, "install", "-q", "--no-deps", "--no-index", wheel, cwd=folder)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")  # after its own
    place, schema = run(python, "-I", "-c", TELL, cwd=folder).decode().split()
    assert Path(place).is_relative_to(environment)
    return Release(python, commit, schema)
