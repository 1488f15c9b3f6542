"""A real `tuner serve` process on a database, its address, and a token of all scopes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tuner.service.access.token import SCOPES, make_token
from tuner.store.connection import Store

PATIENCE = 60.0  # seconds
SERVE = [sys.executable, "-c", "from tuner.cli.serve_commands import serve; serve()", "--port", "0", "--no-daemon"]


@dataclass(frozen=True, slots=True)
class ServeProcess:
    process: subprocess.Popen[str]
    url: str
    told: list[str]
    reader: threading.Thread

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return code

    def kill(self) -> None:
        """As kill -9 does."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        assert self.process.stderr is not None
        self.process.stderr.close()


def start_service(address: str, *arguments: str) -> ServeProcess:
    return hear([*SERVE, "--store", address, *arguments])


def hear(command: Sequence[str], stdout: int | None = None) -> ServeProcess:
    """The service once it listens; what it tells is read as it comes, for a full pipe would stop it."""
    process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True)
    told: list[str] = []
    heard = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            told.append(line)
            if '"listening"' in line:
                heard.set()
        heard.set()

    reader = threading.Thread(target=read)
    reader.start()
    heard.wait(PATIENCE)
    urls = [str(json.loads(line)["url"]) for line in told if '"listening"' in line]
    served = ServeProcess(process, "".join(urls[:1]), told, reader)
    if not urls:
        served.kill()
        raise AssertionError(told)
    return served


@contextmanager
def service(address: str, *arguments: str) -> Iterator[ServeProcess]:
    served = start_service(address, *arguments)
    try:
        yield served
    finally:
        served.kill()


def add_secret(store: Store, name: str = "all", scopes: tuple[str, ...] = tuple(SCOPES)) -> str:
    with store.begin() as session:
        return make_token(session, name, scopes, "a test", time.time())[1]
