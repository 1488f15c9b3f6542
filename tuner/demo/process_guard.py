"""Run a command for as long as the process that started it lives.

Run as a process of its own between the two, by its path: whoever starts it holds the other end of its input, so that
the end of that process, by SIGKILL too, ends the command and all that it started in its group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

GRACE_S = 10.0  # from SIGTERM to SIGKILL
LOOK_S = 0.1


@contextmanager
def guarded(
    command: Sequence[str], environment: Mapping[str, str], log: Path, folder: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The guard of a running command; on leaving both are gone. What they say is in the log."""
    with log.open("wb") as sink:
        guard = subprocess.Popen(
            [sys.executable, "-I", __file__, *command], env=dict(environment), cwd=folder, stdin=subprocess.PIPE,
            stdout=sink, stderr=sink, start_new_session=True,
        )  # fmt: skip
    try:
        yield guard
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        guard.wait()


def main(command: Sequence[str]) -> int:
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())

    def listen() -> None:
        while os.read(0, 1024):
            pass
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    while process.poll() is None and not over.wait(LOOK_S):
        pass
    end(process)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def end(process: subprocess.Popen[bytes]) -> None:
    """Asked first, so that it can end its own, and then the whole group."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
