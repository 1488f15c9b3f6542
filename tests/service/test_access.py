"""Callers, refusals and envelopes by headers, over real HTTP against a small application of our own."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.responses import StreamingResponse
from sqlalchemy import update
from starlette.datastructures import Headers
from starlette.types import ASGIApp

from scaler.model.errors import BadInput
from tests.service.http_server import PATIENCE, running
from tuner.cli import COMMANDS
from tuner.cli.lazy_group import LazyGroup
from tuner.service.access.bodies_in_flight import BodiesInFlight
from tuner.service.access.callers import FRESH_S, KEPT_S, Caller, Callers, look_up
from tuner.service.access.envelope import HEADERS, wrap
from tuner.service.access.gate import Buckets, RateLimits, group_address, make_gate, read_bearer, require
from tuner.service.access.page_session import open_session
from tuner.service.access.token import SCOPES, SECRET, digest, is_live, join_scopes, make_token, matches
from tuner.service.serving import Listening
from tuner.store.connection import Session, Store, open_store
from tuner.store.records import Token
from tuner.store.tables import TOKENS
from tuner.store.tokens import find_token, list_tokens, revoke_token

NOW = 1_790_000_000.0
BODY = 1000  # bytes that a body may have here


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "tuner.db")
    yield opened
    opened.close()


def make(store: Store, name: str, *scopes: str, expires: float | None = None) -> str:
    with store.begin() as session:
        return make_token(session, name, scopes, "a test", NOW, expires)[1]


def revoke(store: Store, name: str, now: float = NOW) -> None:
    with store.begin() as session:
        revoke_token(session, name, now)


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def make_small_app(
    store: Store,
    clock: Callable[[], float] = lambda: NOW,
    limits: RateLimits | None = None,
    host_names: tuple[str, ...] = (),
) -> ASGIApp:
    app = FastAPI(openapi_url=None)
    make_gate(app, store, clock, limits or RateLimits())

    @app.get("/look")
    async def look(caller: Annotated[Caller, Depends(require("read"))]) -> str:
        return caller.name

    @app.post("/change")
    async def change(request: Request, caller: Annotated[Caller, Depends(require("read", "push"))]) -> int:
        return len(await request.body())

    @app.post("/open")
    async def take(request: Request) -> int:
        return len(await request.body())

    @app.get("/fail")
    async def fail(early: bool) -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"half of it"
            raise RuntimeError("told to nobody")

        if early:
            raise RuntimeError("told to nobody")
        return StreamingResponse(pieces())

    @app.get("/healthz")
    async def health() -> str:
        return "well"

    return wrap(app, BodiesInFlight(BODY, seconds=0.5), host_names)


def test_a_secret_is_long_and_kept_nowhere(store: Store) -> None:
    secrets = [make(store, f"token {i}", "read") for i in range(20)]
    assert len(set(secrets)) == 20
    assert all(SECRET.fullmatch(secret) and secret.startswith("ts_") for secret in secrets)
    with store.read() as session:
        rows = list_tokens(session)
    assert not any(secret[3:] in repr(row) for secret in secrets for row in rows)
    assert [row.digest for row in rows] == [digest(secret) for secret in secrets]
    assert matches(secrets[3], rows[3])
    assert not matches(secrets[3], rows[4])


def find_caller(store: Store, header: str | None, now: float) -> Caller | None:
    shown = read_bearer(Headers({} if header is None else {"Authorization": header}))
    return None if shown is None else look_up(store, shown, now, False)


def test_a_token_lets_in_until_it_ends(store: Store) -> None:
    secret = make(store, "scalers", "report", expires=NOW + 60.0)
    header = f"Bearer {secret}"
    caller = find_caller(store, header, NOW + 59.0)
    assert caller is not None
    assert (caller.name, caller.scopes) == ("scalers", {"report"})
    assert find_caller(store, header.replace("Bearer", "bearer"), NOW) == caller
    assert find_caller(store, header, NOW + 60.0) is None
    revoke(store, "scalers")
    assert find_caller(store, header, NOW) is None


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic dTpw", "Bearer ts_", "Bearer é", "Bearer " + "x" * 9999]
)
def test_what_is_no_token_lets_nobody_in(kept: Store, header: str | None) -> None:
    make(kept, "scalers", "report")
    assert find_caller(kept, header, NOW) is None


def test_a_token_that_is_wrong_in_one_letter_lets_nobody_in(kept: Store) -> None:
    secret = make(kept, "scalers", "report")
    for i in (3, 20, 45):
        wrong = secret[:i] + ("A" if secret[i] != "A" else "B") + secret[i + 1 :]
        assert find_caller(kept, f"Bearer {wrong}", NOW) is None


def test_a_session_is_no_bearer_token_nor_the_other_way_round(store: Store) -> None:
    secret = make(store, "anna", "read")
    opened = open_session(store, secret, NOW)
    assert opened is not None
    assert look_up(store, opened, NOW, True) is not None
    assert look_up(store, opened, NOW, False) is None
    assert look_up(store, secret, NOW, True) is None
    assert open_session(store, opened, NOW) is None


def test_a_session_that_is_opened_as_its_token_is_revoked_does_not_hold(store: Store) -> None:
    secret = make(store, "anna", "read")
    opened = str(open_session(store, secret, NOW))
    with store.begin() as session:  # as if the session's row had come just after those that were revoked
        session.execute(update(TOKENS.table).where(TOKENS.c.name == "anna").values(revoked=NOW))
    assert look_up(store, opened, NOW, True) is None


@pytest.mark.parametrize("name", ["", " ", " anna", "anna\n", "a\x1b[31m", "x" * 101])
def test_names_of_tokens_can_be_read(kept: Store, name: str) -> None:
    with pytest.raises(BadInput, match="visible characters"):
        make(kept, name, "read")


def test_scopes_are_known_ones() -> None:
    assert join_scopes(["push", "report", "push"]) == "report push"
    with pytest.raises(BadInput, match="'write' is no scope; it must be one of report, read, tune, push"):
        join_scopes(["read", "write"])
    with pytest.raises(ValueError, match="a route needs"):
        require("write")
    with pytest.raises(ValueError, match="a route needs"):
        require()


def test_liveness_is_of_both_ends() -> None:
    token = Token("a", "d", "read", "me", NOW, NOW + 1.0)
    assert is_live(token, NOW)
    assert not is_live(token, NOW + 1.0)
    assert not is_live(replace(token, revoked=NOW), NOW)


async def find_twice(callers: Callers, secret: str, between: Callable[[], None]) -> tuple[Caller | None, Caller | None]:
    first = await callers.find(secret, NOW)
    between()
    return first, await callers.find(secret, NOW)


def test_one_query_lasts_a_second_and_revoking_no_longer(kept: Store) -> None:
    secret = make(kept, "scalers", "report")
    ticks = [0.0]
    callers = Callers(kept, lambda: ticks[0])
    first, second = asyncio.run(find_twice(callers, secret, lambda: revoke(kept, "scalers")))
    assert first is second is not None
    ticks[0] = FRESH_S
    assert asyncio.run(callers.find(secret, NOW)) is None
    assert asyncio.run(callers.find(secret, NOW)) is None


class CountingStore:
    """A store that counts how often it is read."""

    def __init__(self, store: Store) -> None:
        self.store, self.reads = store, 0

    def read(self) -> AbstractContextManager[Session]:
        self.reads += 1
        return self.store.read()


def test_all_who_call_often_are_looked_up_at_once(kept: Store) -> None:
    secrets = [make(kept, f"agents {i}", "report") for i in range(40)]
    store, ticks = CountingStore(kept), [0.0]
    callers = Callers(store, lambda: ticks[0])  # type: ignore[arg-type]

    async def find(*some: str) -> list[str | None]:
        found = await asyncio.gather(*(callers.find(secret, NOW) for secret in some))
        return [None if caller is None else caller.name for caller in found]

    async def call() -> None:
        names: list[str | None] = [f"agents {i}" for i in range(40)]
        assert await find(*secrets, *secrets) == [*names, *names]
        assert store.reads == 1
        revoke(kept, "agents 7")
        ticks[0] = FRESH_S
        assert await find(secrets[0]) == ["agents 0"]
        names[7] = None
        assert await find(*secrets) == names
        assert store.reads == 3  # of all, and once more of the revoked one
        ticks[0] = 2.0 * FRESH_S + KEPT_S
        assert await find(secrets[0], "ts_none", "ts_" + "x" * 43) == ["agents 0", None, None]
        assert len(callers.held) == 1

    asyncio.run(call())


def test_session_that_is_closed_during_a_query_is_forgotten(kept: Store) -> None:
    opened = open_session(kept, make(kept, "anna", "read"), NOW)
    assert opened is not None
    callers, closing = Callers(kept), threading.Event()

    class Slow(CountingStore):
        def read(self) -> AbstractContextManager[Session]:
            assert closing.wait(30.0)
            return super().read()

    async def call() -> None:
        callers.store = Slow(kept)  # type: ignore[assignment]
        first = asyncio.create_task(callers.find(opened, NOW, True))
        await asyncio.sleep(0.0)
        callers.forget(opened)
        closing.set()
        assert await first is not None  # who asked before it was closed
        assert callers.held == {}

    asyncio.run(call())


def test_the_use_of_a_token_is_noted_once_a_minute(kept: Store) -> None:
    secret = make(kept, "scalers", "report")
    caller = look_up(kept, secret, NOW, False)
    assert caller is not None
    ticks = [0.0]
    callers = Callers(kept, lambda: ticks[0])
    assert [callers.is_due(caller) for ticks[0] in (0.0, 1.0, 59.0, 60.0, 61.0)] == [True, False, False, True, False]
    callers.note(caller, NOW + 5.0)
    with kept.read() as session:
        found = find_token(session, digest(secret))
    assert found is not None
    assert found.used == NOW + 5.0


def test_a_bucket_refills() -> None:
    ticks = [0.0]
    buckets = Buckets(2.0, 3.0, lambda: ticks[0])
    assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert buckets.take("b") == 0.0
    ticks[0] = 0.5
    assert buckets.take("a") == 0.0
    assert buckets.take("a") == pytest.approx(0.5)


def test_buckets_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.service.access.gate.MAX_BUCKETS", 10)
    ticks = [0.0]
    buckets = Buckets(0.001, 3.0, lambda: ticks[0])
    for i in range(100):
        ticks[0] = float(i)
        buckets.take(i)
    assert len(buckets.levels) <= 10
    assert 99 in buckets.levels


def test_who_has_one_address_of_ipv6_has_many() -> None:
    assert group_address("2001:db8::1") == group_address("2001:db8::ffff") != group_address("2001:db8:0:1::1")
    assert group_address("127.0.0.1") != group_address("127.0.0.2")
    assert group_address(None) == "?"


def test_routes_tell_who_may_from_who_may_not(kept: Store) -> None:
    reader, pusher = make(kept, "reader", "read"), make(kept, "pusher", "read", "push")
    ended = make(kept, "ended", "read", expires=NOW)
    with running(make_small_app(kept)) as url, httpx.Client(base_url=url) as client:
        assert client.get("/look").status_code == 401
        assert client.get("/look").headers["www-authenticate"].startswith("Bearer")
        assert client.get("/look", headers=bearer(ended)).status_code == 401
        assert client.get("/look", headers=bearer("ts_" + "x" * 43)).status_code == 401
        assert client.get("/look", headers=bearer(reader)).json() == "reader"
        assert client.post("/change", headers=bearer(reader)).status_code == 403
        assert "'push'" in client.post("/change", headers=bearer(reader)).json()["detail"]
        assert client.post("/change", headers=bearer(pusher), content=b"1234").json() == 4
        assert client.get("/look", headers={"Cookie": f"tuner={reader}"}).status_code == 401


def test_a_token_has_its_rate_and_another_its_own(kept: Store) -> None:
    one, other = make(kept, "one", "read"), make(kept, "other", "read")
    app = make_small_app(kept, limits=RateLimits(rate=0.001, burst=3.0))
    with running(app) as url, httpx.Client(base_url=url) as client:
        answers = [client.get("/look", headers=bearer(one)) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert int(answers[-1].headers["retry-after"]) > 0
        assert client.get("/look", headers=bearer(other)).status_code == 200


def test_wrong_tokens_are_few_from_one_address_and_right_ones_still_come_in(kept: Store) -> None:
    right = make(kept, "right", "read")
    app = make_small_app(kept, limits=RateLimits(failures=0.001, failures_at_once=2.0))
    with running(app) as url, httpx.Client(base_url=url) as client:
        codes = [client.get("/look", headers=bearer("ts_" + "x" * 43)).status_code for _ in range(4)]
        assert codes == [401, 401, 429, 429]
        assert client.get("/look", headers=bearer(right)).status_code == 200
        assert client.get("/look").status_code == 401


def bring_wrong_ones(client: httpx.Client) -> list[int]:
    """Each as if from another place."""
    wrong = bearer("ts_" + "x" * 43)
    return [client.get("/look", headers={**wrong, "X-Forwarded-For": f"192.0.2.{i}"}).status_code for i in range(3)]


def test_where_a_request_comes_from_is_believed_only_of_the_proxy_that_was_named(kept: Store) -> None:
    limits = RateLimits(failures=0.001, failures_at_once=1.0)
    with running(make_small_app(kept, limits=limits)) as url, httpx.Client(base_url=url) as client:
        assert bring_wrong_ones(client) == [401, 429, 429]
    for proxy, codes in (("127.0.0.1", [401, 401, 401]), ("192.0.2.9", [401, 429, 429])):
        app = make_small_app(kept, limits=limits)
        with running(app, Listening(proxy=proxy)) as url, httpx.Client(base_url=url) as client:
            assert bring_wrong_ones(client) == codes


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = open_store(tmp_path_factory.mktemp("envelope") / "tuner.db")
    with running(make_small_app(store)) as url:
        yield url
    store.close()


@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/nowhere", 404), ("/look", 401)])
def test_every_answer_is_in_the_envelope(url: str, path: str, status: int) -> None:
    answer = httpx.get(url + path)
    assert answer.status_code == status
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert "server" not in answer.headers


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[::2]:80"]
)
def test_a_page_whose_name_points_here_learns_nothing(url: str, host: str) -> None:
    answer = httpx.get(f"{url}/look", headers={"Host": host})
    assert answer.status_code == 421
    assert answer.headers["content-type"] == "application/problem+json"
    assert httpx.get(f"{url}/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:1", "[::1]:8321", "localhost."])
def test_names_of_the_loopback_are_ours(url: str, host: str) -> None:
    assert httpx.get(f"{url}/look", headers={"Host": host}).status_code == 401


def test_names_that_were_given_are_ours(kept: Store) -> None:
    app = make_small_app(kept, host_names=("Tuner.Example",))
    with running(app) as url:
        assert httpx.get(f"{url}/look", headers={"Host": "tuner.example:443"}).status_code == 401
        assert httpx.get(f"{url}/look", headers={"Host": "other.example"}).status_code == 421


def test_a_body_may_be_so_large_and_no_larger(url: str) -> None:
    assert httpx.post(f"{url}/open", content=b"x" * BODY).json() == BODY
    answer = httpx.post(f"{url}/open", content=b"x" * (BODY + 1))
    assert (answer.status_code, answer.json()["status"]) == (413, 413)
    assert "1,000 bytes" in answer.json()["detail"]


def test_a_body_in_pieces_is_counted(url: str) -> None:
    assert httpx.post(f"{url}/open", content=(b"x" * 100 for _ in range(10))).json() == BODY
    assert httpx.post(f"{url}/open", content=(b"x" * 100 for _ in range(11))).status_code == 413


@pytest.mark.parametrize(
    ("scheme", "host", "said"),
    [("https", "tuner.example", True), ("https", "localhost:1", False), ("http", "a", False)],
)
def test_browsers_are_told_to_stay_with_https(kept: Store, scheme: str, host: str, said: bool) -> None:
    async def ask() -> httpx.Response:
        app = make_small_app(kept, host_names=("tuner.example", "a"))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"{scheme}://{host}") as client:
            return await client.get("/healthz")

    answer = asyncio.run(ask())
    assert ("strict-transport-security" in answer.headers) is said


def send_raw(url: str, text: bytes) -> tuple[int, bytes]:
    """The answer's status and the rest, of a request that no library would send."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as sock:
        sock.sendall(text)
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        return answer.status, answer.read()


HEAD = b"POST /open HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (HEAD + b"Content-Length: 99999999999\r\n\r\nx", 413),
        (HEAD + b"Content-Length: " + b"9" * 400 + b"\r\n\r\nx", 400),
        (HEAD + b"Content-Length: 100\r\n\r\nx", 408),
        (HEAD + b"Content-Length: -1\r\n\r\n", 400),
        (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\nx\r\n", 413),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nxx", 408),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00", 400),
    ],
)
def test_lengths_that_lie_are_answered_and_end_the_connection(url: str, text: bytes, status: int) -> None:
    try:
        assert send_raw(url, text)[0] == status
    except ConnectionError:  # the answer may be lost where much was left unread
        assert len(text) > 100_000
    assert httpx.get(f"{url}/healthz").status_code == 200


def test_a_request_that_never_comes_is_not_waited_for(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.service.serving.HEAD_TIMEOUT", 0.2)
    monkeypatch.setattr("tuner.service.serving.LOOK_S", 0.05)
    with running(make_small_app(kept)) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        for text in (b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea"):
            with socket.create_connection((host, int(port)), PATIENCE) as sock:
                sock.sendall(text)
                while is_open(sock):  # the limit is the socket's own
                    pass


def is_open(sock: socket.socket) -> bool:
    try:
        return bool(sock.recv(65_536))
    except ConnectionResetError:
        return False


def test_all_scopes_are_told_of(kept: Store) -> None:
    group = COMMANDS["token"]
    assert isinstance(group, LazyGroup)
    assert all(f"\n  {name} " in str(group.help) for name in SCOPES)


def test_what_fails_is_said_without_why_and_what_is_cut_off_is_seen_to_be(url: str) -> None:
    with httpx.Client(base_url=url) as client:
        for _ in range(3):  # the connection goes on
            answer = client.get("/fail?early=true")
            assert answer.status_code == 500
            assert "nobody" not in answer.text
            assert answer.headers["x-content-type-options"] == "nosniff"
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("/fail?early=false")


def test_refusals_are_json(url: str) -> None:
    status, text = send_raw(url, HEAD + b"Content-Length: 5000\r\n\r\n")
    assert status == 413
    assert json.loads(text).keys() == {"type", "title", "status", "detail"}


def test_token_that_expires_soon_is_said_once_a_day(kept: Store, caplog: pytest.LogCaptureFixture) -> None:
    day = 86_400.0
    secret = make(kept, "agents", "report", expires=NOW + 30.0 * day)
    callers = Callers(kept)
    with caplog.at_level("WARNING"):
        for now in (NOW, NOW + 15.0 * day, NOW + 17.0 * day, NOW + 17.5 * day, NOW + 18.1 * day):
            caller = look_up(kept, secret, now, False)
            assert caller is not None
            callers.note(caller, now)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert told[0].startswith("the token 'agents' expires at ")
    assert told[0].endswith("make its next secret with: tuner token rotate agents")
