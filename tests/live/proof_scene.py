"""What the proofs and the benches run: one node type, records that cost sleep, a bound, and what matters how much."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from scaler.model.task import Moments
from tests.live.proof_stream import Setup
from tuner.demo.cluster import Worker, find_page, start_cluster

SMALL = ("small", 1.0, 1.0)  # name, speedup, price
K_MAX = 4
COST = 0.12  # seconds of a record, slept
BELIEVED = Moments(0.135, 0.5 * 0.135**2)  # of a record, with what tasks take of a replica beside that
BOUND, CONSTANT = 8.0, 4.0  # seconds of an answer; of these what micro-batches take though nothing waits
WEIGHTS = {"perf": 0.6, "rcf": 0.02, "res": 0.38}
CALM, HIGH = 5.0, 15.0  # records per second: a replica serves about seven
RISE, FALL, END = 20.0, 90.0, 140.0
LEVELS = ((RISE, CALM), (FALL - RISE, HIGH), (END - FALL, CALM))


def make_setup(levels: tuple[tuple[float, float], ...] = LEVELS, master: str = "", page: str = "") -> Setup:
    return Setup(master, page, levels, COST, (SMALL,), {"small": 1}, k_max=K_MAX, most=72, piece=8)


def make_worker() -> Worker:
    """With room for all replicas."""
    return Worker("127.0.0.2", SMALL[0], SMALL[1], K_MAX, f"{650 * K_MAX}m")


def run_bench(says: str | None, levels: tuple[tuple[float, float], ...], run: Callable[[Setup, Path], None]) -> None:
    """A bench on a cluster of its own, as its command line asks for."""
    parser = argparse.ArgumentParser(description=says, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="leave everything in this new folder")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = asked.folder or Path(made)
        with start_cluster(folder / "cluster", [make_worker()]) as master:
            run(make_setup(levels, master, find_page(folder / "cluster")), folder)
