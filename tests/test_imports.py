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
        ("import scaler; scaler.pin; scaler.attach; scaler.AttachSettings; scaler.ServiceTimer", set()),
        ("import scaler.policies.planner.planner, scaler.model.policy", set()),
        ("import scaler.link, scaler.agent, scaler.agent.attach", set()),
        ("import sim.simulate, sim.trace, sim.floor", set()),
        ("import tuner", set()),
    ],
)
def test_a_bare_import_loads_nothing_heavy(statement: str, allowed: set[str]) -> None:
    assert loaded_by(statement) <= allowed


DRIVE = """
import numpy as np
from scaler import attach
from scaler.model.policy import build_policy
from scaler.policies import find_policy
from tests.examples import make_rates, make_task, replay
task = make_task(types=2, k_max=3)
replay(task, make_rates(20), build_policy(find_policy("planner"), task))
""".strip().replace("\n", "; ")


def test_a_driver_interprets_policies_whatever_was_imported_first() -> None:
    assert loaded_by(DRIVE) == set()
    assert loaded_by(f"import sim.simulate; {DRIVE}") == set()


def test_the_simulator_compiles_after_a_driver() -> None:
    again = 'replay(task, make_rates(20), find_policy("threshold-c"))'
    assert "numba" in loaded_by(f"{DRIVE}; {again}")
