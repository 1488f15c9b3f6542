"""A driver as the README tells, on a real standalone cluster: its scaler gives it the replicas that it needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.demo.cluster import ROOT, Worker, make_environment, start_cluster

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.xdist_group("spark")]
SECONDS = 75
OBJECTIVE = {
    "version": 1,
    "weights": {"perf": 0.6, "rcf": 0.02, "res": 0.38},
    "policy": "planner",
    "nodes": [{"name": "small", "speedup": 1.0, "price": 1.0}],
    "operators": {
        "parse": {"bound": 4.0, "constant": 4.0, "mean": 0.11, "variance": 0.006, "k_max": 3, "highest_rate": 20.0}
    },
}


def test_it_is_scaled_from_nothing_and_nothing_is_done_by_hand(tmp_path: Path) -> None:
    (tmp_path / "objective.json").write_text(json.dumps(OBJECTIVE))
    worker = Worker("127.0.0.2", "small", 1.0, 4, "3g")  # one core and a gigabyte are for stages of no operator
    with start_cluster(tmp_path / "cluster", [worker]) as master:
        command = [sys.executable, "-m", "tests.live.plain_driver", master, str(tmp_path), str(SECONDS)]
        done = subprocess.run(
            command, cwd=ROOT, env=make_environment("127.0.0.1"), capture_output=True, text=True, timeout=SECONDS + 90,
            check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    decisions = [json.loads(line) for line in (tmp_path / "scaler" / "decisions.jsonl").read_text().splitlines()]
    for one in decisions:
        print(one["kind"], one["action"], one["seen"], one["reason"])
    served = [one["seen"]["deployment"].get("small", 0) for one in decisions]
    assert max(served) >= 2
    assert max(served) <= OBJECTIVE["operators"]["parse"]["k_max"]  # type: ignore[index]
    assert {one["kind"] for one in decisions} >= {"SCALED", "NO_CHANGE"}
