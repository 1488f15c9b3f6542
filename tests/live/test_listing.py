"""A batch of more files than Spark lists in the driver, on a cluster whose only core is an operator's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.drive_listing import BATCHES, FILES
from tests.live.test_plain_driver import OBJECTIVE
from tuner.demo.cluster import ROOT, Worker, make_environment, start_cluster

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.xdist_group("spark")]


def run_driver(folder: Path, cores: int) -> dict[str, Any]:
    objective = {**OBJECTIVE, "operators": {"count": {**OBJECTIVE["operators"]["parse"], "k_max": 1}}}  # type: ignore[index]
    (folder / "objective.json").write_text(json.dumps(objective))
    with start_cluster(folder / "cluster", [Worker("127.0.0.2", "small", 1.0, cores, "3g")]) as master:
        done = subprocess.run(
            [sys.executable, "-m", "tests.live.drive_listing", master, str(folder)],
            cwd=ROOT, env=make_environment("127.0.0.1"), capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    print(done.stderr[-4000:])
    told: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return told


def test_files_listed_by_a_job_of_no_operator_are_read(tmp_path: Path) -> None:
    told = run_driver(tmp_path, 1)
    print(told["took"])
    assert told["seen"] == list(range(BATCHES * FILES))
    assert told["served"] == {"small": 1}
