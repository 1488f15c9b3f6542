"""Two managers on one PostgreSQL: what people began at one they go on with at the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from tests.service.conftest import BOUNDS, SHOP, WEIGHTS, sentence
from tests.service.http_server import running
from tests.service.serve_process import add_secret
from tests.service.test_orders import wait_until
from tests.store.conftest import POSTGRES
from tuner.service.access.page_session import make_csrf
from tuner.service.app import make_app, release_agents
from tuner.store.connection import Store, open_store
from tuner.store.tokens import revoke_token

pytestmark = POSTGRES
APP = "/v1/applications/shop"


@pytest.fixture
def urls(server_store: Store) -> Iterator[tuple[str, str]]:
    address = server_store.engine.url.render_as_string(hide_password=False)
    with closing(open_store(address)) as other:
        first, second = make_app(server_store), make_app(other)
        with (
            running(first, on_stop=lambda: release_agents(first)) as one,
            running(second, on_stop=lambda: release_agents(second)) as two,
        ):
            yield one, two


def look(url: str, cookie: str) -> int:
    return httpx.get(f"{url}/", headers={"Cookie": f"tuner={cookie}"}, timeout=60.0).status_code


def test_a_session_is_good_at_both_and_ends_at_both(urls: tuple[str, str], server_store: Store) -> None:
    one, two = urls
    secret = add_secret(server_store)
    entered = httpx.post(f"{one}/login", data={"token": secret}, headers={"Origin": one}, timeout=60.0)
    assert entered.status_code == 303
    cookie = entered.cookies["tuner"]
    assert (look(two, cookie), look(one, cookie)) == (200, 200)
    headers = {"Origin": two, "Cookie": f"tuner={cookie}"}
    left = httpx.post(f"{two}/logout", data={"csrf": make_csrf(cookie)}, headers=headers, timeout=60.0)
    assert left.status_code == 303
    assert look(two, cookie) == 303  # to the log-in
    wait_until(lambda: look(one, cookie) == 303)


def test_a_revoked_token_is_refused_by_both(urls: tuple[str, str], server_store: Store) -> None:
    headers = {"Authorization": f"Bearer {add_secret(server_store, 'ann')}"}
    clients = [httpx.Client(base_url=url, headers=headers, timeout=60.0) for url in urls]
    try:
        assert [client.get("/v1/applications").status_code for client in clients] == [200, 200]
        with server_store.begin() as session:
            revoke_token(session, "ann", 1.0)
        wait_until(lambda: [client.get("/v1/applications").status_code for client in clients] == [401, 401])
    finally:
        for client in clients:
            client.close()


def test_each_sees_at_once_what_the_other_did(urls: tuple[str, str], server_store: Store) -> None:
    headers = {"Authorization": f"Bearer {add_secret(server_store)}"}
    with (
        httpx.Client(base_url=urls[0], headers=headers, timeout=60.0) as one,
        httpx.Client(base_url=urls[1], headers=headers, timeout=60.0) as two,
    ):
        assert one.put(APP, json={"document": SHOP}).status_code == 200
        for version in (1, 2, 3):
            made = two.post(f"{APP}/objectives", json={"weights": WEIGHTS, "bounds": BOUNDS})
            assert (made.status_code, made.json()["version"]) == (201, version)
            pushed = {"stage": "full", "why": "a test"}
            assert one.post(f"{APP}/objectives/{version}/push", json=pushed).status_code == 200
            assert two.post(f"{APP}/objectives/{version}/push", json=pushed).status_code == 200  # changes nothing
            assert two.get(f"{APP}/orders").json()["objective"]["version"] == version
        assert one.post(f"{APP}/rollback", json={"why": "a test", "version": 3}).status_code == 200
        again = two.post(f"{APP}/rollback", json={"why": "a test", "version": 3})
        assert "is not what would be rolled back by now" in sentence(again, 409)
        assert two.get(f"{APP}/orders").json()["objective"]["version"] == 2
