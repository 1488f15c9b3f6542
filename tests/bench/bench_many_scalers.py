"""Five thousand agents, each application with a token of its own, against one service: what it takes and costs.

python -m tests.bench.bench_many_scalers [--sqlite] [--postgres] [--applications 500] [--operators 10] [--compress 4]

The agents are those of `bench_service`: each reports every slot of 60 s on one connection, and waits for orders on the
other, 30 s at a time. Both are divided by --compress, which multiplies the load. Half-way new orders are issued for
all applications. A long poll's time is what it took beyond its wait, a push's what passed until it was seen.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np

from tests.bench.bench_service import (
    Books,
    Client,
    Pace,
    count_lost,
    cpu_of,
    issue,
    live,
    make_address,
    raise_limit,
    start_postgres,
)
from tests.service.serve_process import service
from tuner.service.access.token import make_token
from tuner.store.connection import Store, open_store

SLOT_S, WAIT_S = 60.0, 30.0
MIB = 1024.0


def make_secrets(store: Store, apps: dict[str, int]) -> dict[str, str]:
    with store.begin() as session:
        return {app: make_token(session, app, ("report",), "a benchmark", time.time(), None, [app])[1] for app in apps}


def bench(address: str, apps: dict[str, int], pace: Pace, slots: int) -> None:
    with closing(open_store(address)) as store:
        issue(store, apps, 1)
        secrets = make_secrets(store, apps)
        with service(address) as served:
            clients = [
                Client(app, f"op{i}", served.port, secrets[app], True) for app, n in apps.items() for i in range(n)
            ]
            began, client_s = time.perf_counter(), time.process_time()
            books = asyncio.run(live(store, clients, apps, slots * pace.slot_s, pace))
            took, client_s = time.perf_counter() - began, time.process_time() - client_s
            server_s, memory = cpu_of(served.process.pid), read_memory(served.process.pid)
        show(books, len(clients), count_lost(store, books, apps), slots * pace.slot_s)
        print(f"  CPU            {server_s / took:.2f} of a core in the service, {client_s / took:.2f} in the agents")
        print(f"  memory         {memory['VmRSS']:.0f} MiB resident at the end, {memory['VmHWM']:.0f} at most")


def read_memory(pid: int) -> dict[str, float]:
    """In MiB."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {words[0].rstrip(":"): float(words[1]) / MIB for words in lines if words[0] in ("VmRSS:", "VmHWM:")}


def show(books: Books, agents: int, lost: int, seconds: float) -> None:
    done = len(books.acknowledged)
    print(f"  reports        {books.sent:,} sent, {done:,} acknowledged ({done / seconds:.0f} a second), {lost} lost")
    seen = [at - books.pushed for at in books.seen.values()]
    for what, times in (("a report", books.took), ("a long poll", books.overdue), ("a push seen", seen)):
        p50, p99, most = np.quantile(times or [np.nan], (0.5, 0.99, 1.0)) * 1000.0
        print(f"  {what + ', ms':<14} p50 {p50:.1f}, p99 {p99:.1f}, longest {most:.1f} ({len(times):,})")
    if books.failed:
        print(f"  FAILED         {len(books.failed)}: {books.failed[0]}")
    if len(seen) < agents:
        print(f"  FAILED         the push was seen by {len(seen):,} of {agents:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sqlite", action="store_true")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--applications", type=int, default=500)
    parser.add_argument("--operators", type=int, default=10)
    parser.add_argument("--compress", type=float, default=4.0)
    parser.add_argument("--slots", type=int, default=4)
    asked = parser.parse_args()
    apps = {f"shop{i}": asked.operators for i in range(asked.applications)}
    pace = Pace(SLOT_S / asked.compress, WAIT_S / asked.compress)
    raise_limit(4 * sum(apps.values()) + 100)
    both = asked.sqlite == asked.postgres
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for name in ("SQLite", "PostgreSQL"):
            if not both and asked.sqlite != (name == "SQLite"):
                continue
            server = start_postgres(stack) if name == "PostgreSQL" else ""
            print(f"{name}, {len(apps):,} applications of {asked.operators} operators, a slot in {pace.slot_s:g} s")
            bench(make_address(server, folder, 0), apps, pace, asked.slots)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
