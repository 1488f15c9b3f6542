"""Managers and workers that a proof kills and starts again where they were."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.bed.run import stop
from tests.live.proof_stream import APP
from tuner.demo.cluster import ROOT, Worker, make_environment, wait_for, write_worker
from tuner.demo.demo_run import make_tokens

STORE = "manager.db"
ASIDE = ("", "-wal", "-shm")  # files of the database


class Killable:
    """A process that leads a group of its own; `kill` is SIGKILL to it alone, `start` the same again.

    Each start has a log of its own, numbered from 0.
    """

    def __init__(self, command: list[str], environment: dict[str, str], log: Path, says: str) -> None:
        self.command, self.environment, self.log, self.says = command, environment, log, says
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """What it says once it is up."""
        log = self.log.with_stem(f"{self.log.stem}{self.starts}")
        self.starts += 1
        with log.open("wb") as sink:
            self.process = subprocess.Popen(
                self.command, env=self.environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
                start_new_session=True,
            )  # fmt: skip
        return wait_for(log, self.says, process=self.process)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            stop(self.process)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)


@contextmanager
def killable_worker(folder: Path, worker: Worker, master: str) -> Iterator[Killable]:
    command, environment = write_worker(folder, worker, master)
    process = Killable(command, environment, folder / f"{worker.host}.log", "(Successfully registered with master)")
    try:
        process.start()
        yield process
    finally:
        process.close()


@contextmanager
def killable_manager(folder: Path) -> Iterator[tuple[Killable, str]]:
    """A `tuner serve` that comes back under the same address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    store = folder / STORE
    make_tokens(store, folder, APP)
    program = [sys.executable, "-c", "from tuner.cli import main; main()", "serve", "--no-daemon"]
    command = [*program, "--port", str(port), "--store", str(store)]
    process = Killable(command, make_environment("127.0.0.1"), folder / "manager.log", r'"url": ?"(http[^"]+)"')
    try:
        yield process, process.start()
    finally:
        process.close()


class Lock:
    """Keeps everybody else from writing to the database, as one that does not answer."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / STORE
        self.held: sqlite3.Connection | None = None

    def acquire(self) -> None:
        self.held = sqlite3.connect(self.path, isolation_level=None, timeout=30.0, check_same_thread=False)
        self.held.execute("BEGIN EXCLUSIVE")

    def release(self) -> None:
        if self.held is not None:
            self.held.close()
            self.held = None


def move_away(folder: Path) -> None:
    """The database is gone from where it was."""
    (folder / "away").mkdir()
    for ending in ASIDE:
        with suppress(FileNotFoundError):
            (folder / (STORE + ending)).rename(folder / "away" / (STORE + ending))


def move_back(folder: Path) -> None:
    for ending in ASIDE:
        (folder / (STORE + ending)).unlink(missing_ok=True)  # that somebody made in the meantime
        with suppress(FileNotFoundError):
            (folder / "away" / (STORE + ending)).rename(folder / (STORE + ending))
