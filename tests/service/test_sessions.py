"""A session of the page: begun by a token, usable by our own page alone, ended with its token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from tests.service.http_server import running
from tuner.service.access.envelope import wrap
from tuner.service.access.gate import RateLimits, make_gate
from tuner.service.access.page_session import (
    SESSION_S,
    PageSession,
    clear_cookie,
    log_in,
    log_out,
    make_csrf,
    open_session,
    read_form,
    read_next,
    require_page,
    set_cookie,
)
from tuner.service.access.token import make_secret, make_token
from tuner.store.connection import Store, open_store
from tuner.store.tokens import list_tokens, revoke_token

NOW = 1_790_000_000.0


def make_pages() -> FastAPI:
    """What the page does with sessions, and no more."""
    app = FastAPI(openapi_url=None)

    @app.post("/login")
    async def enter(request: Request) -> Response:
        form = await read_form(request)
        secret = await log_in(request, form.get("token", ""))
        if secret is None:
            return JSONResponse("wrong", 401)
        answer = RedirectResponse(read_next(form.get("next")), 303)
        set_cookie(request, answer, secret)
        return answer

    @app.post("/logout")
    async def leave(request: Request, session: Annotated[PageSession, Depends(require_page("read"))]) -> Response:
        await log_out(request)
        answer = RedirectResponse("/login", 303)
        clear_cookie(request, answer)
        return answer

    @app.get("/")
    async def look(session: Annotated[PageSession, Depends(require_page("read"))]) -> dict[str, str]:
        return {"name": session.caller.name, "csrf": session.csrf}

    @app.post("/roll-back")
    async def roll_back(
        request: Request, session: Annotated[PageSession, Depends(require_page("read", "push"))]
    ) -> dict[str, str]:
        return await read_form(request)

    return app


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "tuner.db")
    yield opened
    opened.close()


@pytest.fixture
def ticks() -> list[float]:
    return [NOW]


PAGES = make_pages()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(wrap(PAGES)) as url:
        yield url


@pytest.fixture
def client(url: str, kept: Store, ticks: list[float]) -> Iterator[httpx.Client]:
    make_gate(PAGES, kept, lambda: ticks[0], RateLimits(failures=0.001, failures_at_once=2.0))
    with httpx.Client(base_url=url, headers={"Origin": url}) as client:
        yield client


def make(store: Store, name: str, *scopes: str, expires: float | None = None) -> str:
    with store.begin() as session:
        return make_token(session, name, scopes, "a test", NOW, expires)[1]


def enter(client: httpx.Client, secret: str, **fields: str) -> httpx.Response:
    return client.post("/login", data={"token": secret, **fields})


def act(client: httpx.Client, csrf: str, headers: dict[str, Any] | None = None, **fields: str) -> int:
    return client.post("/roll-back", data={"csrf": csrf, **fields}, headers=headers).status_code


def test_a_person_logs_in_looks_acts_and_logs_out(client: httpx.Client, kept: Store) -> None:
    sent_away = client.get("/", params={"kind": "SCALED", "q": "a b"})
    assert (sent_away.status_code, sent_away.text.count("csrf")) == (303, 0)
    assert sent_away.headers["location"] == "/login?next=/%3Fkind%3DSCALED%26q%3Da%2Bb"
    entered = enter(client, make(kept, "anna", "read", "push"), next="/?kind=SCALED")
    assert (entered.status_code, entered.headers["location"]) == (303, "/?kind=SCALED")
    told = client.get("/").json()
    assert told["name"] == "anna"
    answer = client.post("/roll-back", data={"csrf": told["csrf"], "why": "é & <b>"})
    assert (answer.status_code, answer.json()["why"]) == (200, "é & <b>")
    held = client.cookies["tuner"]
    assert client.post("/logout", data={"csrf": told["csrf"]}).status_code == 303
    assert "tuner" not in client.cookies
    assert client.get("/", headers={"Cookie": f"tuner={held}"}).status_code == 303
    with kept.read() as session:
        assert [token.name for token in list_tokens(session)] == ["anna"]


def test_the_cookie_goes_to_no_script_and_no_other_site(client: httpx.Client, kept: Store) -> None:
    secret = make(kept, "anna", "read")
    cookie = enter(client, secret).headers["set-cookie"]
    assert {part.strip().lower() for part in cookie.split(";")[1:]} == {
        "httponly",
        "samesite=strict",
        "path=/",
        f"max-age={SESSION_S:.0f}",
    }
    assert secret not in cookie


def test_a_session_ends_after_half_a_day(client: httpx.Client, kept: Store, ticks: list[float]) -> None:
    cookie = {"Cookie": f"tuner={open_session(kept, make(kept, 'anna', 'read'), NOW)}"}
    ticks[0] = NOW + SESSION_S
    assert client.get("/", headers=cookie).status_code == 303
    ticks[0] = NOW + SESSION_S - 1.0
    assert client.get("/", headers=cookie).status_code == 200


def test_a_session_ends_with_its_token(client: httpx.Client, kept: Store, ticks: list[float]) -> None:
    brief = {"Cookie": f"tuner={open_session(kept, make(kept, 'brief', 'read', expires=NOW + 60.0), NOW)}"}
    gone = {"Cookie": f"tuner={open_session(kept, make(kept, 'gone', 'read'), NOW)}"}
    with kept.begin() as session:
        revoke_token(session, "gone", NOW)
    ticks[0] = NOW + 60.0
    assert client.get("/", headers=brief).status_code == 303
    assert client.get("/", headers=gone).status_code == 303
    assert open_session(kept, make(kept, "late", "read", expires=NOW), NOW) is None


@pytest.mark.parametrize("wrong", ["", "ts_", "' OR 1=1 --", "ts_" + "x" * 43, "é" * 50, "x" * 10_000])
def test_what_is_no_token_opens_nothing(client: httpx.Client, wrong: str) -> None:
    answer = enter(client, wrong)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_guessing_is_slowed_down(client: httpx.Client, kept: Store) -> None:
    answers = [enter(client, make_secret()) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [401, 401, 429, 429]
    assert int(answers[-1].headers["retry-after"]) > 0


@pytest.mark.parametrize("cookie", ["", "tp_" + "x" * 43, "ts_" + "x" * 43, "x" * 4000, "tp_é"])
def test_a_cookie_of_no_session_shows_nothing(client: httpx.Client, cookie: str) -> None:
    headers = {"Cookie": f"tuner={cookie}".encode()}
    assert client.get("/", headers=headers).status_code == 303
    assert client.post("/roll-back", headers=headers).status_code == 401


def test_a_token_is_no_cookie(client: httpx.Client, kept: Store) -> None:
    secret = make(kept, "anna", "read", "push")
    assert client.get("/", headers={"Cookie": f"tuner={secret}"}).status_code == 303
    assert client.get("/", headers={"Authorization": f"Bearer {secret}"}).status_code == 303


def test_who_may_only_look_does_not_act(client: httpx.Client, kept: Store) -> None:
    enter(client, make(kept, "guest", "read"))
    assert act(client, client.get("/").json()["csrf"]) == 403
    enter(client, make(kept, "scalers", "report"))
    assert client.get("/").status_code == 403


OTHERS: list[dict[str, str]] = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
]


@pytest.mark.parametrize("headers", OTHERS)
def test_another_site_cannot_act_with_the_session(client: httpx.Client, kept: Store, headers: dict[str, str]) -> None:
    secret = make(kept, "anna", "read", "push")
    enter(client, secret)
    csrf = client.get("/").json()["csrf"]
    assert act(client, csrf, headers) == 403
    assert client.post("/login", data={"token": secret}, headers=headers).status_code == 403
    assert act(client, csrf, {"Sec-Fetch-Site": "same-origin"}) == 200


def test_a_request_that_does_not_say_where_it_comes_from_is_refused(client: httpx.Client, kept: Store) -> None:
    enter(client, make(kept, "anna", "read", "push"))
    csrf = client.get("/").json()["csrf"]
    del client.headers["Origin"]
    assert act(client, csrf) == 403
    assert act(client, csrf, {"Sec-Fetch-Site": "same-origin"}) == 200


def test_a_form_carries_a_text_that_only_our_page_knows(client: httpx.Client, kept: Store) -> None:
    enter(client, make(kept, "anna", "read", "push"))
    csrf = client.get("/").json()["csrf"]
    assert csrf not in client.cookies.get("tuner", "")
    assert [act(client, wrong) for wrong in ("", csrf[:-1], csrf.upper(), make_csrf(make_secret()), "é")] == [403] * 5
    assert act(client, csrf) == 200
    assert client.post("/roll-back", headers={"X-CSRF-Token": csrf}).status_code == 200
    as_json = client.post("/roll-back", json={"csrf": csrf})
    as_text = client.post("/roll-back", content=f"csrf={csrf}", headers={"Content-Type": "text/plain"})
    assert (as_json.status_code, as_text.status_code) == (403, 403)


@pytest.mark.parametrize("content", [b"\xff=1", b"&".join(b"a=%d" % i for i in range(2000)), b"a=%ff"])
def test_a_form_that_cannot_be_read_is_refused(client: httpx.Client, kept: Store, content: bytes) -> None:
    enter(client, make(kept, "anna", "read", "push"))
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/roll-back", content=content, headers=headers).status_code == 400


@pytest.mark.parametrize(
    ("given", "gone_to"),
    [
        ("/apps/shop?kind=SCALED", "/apps/shop?kind=SCALED"),
        (None, "/"),
        ("", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/a\\b", "/"),
        ("/\t/evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nSet-Cookie: a=b", "/"),
    ],
)
def test_the_way_back_stays_here(given: str | None, gone_to: str) -> None:
    assert read_next(given) == gone_to
