"""Whether one more executor could come: by Spark's limits, and by the page of a standalone master."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from scaler.acting.profiles import Pinned, find_limit, find_worker

COUNT = Pinned("count", 1, {"small": 1}, cores=1, memory_mib=512)


def describe(cores: int, memory: int, units: int, state: str = "ALIVE", taken: int = 0) -> dict[str, Any]:
    """A worker as the master's page has it, of node type small; `taken`: executors of a core and 512 MiB on it."""
    unit, free = (
        {"node_small": {"name": "node_small", "addresses": [str(i) for i in range(first, units)]}}
        for first in (0, taken)
    )
    return {
        "state": state, "coresfree": cores - taken, "memoryfree": memory - 512 * taken, "resources": unit,
        "resourcesfree": free,
    }  # fmt: skip


@contextmanager
def serve(*workers: dict[str, Any]) -> Iterator[str]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"workers": workers}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *said: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_limits_of_spark_are_named() -> None:
    limits = {"spark.dynamicAllocation.maxExecutors": "2", "spark.cores.max": "5"}

    def setting(name: str, default: str) -> str:
        return limits.get(name, default)

    assert find_limit(setting, 1, 4, 1) == (1, "")
    assert find_limit(setting, 2, 4, 1) == (0, "spark.dynamicAllocation.maxExecutors is 2")
    assert find_limit(setting, 1, 5, 1) == (0, "spark.cores.max is 5, and 5 cores are taken")
    assert find_limit(lambda _, default: default, 99, 99, 1, 7) == (7, "")


def test_there_must_be_room_beside_those_that_are_still_to_come() -> None:
    """Two workers have three places between them, by cores, memory and units of the node type; the dead one none."""
    with serve(describe(2, 4096, 2), describe(4, 600, 4), describe(8, 8192, 8, "DEAD")) as page:
        assert [find_worker(page, COUNT, "small", coming) for coming in (0, 2)] == [(1, "")] * 2
        said = "no worker of node type 'small' has 1 core and 512 MiB free beside the 3 to come"
        assert find_worker(page, COUNT, "small", 3) == (0, said)
        assert find_worker(page, COUNT, "large") == (0, "no worker of node type 'large' is registered")


def test_those_that_the_master_has_launched_have_their_places() -> None:
    """`there` are registered, and what else is taken is held to be launched, or another application's."""
    with serve(describe(4, 4096, 4, taken=3)) as page:
        assert find_worker(page, COUNT, "small", coming=1, there=2) == (1, "")
        assert find_worker(page, COUNT, "small", coming=5, there=0) == (
            0,
            "no worker of node type 'small' has 1 core and 512 MiB free beside the 2 to come",
        )
        assert find_worker(page, COUNT, "small", coming=0, there=9) == (1, "")
        assert find_worker(page, COUNT, "small", coming=1, there=9) == (
            0,
            "no worker of node type 'small' has 1 core and 512 MiB free beside the 1 to come",
        )


def test_a_full_worker_and_a_silent_master() -> None:
    with serve(describe(0, 4096, 2)) as page:
        assert find_worker(page, COUNT, "small") == (0, "no worker of node type 'small' has 1 core and 512 MiB free")
    assert find_worker(page, COUNT, "small") == (1, "")  # it has gone, and nothing is known
