"""A standalone Spark cluster on loopback, with a worker of each node type.

Every daemon runs under a guard (process_guard.py): however this process ends, so do they and their executors.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scaler.model.errors import Retry
from scaler.timing import NODE_RESOURCE
from tuner.demo.process_guard import guarded
from tuner.pipeline.session import provide_java

ROOT = Path(__file__).parents[2]  # what executors import from
SPEED = "NODE_SPEED"  # in a worker's environment: how many times as fast as a node of speedup 1 its operators work
MASTER = "127.0.0.1"
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Worker:
    """A machine: its address on loopback, its node type, its speed; executors of one core fill its cores."""

    host: str
    node_type: str
    speed: float
    cores: int = 2
    memory: str = "2g"


@contextmanager
def start_cluster(folder: Path, workers: Sequence[Worker]) -> Iterator[str]:
    """Run a cluster until the block ends; its master's address, once all workers have registered."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        environment = make_environment(MASTER)
        log = stack.enter_context(
            start_daemon(folder, "master", make_command("master", ("--host", MASTER), environment), environment)
        )
        master = wait_for(log, r"Starting Spark master at (spark://\S+)")
        daemons = [start_daemon(folder, "worker", *write_worker(folder, worker, master)) for worker in workers]
        logs = [stack.enter_context(daemon) for daemon in daemons]
        for log in logs:
            wait_for(log, r"(Successfully registered with master)")
        yield master


def find_page(folder: Path) -> str:
    """The URL of the master's page of the cluster in this folder."""
    port = wait_for(folder / f"master-{MASTER}.log", r"'MasterUI' on port ([0-9]+)")
    return f"http://{MASTER}:{port}"


def make_environment(host: str) -> dict[str, str]:
    """The environment of every process of the cluster: loopback alone, this Python, this tree."""
    import pyspark

    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    provide_java(environment)
    return {
        **environment,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }


def write_worker(folder: Path, worker: Worker, master: str) -> tuple[list[str], dict[str, str]]:
    """Write the files of a worker; its command and environment.

    It offers a resource named after its node type, one address a core, which operators' profiles request.
    """
    name = f"{worker.node_type}-{worker.host}"
    resources = folder / f"{name}.resources.json"
    offered = {"componentName": "spark.worker", "resourceName": NODE_RESOURCE + worker.node_type}
    resources.write_text(json.dumps([{"id": offered, "addresses": [str(core) for core in range(worker.cores)]}]))
    properties = folder / f"{name}.properties"
    properties.write_text(f"spark.worker.resourcesFile {resources}\nspark.decommission.enabled true\n")
    environment = make_environment(worker.host) | {SPEED: str(worker.speed)}
    size = ("--cores", str(worker.cores), "--memory", worker.memory, "--work-dir", str(folder / "work"))
    options = ("--host", worker.host, *size, "--properties-file", str(properties), master)
    return make_command("worker", options, environment), environment


def make_command(kind: str, options: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    name = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
    return [f"{environment['SPARK_HOME']}/bin/spark-class", name, "--port", "0", "--webui-port", "0", *options]


@contextmanager
def start_daemon(folder: Path, kind: str, command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Path]:
    """Run a daemon in a process group of its own until the block ends; its log."""
    log = folder / f"{kind}-{environment['SPARK_LOCAL_IP']}.log"
    with guarded(command, environment, log):
        yield log


def wait_for(
    log: Path, pattern: str, seconds: float = PATIENCE_S, process: subprocess.Popen[bytes] | None = None
) -> str:
    """Wait until the log matches; the pattern's first group. `Retry` where the writing process ended."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        over = process is not None and process.poll() is not None
        said = log.read_text(errors="replace")
        if found := re.search(pattern, said):
            return found[1]
        if over:
            break
        time.sleep(0.1)
    last = log.read_text(errors="replace").strip().rpartition("\n")[2][:300]
    raise Retry(f"{log} does not say {pattern!r} within {seconds:g} s; its last line is: {last or '(none)'}")
