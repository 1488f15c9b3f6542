"""Processes that run `tuner ...`, forked from one that has imported and compiled already all that they need.

`python -m tests.search.processes`: lines of JSON in, {"start": [arguments], "log": file} or {"wait": process id}; the
process id, or the exit code (negative: a signal's number), out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}  # forks copy only one


def serve() -> None:
    prepare()
    answer(os.getpid())
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            answer(os.waitstatus_to_exitcode(os.waitpid(asked["wait"], 0)[1]))
            continue
        child = os.fork()
        if child == 0:
            become(asked["start"], asked["log"])
        answer(child)


def answer(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def prepare() -> None:
    """Import what a search imports late, and have the kernels compiled; all with the one thread that forks keep."""
    warnings.simplefilter("ignore", DeprecationWarning)
    import psycopg  # noqa: F401

    import tuner.cli.report_commands
    import tuner.cli.tune_command
    import tuner.search.tuning_run  # noqa: F401
    from sim.simulate import simulate
    from tests.search.runs import describe
    from tuner.scenario.description import scenario_of

    simulate(scenario_of(describe(slots=50)).settings[0], 0)
    tasks = os.listdir("/proc/self/task")
    if len(tasks) != 1:
        raise RuntimeError(f"{len(tasks)} threads run, and a fork keeps one of them")


def become(arguments: list[str], log: str) -> None:
    """Never returns: the process ends as `tuner` would, with its own exit code."""
    from tuner.cli import main

    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, own in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(number, own)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started pytest may have had it ignored
    main(arguments, prog_name="tuner")


class Tuners:
    """The other end: starts processes, one or several at a time, and says how they ended."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process, self.log = process, log
        self.running: set[int] = set()
        self.read()  # until it is prepared

    def read(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def ask(self, problem: dict[str, Any]) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{json.dumps(problem)}\n")
        self.process.stdin.flush()
        return self.read()

    def start(self, *arguments: object) -> int:
        child = self.ask({"start": [str(argument) for argument in arguments], "log": str(self.log)})
        self.running.add(child)
        return child

    def wait(self, child: int) -> int:
        code = self.ask({"wait": child})
        self.running.discard(child)
        return code

    def run(self, *arguments: object) -> int:
        return self.wait(self.start(*arguments))

    def kill(self, child: int, number: int = signal.SIGKILL) -> int:
        """Its exit code; none that it has ended of itself is lost, for it stays until it is waited for."""
        os.kill(child, number)
        return self.wait(child)

    def runs(self, child: int) -> bool:
        """Whether it has not ended yet; who has is a zombie until it is waited for."""
        return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z"

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


@contextmanager
def open_tuners(log: Path) -> Iterator[Tuners]:
    command = [sys.executable, "-m", "tests.search.processes"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    environment = os.environ | ONE_THREAD
    with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as process:  # type: ignore[call-overload]
        tuners = Tuners(process, log)
        try:
            yield tuners
        finally:
            for child in tuners.running:
                os.kill(child, signal.SIGKILL)
            process.kill()


if __name__ == "__main__":
    serve()
