"""Who may import whom, and what a bare import loads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ["torch", "pyspark", "pandas", "sqlalchemy", "scipy", "pyarrow", "click", "rich", "numba", "fastapi"]


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}; import sys, json; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_the_import_contracts_hold() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import scaler", set()),
        ("import scaler; scaler.pin; scaler.attach", set()),
        ("import scaler.policies, scaler.model.policy", {"numba", "scipy"}),
        ("import scaler.link, scaler.agent, scaler.agent.attach", {"numba", "scipy"}),
        ("import sim.simulate, sim.trace", {"numba", "scipy"}),
        ("import tuner", set()),
    ],
)
# numba, where it is installed, loads scipy for itself
def test_a_bare_import_loads_nothing_heavy(statement: str, allowed: set[str]) -> None:
    assert loaded_by(statement) <= allowed
