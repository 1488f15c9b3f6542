"""Run the test bed, from cluster to truth, into a folder.

python -m tests.bed.run FOLDER --loads .2 .35 .5 .65 .8 --seconds 40
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.bed.plan import SPEEDS, Plan, write_plan
from tests.bed.truth import write_truth
from tuner.demo.cluster import ROOT, Worker, make_environment, start_cluster

WORKERS = (
    Worker("127.0.0.2", "small", SPEEDS["small"]),
    Worker("127.0.0.3", "large", SPEEDS["large"]),
)


def run_bed(folder: Path, plan: Plan, patience: float = 300.0) -> None:
    """Start a cluster, run the application on it to its end, stop both; `folder` is new or empty."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    write_plan(plan, folder / "plan.json")
    with start_cluster(folder / "cluster", WORKERS) as master:
        run_driver(master, folder, plan.levels()[-1][1] + patience)


def run_driver(master: str, folder: Path, seconds: float) -> None:
    """The application as a process of its own; what it says goes to driver.log."""
    log = folder / "driver.log"
    command = [sys.executable, "-m", "tests.bed.application", master, str(folder)]
    with log.open("wb") as sink:
        driver = subprocess.Popen(
            command, cwd=ROOT, env=make_environment("127.0.0.1"), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
            start_new_session=True,
        )  # fmt: skip
    try:
        if driver.wait(seconds) != 0:
            raise RuntimeError(f"the driver of the bed failed:\n{log.read_text(errors='replace')[-4000:]}")
    finally:
        stop(driver)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group: SIGTERM first, so that it can end its children, and then the whole group."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--loads", type=float, nargs="+", default=[0.2, 0.35, 0.5, 0.65, 0.8])
    parser.add_argument("--seconds", type=float, default=40.0, help="at each load")
    parser.add_argument("--intervals", type=float, nargs=2, default=[1.0, 0.9], help="between triggers, of each")
    parser.add_argument("--rest", type=float, default=15.0, help="seconds at a low load, to start up")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--swapped", type=float, nargs="*", default=[0.4], help="loads after node types are swapped")
    told = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # else the cluster would outlive us
    loads, swapped, intervals = (tuple(values) for values in (told.loads, told.swapped, told.intervals))
    run_bed(told.folder, Plan(loads, told.seconds, swapped, told.rest, intervals, told.seed))
    write_truth(told.folder)


if __name__ == "__main__":
    main()
