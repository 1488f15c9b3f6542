"""Agents that wait get orders as soon as they are issued, here or by another process."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Callable
from typing import Any

import httpx

from scaler.model.orders import parse_orders
from tests.service.conftest import sentence
from tests.service.http_server import running
from tests.service.serve_process import add_secret
from tuner.service.app import make_app, release_agents
from tuner.service.exchange.order_board import Board, poll, wait_for_orders
from tuner.service.exchange.services import Settings
from tuner.store.connection import Store, open_store
from tuner.store.orders import list_scalers, save_orders

PLACE = "/v1/applications/shop/orders"
ENOUGH = 30.0  # seconds, of what takes less than one


def make_document(number: int, app: str = "shop") -> dict[str, Any]:
    return {
        "application": app, "slot_s": 60.0, "objective": None, "candidate": None,
        "guards": {"": {"bounds": {"most": number}}},
    }  # fmt: skip


def issue(store: Store, number: int, app: str = "shop") -> None:
    with store.begin() as session:
        save_orders(session, app, make_document(number, app), 1.0)


def wait_until(check: Callable[[], bool]) -> None:
    until = time.monotonic() + ENOUGH
    while not check():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_nothing_yet_then_orders_then_nothing_new(client: httpx.Client, store: Store) -> None:
    assert "no orders for 'shop' yet" in sentence(client.get(PLACE), 404)
    issue(store, 1)
    first = client.get(PLACE, params={"wait": 60})
    assert first.status_code == 200
    assert first.headers["etag"] == '"1"'
    assert parse_orders(first.json()).revision == 1
    for tag in ('"1"', 'W/"1"', '"0", "1"', "*"):
        answer = client.get(PLACE, params={"wait": 0.01}, headers={"If-None-Match": tag})
        assert (answer.status_code, answer.headers["etag"], answer.content) == (304, '"1"', b"")
    for wait in ("61", "-1", "nan", "x"):
        assert "wait in the query" in sentence(client.get(PLACE, params={"wait": wait}), 422)


def test_who_waits_is_told_of_what_another_process_issues(store: Store, address: str) -> None:
    issue(store, 1)
    secret = add_secret(store)
    other = open_store(address)  # as another process has it
    app = make_app(store)

    async def wait(client: httpx.AsyncClient) -> str:
        answer = await client.get(PLACE, params={"wait": 60}, headers={"If-None-Match": '"1"'}, timeout=ENOUGH)
        return str(answer.headers["etag"])

    async def wait_all(url: str) -> list[str]:
        limits = httpx.Limits(max_connections=200)
        headers = {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits) as client:
            waiting = [asyncio.create_task(wait(client)) for _ in range(100)]
            while len(app.state.services.board.waiting.get("shop", ())) < 100:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(issue, other, 2)
            return list(await asyncio.gather(*waiting))

    with running(app, on_stop=lambda: release_agents(app)) as url:
        assert asyncio.run(wait_all(url)) == ['"2"'] * 100
        assert app.state.services.board.waiting == {}
    other.close()


def test_a_change_through_the_service_is_told_at_once(store: Store) -> None:
    """No poll would have found it: the next one is an hour away."""
    from tests.service.conftest import SHOP

    app = make_app(store, Settings(poll_s=3_600.0))
    headers = {"Authorization": f"Bearer {add_secret(store)}"}

    async def go(url: str) -> httpx.Response:
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=ENOUGH) as client:
            await client.put("/v1/applications/shop", json={"document": SHOP})
            waiting = asyncio.create_task(client.get(PLACE, params={"wait": 60}))
            while not app.state.services.board.waiting:
                await asyncio.sleep(0.01)
            assert (await client.put("/v1/applications/shop/controls/pin", json={})).status_code == 200
            return await waiting

    with running(app, on_stop=lambda: release_agents(app)) as url:
        assert asyncio.run(go(url)).json()["guards"] == {"": {"pin": {}}}


def test_a_service_that_stops_lets_those_who_wait_go(store: Store) -> None:
    issue(store, 1)
    app = make_app(store)
    headers = {"Authorization": f"Bearer {add_secret(store)}", "If-None-Match": '"1"'}

    async def go(url: str, stop: Callable[[], None]) -> int:
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=ENOUGH) as client:
            waiting = asyncio.create_task(client.get(PLACE, params={"wait": 60}))
            while not app.state.services.board.waiting:
                await asyncio.sleep(0.01)
            stop()
            return (await waiting).status_code

    with running(app, on_stop=lambda: release_agents(app)) as url:
        assert asyncio.run(go(url, lambda: close_from_outside(app.state.services.board))) == 304


def close_from_outside(board: Board) -> None:
    from tuner.service.exchange.order_board import close_board

    waiter = next(iter(next(iter(board.waiting.values()))))
    waiter.get_loop().call_soon_threadsafe(close_board, board)


def test_the_bytes_are_made_once_and_packed(client: httpx.Client, store: Store) -> None:
    document = {**make_document(1), "guards": {f"operator {i}": {"bounds": {"most": i}} for i in range(200)}}
    with store.begin() as session:
        save_orders(session, "shop", document, 1.0)
    plain = client.get(PLACE, params={"wait": 5}, headers={"Accept-Encoding": "identity"})
    with client.stream("GET", PLACE, headers={"Accept-Encoding": "gzip"}) as packed:
        raw = b"".join(packed.iter_raw())
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(raw) == plain.content
    assert len(raw) < len(plain.content) / 4


def test_a_database_that_was_put_back_is_believed(store: Store) -> None:
    async def go() -> list[int]:
        board = Board(store, 0.25)
        seen = []
        for revisions in (3, 1):
            with store.begin() as session:
                from sqlalchemy import text

                session.execute(text("DELETE FROM orders"))
            for number in range(revisions):
                issue(store, number)
            await poll(board)
            notice = await wait_for_orders(board, "shop", [], 0.0)
            assert notice is not None
            seen.append(notice.revision)
        return seen

    assert asyncio.run(go()) == [3, 1]


def test_who_waits_is_known_to_live(client: httpx.Client, store: Store) -> None:
    client.get(PLACE, headers={"Scaler": "parse/driver-1"})
    client.get(PLACE, headers={"Scaler": "no instance"})

    def named() -> list[tuple[str, str]]:
        with store.read() as session:
            return [(scaler.operator, scaler.instance) for scaler in list_scalers(session, "shop")]

    wait_until(lambda: bool(named()))
    assert named() == [("parse", "driver-1")]
