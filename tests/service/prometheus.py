"""A real Prometheus (Debian's package) with the shipped rules, which scrapes a service every second."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest

PATIENCE = 60.0  # seconds
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="there is no prometheus here (Debian's package of that name)"
)


@dataclass(frozen=True, slots=True)
class Prometheus:
    client: httpx.Client

    def read(self, path: str, **asked: Any) -> Any:
        answer = self.client.get(f"/api/v1/{path}", params=asked)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """The series that there are now."""
        return list(self.read("query", query=expression)["result"])

    def ask_range(self, expression: str, seconds: float) -> list[dict[str, Any]]:
        """As a panel over the last so many seconds does."""
        now = time.time()
        return list(self.read("query_range", query=expression, start=now - seconds, end=now, step=1.0)["result"])

    def wait_for(self, what: Callable[[], Any]) -> Any:
        """Until it is anything; scrapes come every second, and the service tells the same for five."""
        until = time.monotonic() + PATIENCE
        while not (found := what()):
            assert time.monotonic() < until, "it did not come about in time"
            time.sleep(0.2)
        return found


@contextmanager
def scraping(folder: Path, port: int, token: str) -> Iterator[Prometheus]:
    """With a token in a file, as the help of `tuner dashboards` advises."""
    (folder / "alerts.yml").write_bytes(files("tuner.ship").joinpath("alerts.yml").read_bytes())
    (folder / "token").write_text(token)
    scrape = {
        "job_name": "tuner", "authorization": {"credentials_file": "token"},
        "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
    }  # fmt: skip
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [scrape],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # which is YAML, too
    command = ["prometheus", "--config.file", str(folder / "prometheus.yml"), "--web.listen-address=127.0.0.1:0",
               "--storage.tsdb.path", str(folder / "data")]  # fmt: skip
    log = folder / "log"
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process:
        try:
            with httpx.Client(base_url=find_address(process, log), timeout=PATIENCE) as client:
                yield Prometheus(client)
        finally:
            process.kill()


def find_address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + PATIENCE
    while "Server is ready" not in (text := log.read_text()):
        assert process.poll() is None, text
        assert time.monotonic() < until, text
        time.sleep(0.05)
    told = re.search(r'"Listening on" address=(\S+)', text)
    assert told, text
    return f"http://{told[1]}"
