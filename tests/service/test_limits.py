"""What clients can make the service hold: bodies, connections, answers that nobody reads, heavy pages."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from scaler.model.errors import Retry
from tests.link.manager import until
from tests.service.browsed import browsing
from tests.service.http_server import running
from tests.service.serve_process import add_secret
from tuner.service.access.bodies_in_flight import BodiesInFlight
from tuner.service.access.connections import ConnectionLimits
from tuner.service.access.envelope import wrap
from tuner.service.access.gate import RateLimits
from tuner.service.access.page_session import find_account
from tuner.service.app import make_app, release_agents
from tuner.service.exchange.services import Settings
from tuner.service.exchange.work_pool import WorkPool
from tuner.store.applications import add_application
from tuner.store.connection import Store, open_store

PATIENCE = 30.0  # seconds
REPORTS = "/v1/applications/shop/reports"


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(tmp_path / "tuner.db")) as store:
        yield store


@contextmanager
def serving(store: Store, bodies: BodiesInFlight, limits: ConnectionLimits | None = None) -> Iterator[tuple[str, int]]:
    app: FastAPI = make_app(store)
    bodies.known = partial(find_account, app)
    with running(wrap(app, bodies), on_stop=lambda: release_agents(app), limits=limits) as url:
        yield "127.0.0.1", int(url.rpartition(":")[2])


def begin(place: tuple[str, int], length: int, sent: int, token: str = "") -> socket.socket:
    """A connection that has sent a part of its body."""
    sock = socket.create_connection(place, PATIENCE)
    named = f"Authorization: Bearer {token}\r\n" if token else ""
    head = f"POST {REPORTS} HTTP/1.1\r\nHost: localhost\r\n{named}Content-Length: {length}\r\n\r\n"
    sock.sendall(head.encode() + b"x" * sent)
    return sock


def read_answer(sock: socket.socket) -> tuple[int, Any]:
    answer = http.client.HTTPResponse(sock)
    answer.begin()
    return answer.status, json.loads(answer.read())


@pytest.mark.parametrize("token", ["", "ts_" + "k" * 43])
def test_large_bodies_of_strangers_are_not_read(kept: Store, token: str) -> None:
    """As attacked: 300 connections without a token made the process hold 1.1 GB."""
    bodies = BodiesInFlight(most=4 << 20)
    with serving(kept, bodies) as place:
        for _ in range(3):
            with begin(place, 4 << 20, 0, token) as sock:
                status, told = read_answer(sock)
                assert (status, "token" in told["detail"]) == (401, True)
        chunked = f"POST {REPORTS} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n8000\r\n"
        with socket.create_connection(place, PATIENCE) as sock:
            sock.sendall(chunked.encode() + b"x" * 0x8000)
            assert read_answer(sock)[0] == 401
        assert bodies.held == 0


def test_bodies_together_are_bounded_and_their_room_comes_back(kept: Store) -> None:
    bodies = BodiesInFlight(most=100_000, total=150_000)
    token = add_secret(kept)
    with serving(kept, bodies) as place:
        first = begin(place, 90_000, 80_000, token)
        until(lambda: bodies.held == 80_000)
        with begin(place, 90_000, 80_000, token) as second:
            status, told = read_answer(second)
            assert (status, "as many bodies as it may" in told["detail"]) == (503, True)
        assert bodies.held == 80_000
        first.close()
        until(lambda: bodies.held == 0)
        with begin(place, 90_000, 90_000, token) as third:
            assert read_answer(third)[0] == 415  # read whole, and judged
        until(lambda: bodies.held == 0)


def test_a_client_that_never_reads_is_cut_off(kept: Store) -> None:
    """As attacked: 500 such clients were held after 105 s."""
    limits = ConnectionLimits(unread_s=0.2)
    with serving(kept, BodiesInFlight(), limits) as place, socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(PATIENCE)
        sock.connect(place)
        until(lambda: limits.open.total() == 1)
        sock.sendall(b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2_000)  # and no more; answers of 2 MB
        until(lambda: limits.open.total() == 0)


def test_a_client_that_reads_slowly_gets_its_answers(kept: Store) -> None:
    limits = ConnectionLimits(unread_s=1.0)
    with serving(kept, BodiesInFlight(), limits) as place, socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(PATIENCE)
        sock.connect(place)
        sock.sendall(b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
        found = b""
        while found.count(b"HTTP/1.1 200 OK") < 200:
            part = sock.recv(2048)
            assert part
            found += part


def test_connections_of_one_address_leave_room_for_others(kept: Store) -> None:
    limits = ConnectionLimits(most=3, most_of_one=2)
    assert limits.admit("elsewhere")
    with serving(kept, BodiesInFlight(), limits) as place:
        first, second = (socket.create_connection(place, PATIENCE) for _ in range(2))
        until(lambda: limits.open.total() == 3)
        with socket.create_connection(place, PATIENCE) as third:
            status, told = read_answer(third)
            assert (status, told["status"]) == (503, 503)
        first.close()
        until(lambda: limits.open.total() == 2)
        with socket.create_connection(place, PATIENCE) as fourth:
            fourth.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_answer(fourth)[0] == 200
        second.close()
        until(lambda: limits.open.total() == 1)


def test_work_beyond_the_queue_is_refused() -> None:
    async def run() -> list[Any]:
        pool, over = WorkPool(threads=2, most=5), threading.Event()
        at_once: list[int] = []
        running = [0]

        def work() -> None:
            running[0] += 1
            at_once.append(running[0])
            over.wait(PATIENCE)
            running[0] -= 1

        asked = [asyncio.create_task(pool.run(work)) for _ in range(8)]
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert [type(one.exception()) for one in done] == [Retry] * 3
        over.set()
        await asyncio.gather(*asked, return_exceptions=True)
        assert max(at_once) <= 2
        assert pool.held == 0
        return at_once

    assert len(asyncio.run(run())) == 5


def test_heavy_pages_hold_up_no_small_read(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As attacked: 24 pages at once made a small read wait for 23 s."""
    over, begun = threading.Event(), threading.Semaphore(0)

    def gather(*_: Any) -> Any:
        begun.release()
        over.wait(PATIENCE)
        raise Retry("it is over")

    monkeypatch.setattr("tuner.service.page.page_routes.gather_overview", gather)
    with browsing(kept) as site:
        statuses: list[int] = []

        def load() -> None:
            statuses.append(site.client.get("/").status_code)

        threads = [threading.Thread(target=load) for _ in range(30)]
        for thread in threads:
            thread.start()
        try:
            assert begun.acquire(timeout=PATIENCE)
            headers = {"Authorization": f"Bearer {add_secret(kept, 'reader')}"}
            with httpx.Client(base_url=site.url, headers=headers, timeout=PATIENCE) as reader:
                assert reader.get("/v1/applications").status_code == 200  # the limit is the client's own
            until(lambda: statuses == [503] * 6)  # 24 wait or run
        finally:
            over.set()
            for thread in threads:
                thread.join(PATIENCE)


def test_bytes_of_reports_are_bounded_by_application_and_token(kept: Store) -> None:
    """As attacked: one token wrote 27 MB a second."""
    limits = RateLimits(report_bytes=100.0, catch_up_s=10.0, tokens_share=2.0)  # 1,000 bytes at once, a token 2,000
    app = make_app(kept, Settings(limits=limits))
    decision = {"kind": "HELD", "reason": "r" * 300}
    with running(app, on_stop=lambda: release_agents(app)) as url:
        headers = [{"Authorization": f"Bearer {add_secret(kept, name)}"} for name in ("ann", "ben")]

        def send(number: int, name: str, by: int = 0) -> httpx.Response:
            body = {"instance": "i", "operator": "parse", "decisions": [{"time": float(number), **decision}]}
            return httpx.post(f"{url}/v1/applications/{name}/reports", json=body, headers=headers[by])

        assert [send(number, "shop").status_code for number in range(3)] == [200, 200, 429]
        refused = send(3, "shop", by=1)  # another token, the same application
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert "this application is sent more bytes" in refused.json()["detail"]
        answers = [send(number, f"app{number}") for number in range(4)]  # the same token, other applications
        assert "this token sends more bytes" in answers[-1].json()["detail"]
        assert send(9, "till", by=1).status_code == 200


def test_the_page_says_how_long_what_is_kept(kept: Store) -> None:
    with kept.begin() as session:
        add_application(session, "shop", {}, 1.0)
    with browsing(kept) as site:
        told = site.client.get("/").text
    assert "slot by slot for 35 days, then changes and one slot an hour up to 400 days" in told
    assert "samples for 90 days" in told


def test_large_bodies_leave_room_for_small_ones(kept: Store) -> None:
    """As attacked: eight connections that kept a byte back stopped everybody's reports for half a minute."""
    bodies = BodiesInFlight(most=100_000, total=200_000, share=1.0)
    token = add_secret(kept)
    with serving(kept, bodies) as place:
        with begin(place, 90_000, 89_999, token), begin(place, 90_000, 80_000, token):
            until(lambda: bodies.held == 169_999)
            with begin(place, 90_000, 20_000, token) as third:
                assert read_answer(third)[0] == 503
            with begin(place, 10_000, 10_000, token) as small:
                assert read_answer(small)[0] == 415  # read whole, and judged
        until(lambda: bodies.held == 0)
