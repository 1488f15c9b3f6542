"""Several managers on one database: each is woken for orders of the others, and none answers with earlier ones."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection, text

from scaler.model.errors import Retry
from tests.service.http_server import running
from tests.service.serve_process import add_secret
from tests.service.test_orders import ENOUGH, PLACE, issue, wait_until
from tests.store.conftest import POSTGRES
from tuner.service.app import make_app, release_agents
from tuner.service.exchange.order_board import Board, Notice, poll, wait_for_orders
from tuner.service.exchange.order_watch import REST_S, listen
from tuner.service.exchange.services import Settings
from tuner.store.connection import Store, open_store
from tuner.store.wakeups import NAME

NEVER = 3_600.0  # seconds


def make_deaf_board(store: Store) -> Board:
    """One that nobody wakes and that never polls by itself."""
    return Board(store, NEVER, NEVER)


def ask(board: Board, known: list[str]) -> Notice:
    """As a request that does not wait, on a board that polled a while ago."""
    notice = asyncio.run(wait_for_orders(board, "shop", known, 0.0))
    assert notice is not None
    return notice


@pytest.mark.parametrize("known", [['"2"'], ['"1"', '"2"'], [], ["W/x"]])
def test_an_agent_that_knows_more_is_answered_from_the_database(store: Store, known: list[str]) -> None:
    """Of two managers behind one address, the one that it asked before had issued them."""
    board = make_deaf_board(store)
    issue(store, 1)
    asyncio.run(poll(board))
    assert ask(board, ['"1"']).revision == 1
    issue(store, 2)
    assert ask(board, ['"1"']).revision == 1  # who knows these waits to be woken
    assert ask(board, known).revision == 2


def test_nobody_is_sent_back_while_the_database_is_away(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    board = make_deaf_board(store)
    issue(store, 1)
    asyncio.run(poll(board))
    assert ask(board, []).revision == 1

    def fail(store: Store) -> dict[str, int]:
        raise Retry("the database is away")

    monkeypatch.setattr("tuner.service.exchange.order_board.list_newest", fail)
    with pytest.raises(Retry):
        ask(board, ['"2"'])
    assert ask(board, []).revision == 1  # better than nothing


def test_many_who_ask_share_a_poll(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from tuner.service.exchange import order_board

    board, polled, find = make_deaf_board(store), [], order_board.list_newest
    issue(store, 1)
    monkeypatch.setattr(order_board, "list_newest", lambda store: [polled.append(1), find(store)][1])

    async def ask_all() -> None:
        await asyncio.gather(*(wait_for_orders(board, "shop", [], 0.0) for _ in range(100)))

    asyncio.run(ask_all())
    assert len(polled) <= 2  # the one that was under way, and one for all who came meanwhile


def test_orders_that_are_read_as_newer_ones_are_issued_are_read_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tuner.service.exchange import order_board

    board, load = make_deaf_board(store), order_board.load_notice
    read, go_on = threading.Event(), threading.Event()

    def load_slowly(store: Store, app: str) -> Notice | None:
        made = load(store, app)
        read.set()
        assert go_on.wait(ENOUGH)
        return made

    async def ask_twice() -> list[Notice | None]:
        first = asyncio.create_task(wait_for_orders(board, "shop", [], 0.0))
        assert await asyncio.to_thread(read.wait, ENOUGH)
        await asyncio.to_thread(issue, store, 2)
        second = asyncio.create_task(wait_for_orders(board, "shop", ['"2"'], 0.0))
        async with asyncio.timeout(ENOUGH):
            while board.revisions != {"shop": 2}:
                await asyncio.sleep(0.01)
        go_on.set()
        return [await first, await second]

    issue(store, 1)
    monkeypatch.setattr(order_board, "load_notice", load_slowly)
    assert [notice and notice.revision for notice in asyncio.run(ask_twice())] == [2, 2]


def make_manager(store: Store, **settings: Any) -> FastAPI:
    app = make_app(store, Settings(**settings))
    app.state.services.board.listening_poll_s = NEVER
    return app


async def fetch_next(url: str, secret: str) -> str:
    headers = {"Authorization": f"Bearer {secret}", "If-None-Match": '"1"'}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=ENOUGH) as client:
        return str((await client.get(PLACE, params={"wait": 60})).headers["etag"])


@POSTGRES
def test_postgresql_wakes_all_managers(server_store: Store) -> None:
    """No poll would have found it: the next one is an hour away."""
    issue(server_store, 1)
    secret = add_secret(server_store)
    address = server_store.engine.url.render_as_string(hide_password=False)
    with closing(open_store(address)) as other:
        apps = [make_manager(store, poll_s=NEVER) for store in (server_store, other)]

        async def go(urls: list[str]) -> list[str]:
            waiting = [asyncio.create_task(fetch_next(url, secret)) for url in urls]
            while not all(app.state.services.board.waiting for app in apps):
                await asyncio.sleep(0.01)
            await asyncio.to_thread(issue, server_store, 2)
            return list(await asyncio.gather(*waiting))

        with (
            running(apps[0], on_stop=lambda: release_agents(apps[0])) as first,
            running(apps[1], on_stop=lambda: release_agents(apps[1])) as second,
        ):
            wait_until(lambda: all(app.state.services.board.listens for app in apps))
            assert asyncio.run(go([first, second])) == ['"2"', '"2"']


@POSTGRES
def test_a_manager_that_is_not_told_polls_until_it_is(server_store: Store) -> None:
    issue(server_store, 1)
    secret = add_secret(server_store)
    app = make_manager(server_store, poll_s=0.05)
    board = app.state.services.board
    with running(app, on_stop=lambda: release_agents(app)) as url:
        wait_until(lambda: board.listens)
        with server_store.begin() as session:
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN tuner_%'"
            assert set(session.scalars(text(ended))) == {True}  # a service of before may be ending
        wait_until(lambda: not board.listens)
        issue(server_store, 2)
        assert asyncio.run(fetch_next(url, secret)) == '"2"'
        wait_until(lambda: board.listens)


@POSTGRES
def test_a_flood_of_wake_ups_is_not_listened_to(server_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As attacked: a role that may do nothing but connect notifies for as long as it likes."""
    from tuner.service.exchange import order_board

    polled, find = list[float](), order_board.list_newest
    monkeypatch.setattr(order_board, "list_newest", lambda store: [polled.append(time.monotonic()), find(store)][1])
    issue(server_store, 1)
    secret = add_secret(server_store)
    app = make_manager(server_store, poll_s=0.05)
    board = app.state.services.board
    with running(app, on_stop=lambda: release_agents(app)) as url:
        wait_until(lambda: board.listens)
        with server_store.engine.connect() as stranger:
            stranger.execute(text("CREATE ROLE stranger") if not has_role(stranger) else text("SELECT 1"))
            name = stranger.scalar(NAME)
            stranger.execute(text("SET ROLE stranger"))
            stranger.commit()
            until = time.monotonic() + ENOUGH
            while board.listens:
                assert time.monotonic() < until
                flood = "SELECT pg_notify(:name, i || repeat('x', 4000)) FROM generate_series(1, 500) AS i"
                stranger.execute(text(flood), {"name": name})
                stranger.commit()
            stranger.execute(text("RESET ROLE"))
            stranger.commit()
        begun, count = time.monotonic(), len(polled)
        issue(server_store, 2)
        assert asyncio.run(fetch_next(url, secret)) == '"2"'  # found by polling
        assert len(polled) - count <= (time.monotonic() - begun) / REST_S + 10
    assert all(later - earlier >= REST_S for earlier, later in pairwise(polled[2:-10]))


def has_role(connection: Connection) -> bool:
    return connection.scalar(text("SELECT count(*) FROM pg_roles WHERE rolname = 'stranger'")) == 1


def test_only_its_own_wake_up_is_relied_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of anybody made a manager behind a pooler believe that it is woken, and poll every 5 s alone."""
    board, relied, over = Board(store, NEVER), list[bool](), threading.Event()

    def receive(store: Store, on_wakeup: Callable[[bool], None], ending: Callable[[], bool]) -> None:
        for is_own in (False, True, False):
            on_wakeup(is_own)
            relied.append(board.listens)
        over.set()

    monkeypatch.setattr("tuner.service.exchange.order_watch.receive_wakeups", receive)
    loop = asyncio.new_event_loop()
    try:
        listen(board, loop, over)
    finally:
        loop.close()
    assert relied == [False, True, True]
    assert not board.listens
