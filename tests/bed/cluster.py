"""Node types and a folder flow in; a running standalone Spark cluster on loopback flows out, one worker a node type."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from scaler.timing import NODE_RESOURCE
from tests.bed.plan import SPEEDS
from tuner.java import provide_java

ROOT = Path(__file__).parents[2]
SPEED = "BED_SPEED"  # in a worker's environment: how many times as fast as a node of speedup 1 its operators work


@dataclass(frozen=True, slots=True)
class Worker:
    """A machine: its address on loopback, its node type, its speed."""

    host: str
    node_type: str
    speed: float


WORKERS = (
    Worker("127.0.0.2", "small", SPEEDS["small"]),
    Worker("127.0.0.3", "large", SPEEDS["large"]),
)


@contextmanager
def start_cluster(folder: Path, workers: Sequence[Worker] = WORKERS) -> Iterator[str]:
    """The address of the master of a cluster whose workers have all registered; stopped, executors too, on leaving."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        options = ("--host", "127.0.0.1")
        log = stack.enter_context(start_daemon(folder, "master", options, make_environment("127.0.0.1")))
        master = wait_for(log, r"Starting Spark master at (spark://\S+)")
        logs = [stack.enter_context(start_worker(folder, worker, master)) for worker in workers]
        for log in logs:
            wait_for(log, r"(Successfully registered with master)")
        yield master


def make_environment(host: str) -> dict[str, str]:
    """What every process of the bed runs with: loopback alone, this Python, this tree."""
    import pyspark

    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    provide_java(environment)
    return {
        **environment,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }


def start_worker(folder: Path, worker: Worker, master: str) -> AbstractContextManager[Path]:
    """A worker that offers one resource named after its node type, for the profiles of operators to ask for."""
    resources = folder / f"{worker.node_type}.resources.json"
    name = {"componentName": "spark.worker", "resourceName": NODE_RESOURCE + worker.node_type}
    resources.write_text(json.dumps([{"id": name, "addresses": ["0", "1"]}]))
    properties = folder / f"{worker.node_type}.properties"
    properties.write_text(f"spark.worker.resourcesFile {resources}\n")
    environment = make_environment(worker.host) | {SPEED: str(worker.speed)}
    options = ("--host", worker.host, "--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work"))
    return start_daemon(folder, "worker", (*options, "--properties-file", str(properties), master), environment)


@contextmanager
def start_daemon(folder: Path, kind: str, options: Sequence[str], environment: Mapping[str, str]) -> Iterator[Path]:
    """The log of a running daemon, which leads a process group of its own; the group is gone on leaving."""
    host = environment["SPARK_LOCAL_IP"]
    log = folder / f"{kind}-{host}.log"
    name = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
    command = [f"{environment['SPARK_HOME']}/bin/spark-class", name, "--port", "0", "--webui-port", "0", *options]
    with log.open("wb") as sink:
        daemon = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True
        )
    try:
        yield log
    finally:
        stop(daemon)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group: asked first, so that it can end its children, and then the whole group."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(log: Path, pattern: str, seconds: float = 60.0) -> str:
    """What the pattern finds in the log, as soon as it is there."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.1)
    said = log.read_text(errors="replace")[-2000:]
    raise RuntimeError(f"{log} does not say {pattern!r} within {seconds:g} s:\n{said}")
