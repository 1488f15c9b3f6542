"""Seconds that `tuner what-if` takes for an event log, start-up included, beside reading its lines as JSON.

python -m tests.bench.bench_what_if [MB ...]     (100 without an argument)

The log is what Spark writes around each micro-batch of a stream; tasks of a batch 8 and 200. Ways take turns, the least
of three rounds counts. Packed is the log as Spark 4 writes it by default.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import orjson
import zstandard

from tests.pipeline import logs

ROUNDS = 3
TASKS = (8, 200)


def open_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def parse_lines(parse: Callable[[bytes], object]) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        for line in open_lines(path):
            parse(line)

    return run


def run_command(path: Path) -> None:
    """In a process of its own, as a person starts it."""
    command = [sys.executable, "-m", "tuner", "what-if", str(path), "--json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))


def run_packed(path: Path) -> None:
    run_command(path.with_name(path.name + ".zstd"))


WAYS: dict[str, Callable[[Path], None]] = {
    "tuner what-if": run_command,
    "tuner what-if, zstd": run_packed,
    "every line by orjson": parse_lines(orjson.loads),
    "every line by json": parse_lines(json.loads),
}


def measure(path: Path) -> dict[str, float]:
    """The least seconds of each way."""
    best = dict.fromkeys(WAYS, float("inf"))
    for _ in range(ROUNDS):
        for name, run in WAYS.items():
            began = time.perf_counter()
            run(path)
            best[name] = min(best[name], time.perf_counter() - began)
    return best


def pack(path: Path) -> None:
    with path.open("rb") as plain, path.with_name(path.name + ".zstd").open("wb") as packed:
        zstandard.ZstdCompressor(level=1).copy_stream(plain, packed)


def main(sizes: list[int]) -> None:
    for size in sizes:
        for tasks in TASKS:
            with tempfile.TemporaryDirectory() as folder:
                as_many = [logs.executor(cores=tasks)]  # slots, for the writer launches a batch's tasks at once
                path = logs.write(Path(folder, "app"), chain(logs.large(size, tasks=tasks), as_many))
                pack(path)
                show(path.stat().st_size / 1e6, tasks, measure(path))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    print(f"largest process of what-if: {peak:.0f} MB")


def show(megabytes: float, tasks: int, best: dict[str, float]) -> None:
    print(f"{megabytes:.0f} MB, {tasks} tasks a batch; the least of {ROUNDS} rounds")
    for name, seconds in best.items():
        of_orjson, of_json = seconds / best["every line by orjson"], seconds / best["every line by json"]
        print(f"  {name:22} {seconds:6.2f} s  {of_orjson:5.2f} of orjson  {of_json:5.2f} of json", flush=True)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [100])
