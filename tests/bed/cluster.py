"""The demo's cluster, as the test bed has it: its two node types, and a stop for processes that it starts itself."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from tests.bed.plan import SPEEDS
from tuner.demo import cluster
from tuner.demo.cluster import (
    ROOT,
    SPEED,
    Worker,
    find_page,
    make_command,
    make_environment,
    offer,
    start_daemon,
    start_worker,
    wait_for,
    write_worker,
)

__all__ = [
    "ROOT", "SPEED", "WORKERS", "Worker", "find_page", "make_command", "make_environment", "offer", "start_cluster",
    "start_daemon", "start_worker", "stop", "wait_for", "write_worker",
]  # fmt: skip
WORKERS = (
    Worker("127.0.0.2", "small", SPEEDS["small"]),
    Worker("127.0.0.3", "large", SPEEDS["large"]),
)


def start_cluster(folder: Path, workers: Sequence[Worker] = WORKERS) -> AbstractContextManager[str]:
    """The address of the master of a cluster whose workers have all registered; stopped, executors too, on leaving."""
    return cluster.start_cluster(folder, workers)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group: asked first, so that it can end its children, and then the whole group."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
