"""No route of the service does anything for a caller who may not have it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from tests.service.http_server import running
from tuner.service.access.envelope import wrap
from tuner.service.access.gate import RateLimits, make_gate
from tuner.service.access.page_session import make_csrf, open_session
from tuner.service.access.token import SCOPES, make_secret, make_token
from tuner.service.app import make_app
from tuner.service.exchange.services import Settings
from tuner.store.applications import add_application
from tuner.store.connection import Store, open_store
from tuner.store.records import Trial, TuningRun
from tuner.store.runs import start_run
from tuner.store.tokens import revoke_token
from tuner.store.trials import add_trial

NOW = 1_790_000_000.0
APP = "marked"  # whose description says what nobody without a token may see
MARK = "operator_that_only_readers_know"
DOCUMENT = {
    "application": {"builtin": "pipeline"},
    "trace": {"generator": "diurnal", "note": MARK},
    "qos": {"r_max": 0.06},
}
OPEN = {  # all that answers without a token, and why
    ("GET", "/healthz"),  # asked by what watches over processes; that it lives, and no more
    ("GET", "/readyz"),
    ("GET", "/login"),  # the form
    ("POST", "/login"),  # which is how one gets in
    ("GET", "/login/oidc"),  # the same at a provider: away to it, and back
    ("GET", "/login/oidc/back"),
    ("GET", "/static/{name}"),  # the style of the form, and scripts; files of the program, the same for everybody
    ("GET", "/guide"),  # likewise: what the program's guide says of any installation
    ("GET", "/guide/{name}"),
}
FILLED = {"app": APP, "version": "1", "kind": "pin", "word": "pause", "name": "control"}
CHANGING = ("POST", "PUT", "PATCH", "DELETE")
UNUSUAL = ("OPTIONS", "TRACE", "PATCH", "PROPFIND")


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    template: str

    @property
    def path(self) -> str:
        return re.sub(r"{(\w+)(:\w+)?}", lambda found: FILLED.get(found[1], "1"), self.template)

    @property
    def is_page(self) -> bool:
        return not self.template.startswith("/v1/") and self.template != "/metrics"


def list_routes(app: FastAPI) -> list[Route]:
    found = [(route, route.path) for route in iter_route_contexts(app.routes)]
    assert all(path and route.methods for route, path in found), "a route of a kind that this test does not know"
    return [Route(method, str(path)) for route, path in found for method in sorted(route.methods or ())]


@dataclass(frozen=True, slots=True)
class Tried:
    """A service with its routes, and secrets of all sorts: of tokens by name, and of sessions."""

    client: httpx.Client
    routes: list[Route]
    tokens: dict[str, str]
    sessions: dict[str, str]

    def ask(self, route: Route, headers: dict[str, str], method: str | None = None) -> httpx.Response:
        return self.client.request(method or route.method, route.path, headers=headers)

    def ask_page(self, route: Route, secret: str, csrf: str | None = None) -> httpx.Response:
        """As a browser does, with the form's text of this session unless another is given."""
        told = make_csrf(secret) if csrf is None else csrf
        origin = str(self.client.base_url).rstrip("/")
        return self.ask(route, {"Cookie": f"tuner={secret}", "Origin": origin, "X-CSRF-Token": told})


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    store = open_store(tmp_path_factory.mktemp("routes") / "tuner.db")
    tokens, sessions = make_secrets(store)
    app = make_app(store, Settings(clock=lambda: NOW))
    make_gate(app, store, lambda: NOW, RateLimits(1e6, 1e6, 1e6, 1e6))
    with running(wrap(app)) as url, httpx.Client(base_url=url, timeout=30.0) as client:
        yield Tried(client, list_routes(app), tokens, sessions)
    store.close()


def make_secrets(store: Store) -> tuple[dict[str, str], dict[str, str]]:
    rights = {"all": set(SCOPES), "none": set(), "gone": set(SCOPES), "late": set(SCOPES)}
    rights |= {f"all but {scope}": set(SCOPES) - {scope} for scope in SCOPES}
    with store.begin() as session:
        version = add_application(session, APP, DOCUMENT, NOW)
        run = start_run(session, TuningRun(version.id or 0, "gp", 1, 10, NOW - 9.0), "nobody", NOW - 9.0)
        add_trial(session, run, Trial(run.id or 0, 0, {}, "failed", 1, NOW - 9.0, NOW - 8.0, failure=MARK), NOW - 8.0)
        ends = {"late": NOW}
        tokens = {
            name: make_token(session, name, scopes, "a test", NOW - 10.0, ends.get(name))[1]
            for name, scopes in rights.items()
        }
        tokens["other's"] = make_token(session, "other's", SCOPES, "a test", NOW - 10.0, None, ["another"])[1]
    opened = {name: open_session(store, secret, NOW - 5.0) for name, secret in tokens.items()}
    with store.begin() as session:
        revoke_token(session, "gone", NOW)
    tokens["wrong"], opened["wrong"] = make_secret(), make_secret("tp_")
    tokens["a session's"] = str(opened["all"])
    return tokens, {name: str(secret) for name, secret in opened.items()} | {"a token's": tokens["all"]}


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def is_turned_away(route: Route, answer: httpx.Response) -> bool:
    """401, or for who looks at a page the way to the log-in; and nothing of what is kept."""
    assert MARK not in answer.text
    if route.is_page and route.method == "GET":
        return answer.status_code == 303 and answer.headers["location"].startswith("/login?next=") and not answer.text
    return answer.status_code == 401


def guarded(tried: Tried) -> list[Route]:
    return [route for route in tried.routes if (route.method, route.template) not in OPEN]


def test_the_routes_are_all_there(tried: Tried) -> None:
    paths = {route.template for route in tried.routes}
    assert {"/v1/applications/{app}/reports", "/v1/openapi.json", "/", "/healthz", "/readyz", "/metrics"} <= paths
    assert {(route.method, route.template) for route in tried.routes} >= OPEN
    assert len(guarded(tried)) > 40


def test_without_a_token_nothing_is_done(tried: Tried) -> None:
    for given in ({}, {"Authorization": ""}, {"Authorization": "Basic YTpi"}, {"Cookie": "tuner="}):
        answers = {route: tried.ask(route, given) for route in guarded(tried)}
        assert [route for route, answer in answers.items() if not is_turned_away(route, answer)] == []
    answers = {route: tried.ask(route, {}) for route in guarded(tried) if not route.is_page}
    assert all(answer.headers["www-authenticate"].startswith("Bearer") for answer in answers.values())


@pytest.mark.parametrize("name", ["wrong", "gone", "late", "a session's"])
def test_with_a_token_that_does_not_hold_nothing_is_done(tried: Tried, name: str) -> None:
    for route in guarded(tried):
        assert is_turned_away(route, tried.ask(route, bearer(tried.tokens[name]))), route


@pytest.mark.parametrize("name", ["wrong", "gone", "late", "a token's"])
def test_with_a_session_that_does_not_hold_no_page_is_shown(tried: Tried, name: str) -> None:
    for route in guarded(tried):
        assert is_turned_away(route, tried.ask_page(route, tried.sessions[name])), route


def test_a_token_without_scopes_may_do_nothing(tried: Tried) -> None:
    for route in guarded(tried):
        answer = (
            tried.ask_page(route, tried.sessions["none"])
            if route.is_page
            else tried.ask(route, bearer(tried.tokens["none"]))
        )
        assert answer.status_code == 403, route
        assert MARK not in answer.text


def list_needed(tried: Tried, route: Route) -> set[str]:
    """The scopes without each of which all the others are not enough."""
    needed = set()
    for scope in SCOPES:
        name = f"all but {scope}"
        answer = (
            tried.ask_page(route, tried.sessions[name])
            if route.is_page
            else tried.ask(route, bearer(tried.tokens[name]))
        )
        if answer.status_code == 403:
            assert scope in answer.text
            assert MARK not in answer.text
            needed.add(scope)
    return needed


def test_each_route_needs_the_scope_of_what_it_does(tried: Tried) -> None:
    for route in guarded(tried):
        if route.template == "/logout":  # ends one's own session, and so needs one
            continue
        needed = list_needed(tried, route)
        if route.method in CHANGING:
            assert needed & {"report", "tune", "push"}, route
            assert ("report" in needed) is route.template.endswith(("/reports", "/acknowledgements")), route
        else:
            assert needed == {"report" if route.template.endswith("/orders") else "read"}, route


def test_who_may_do_all_is_turned_away_from_nothing(tried: Tried) -> None:
    seen = ""
    for route in guarded(tried):
        if route.method == "GET":
            page = route.is_page
            answer = (
                tried.ask_page(route, tried.sessions["all"]) if page else tried.ask(route, bearer(tried.tokens["all"]))
            )
            assert answer.status_code not in (401, 403, 500), route
            assert not answer.headers.get("location", "").startswith("/login"), route
            seen += answer.text
    assert MARK in seen


OF_NO_APPLICATION = {"/", "/v1/applications", "/v1/openapi.json"}


def test_token_of_another_application_reaches_nothing_of_this_one(tried: Tried) -> None:
    """A report token for one application read another's orders and rewrote its decisions."""
    secret, origin = tried.sessions["other's"], str(tried.client.base_url).rstrip("/")
    cookie = {"Cookie": f"tuner={secret}", "Origin": origin, "X-CSRF-Token": make_csrf(secret)}
    for route in guarded(tried):
        if route.template == "/logout":
            continue
        in_form = {"app": APP, "why": "x"} if route.is_page and route.method == "POST" else None
        in_query = {"app": APP} if route.is_page and route.method == "GET" and route.template != "/" else None
        headers = cookie if route.is_page else bearer(tried.tokens["other's"])
        answer = tried.client.request(route.method, route.path, headers=headers, params=in_query, data=in_form)
        expected = 200 if route.template in OF_NO_APPLICATION else 403
        assert answer.status_code == expected, (route, answer.text)
        assert MARK not in answer.text
        if expected != 403:
            assert APP not in answer.text
    unknown = tried.client.get("/v1/applications/another", headers=bearer(tried.tokens["other's"]))
    assert unknown.json()["detail"] == "there is no application 'another'"


def test_a_token_opens_no_page_and_a_cookie_no_api(tried: Tried) -> None:
    for route in guarded(tried):
        right = bearer(tried.tokens["all"]) if route.is_page else {"Cookie": f"tuner={tried.sessions['all']}"}
        assert is_turned_away(route, tried.ask(route, right)), route


def test_no_form_is_taken_without_the_session_s_own_text(tried: Tried) -> None:
    forms = [route for route in guarded(tried) if route.is_page and route.method in CHANGING]
    assert forms
    for route in forms:
        for csrf in ("", make_csrf(tried.sessions["none"])):
            assert tried.ask_page(route, tried.sessions["all"], csrf).status_code == 403, route


def test_no_other_method_is_a_way_in(tried: Tried) -> None:
    declared = {(route.method, route.template) for route in tried.routes}
    for route in guarded(tried):
        for method in (*UNUSUAL, "HEAD", *CHANGING):
            if (method, route.template) not in declared:
                answer = tried.ask(route, {}, method)
                assert answer.status_code in (401, 405), (method, route)
                assert MARK not in answer.text


def test_what_is_open_tells_nothing(tried: Tried) -> None:
    for route in tried.routes:
        if (route.method, route.template) in OPEN:
            answer = tried.ask(route, {})
            assert APP not in answer.text
            assert MARK not in answer.text
            assert len(answer.content) < 100_000
