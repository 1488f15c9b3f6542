"""People log in at a provider of their own, and nobody else does: each attack on the way, against real HTTP."""

from __future__ import annotations

import base64
import hmac
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from scaler.model.errors import BadInput
from tests.commands import refuse, succeed
from tests.service.conftest import SHOP
from tests.service.http_server import running
from tests.service.identity_provider import (
    CLIENT,
    SECRET,
    Claims,
    Provider,
    encode,
    make_key,
    providing,
    write_token,
)
from tuner.cli.options import name_user
from tuner.service.access.envelope import wrap
from tuner.service.access.gate import Buckets
from tuner.service.access.oidc_provider import RENEW_S, OpenIdProvider
from tuner.service.access.oidc_settings import SECRET_VARIABLE, read_oidc_settings
from tuner.service.access.page_session import make_csrf
from tuner.service.access.token import SCOPES, make_token
from tuner.service.app import make_app
from tuner.service.exchange.services import Settings
from tuner.store.applications import add_application
from tuner.store.audit_log import list_events
from tuner.store.connection import Store, open_store
from tuner.store.tokens import list_tokens

KEY, FORGED = make_key("first"), make_key("first")  # which call themselves the same
ATTEMPT = "tuner-login"


@dataclass
class House:
    """A service, its provider, a clock that can be turned, and a browser."""

    app: FastAPI
    store: Store
    url: str
    provider: Provider
    later: list[float]
    browser: httpx.Client

    def begin(self, onward: str = "/") -> httpx.Response:
        return self.browser.get("/login/oidc", params={"next": onward})

    def visit(self, onward: str = "/") -> str:
        """To the provider and back; the address that it sends the browser to."""
        sent = self.begin(onward)
        assert sent.status_code == 303, sent.text
        return httpx.get(sent.headers["location"]).headers["location"]

    def enter(self, onward: str = "/") -> httpx.Response:
        return self.browser.get(self.visit(onward))

    def forget(self) -> None:
        """What the database said a moment ago, as happens within a second."""
        self.app.state.gate.callers.held.clear()

    def stranger(self) -> httpx.Client:
        return httpx.Client(base_url=self.url)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    store, later = open_store(tmp_path / "tuner.db"), [0.0]
    with providing(KEY) as provider:
        open_id = OpenIdProvider(provider.settings, lambda: time.monotonic() + later[0])
        app = make_app(store, Settings(clock=lambda: time.time() + later[0], provider=open_id))
        app.add_middleware(wrap)
        with running(app) as url, httpx.Client(base_url=url) as browser:
            yield House(app, store, url, provider, later, browser)
    store.close()


def says(answer: httpx.Response, status: int, sentence: str) -> None:
    """A page with this sentence, after which nobody is logged in."""
    assert answer.status_code == status, answer.text
    assert sentence in answer.text.replace("&#39;", "'")
    assert "tuner" not in answer.cookies
    assert answer.headers["set-cookie"].startswith(f'{ATTEMPT}=""; HttpOnly; Max-Age=0')


def test_person_logs_in_looks_and_logs_out(house: House) -> None:
    assert (
        'href="/login/oidc?next=%2Fruns">Log in with <bdi>Example</bdi>' in house.browser.get("/login?next=/runs").text
    )
    entered = house.enter("/?after=a b")
    assert entered.status_code == 200, entered.text
    assert '<meta http-equiv="refresh" content="0; url=/?after=a b">' in entered.text
    [session] = [text for text in entered.headers.get_list("set-cookie") if text.startswith("tuner=")]
    assert "HttpOnly" in session
    assert "SameSite=strict" in session
    asked = house.provider.asked[0]
    assert len({asked["state"], asked["nonce"], asked["code_challenge"]}) == 3
    page = house.browser.get("/")
    assert page.status_code == 200
    assert "<bdi>anna</bdi>" in page.text
    with house.store.read() as database:
        [entry] = list_tokens(database)
        assert [one.made_by for one in list_tokens(database, sessions=True)] == ["log-in by Example", "anna"]
    assert (entry.name, entry.scopes, entry.applications) == ("anna", "read tune push", None)
    form = {"csrf": make_csrf(house.browser.cookies["tuner"])}
    left = house.browser.post("/logout", data=form, headers={"Origin": house.url})
    assert (left.status_code, left.headers["location"]) == (303, "/login")
    assert house.browser.get("/").status_code == 303


def unsigned(claims: Claims) -> str:
    return f"{write_token({'alg': 'none', 'kid': 'first'}, claims)}."


def by_public_key(claims: Claims) -> str:
    """HMAC with what everybody may know, the provider's public key."""
    text = write_token({"alg": "HS256", "kid": "first"}, claims)
    return f"{text}.{encode(hmac.new(json.dumps(KEY.jwk).encode(), text.encode(), 'sha256').digest())}"


def changed_after(claims: Claims) -> str:
    """Another person's claims under a signature of anna's."""
    header, _, signature = KEY.sign(claims).split(".")
    return f"{header}.{encode(json.dumps({**claims, 'sub': '1'}).encode())}.{signature}"


NOW = int(time.time())
ATTACKS: dict[str, tuple[Claims, Callable[[Claims], str] | None, str]] = {
    "another key": ({}, FORGED.sign, "bad_signature"),
    "a key of no name": ({}, make_key("unknown").sign, "invalid_key_id"),
    "alg none": ({}, unsigned, "not allowed"),
    "alg HMAC": ({}, by_public_key, "not allowed"),
    "claims changed": ({}, changed_after, "bad_signature"),
    "no token": ({}, lambda claims: "", "cannot be believed"),
    "another audience": ({"aud": "another"}, None, "aud"),
    "another audience, and ours as azp": ({"aud": "another", "azp": CLIENT}, None, "aud"),
    "two audiences, and the other's azp": ({"aud": [CLIENT, "another"], "azp": "another"}, None, "azp"),
    "no audience": ({"aud": None}, None, "aud"),
    "another issuer": ({"iss": "http://127.0.0.1:1/realms/work"}, None, "iss"),
    "expired": ({"iat": NOW - 900, "exp": NOW - 600}, None, "expired"),
    "without an end": ({"exp": None}, None, "exp"),
    "of the future": ({"iat": NOW + 86_400, "exp": NOW + 90_000}, None, "future"),
    "another nonce": ({"nonce": "0" * 64}, None, "nonce"),
    "no nonce": ({"nonce": None}, None, "nonce"),
    "of nobody": ({"sub": None}, None, "sub"),
    "with an empty subject": ({"sub": ""}, None, "sub"),
    "with a subject without end": ({"sub": "x" * 300}, None, "names nobody"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_token_that_does_not_fit_lets_nobody_in(house: House, attack: str) -> None:
    claims, sign, why = ATTACKS[attack]
    house.provider.claims, house.provider.sign = claims, sign
    answer = house.enter()
    says(answer, 403, why)
    assert house.browser.get("/").status_code == 303
    with house.store.read() as database:
        assert list_tokens(database, sessions=True) == []


def test_state_opens_one_session(house: House) -> None:
    house.provider.forgiving = True
    back = house.visit()
    attempt = house.browser.cookies[ATTEMPT]
    assert house.browser.get(back).status_code == 200
    says(house.browser.get(back), 400, "was not begun in this browser")
    house.browser.cookies.set(ATTEMPT, attempt)
    says(house.browser.get(back), 403, "has ended already")


def test_answer_to_another_browser_logs_nobody_in(house: House) -> None:
    """Login CSRF: an attacker has the victim's browser end the log-in that the attacker began."""
    back = house.visit()
    with house.stranger() as victim:
        says(victim.get(back), 400, "was not begun in this browser")
        victim.get("/login/oidc")
        says(victim.get(back), 400, "was not begun in this browser")
        assert victim.get("/").status_code == 303


def test_code_of_another_attempt_is_refused(house: House) -> None:
    """A stolen code, put behind a state of the thief's own: PKCE's verifier is that of another cookie."""
    stolen = httpx.URL(house.visit()).params["code"]
    with house.stranger() as thief:
        asked = httpx.URL(thief.get("/login/oidc").headers["location"]).params
        answer = thief.get("/login/oidc/back", params={"code": stolen, "state": asked["state"]})
    says(answer, 403, "Example did not confirm this log-in (invalid_grant)")


@pytest.mark.parametrize(
    "onward", ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", ""]
)
def test_nobody_is_sent_to_another_site(house: House, onward: str) -> None:
    assert '<meta http-equiv="refresh" content="0; url=/">' in house.enter(onward).text


def test_cookie_changed_on_the_way_fits_no_state(house: House) -> None:
    for place, text in ((2, base64.urlsafe_b64encode(b"//evil.example").decode()), (1, "9999999999"), (0, "x" * 43)):
        back = house.visit()
        parts = house.browser.cookies[ATTEMPT].split(".")
        parts[place] = text
        house.browser.cookies.clear()
        house.browser.cookies.set(ATTEMPT, ".".join(parts))
        says(house.browser.get(back), 400, "was not begun in this browser")
        house.browser.cookies.clear()


def test_attempt_ends_after_ten_minutes(house: House) -> None:
    back = house.visit()
    house.later[0] = 605.0
    says(house.browser.get(back), 400, "within the last ten minutes")


def test_person_of_no_group_is_told_so_and_loses_sessions(house: House) -> None:
    assert house.enter().status_code == 200
    assert house.browser.get("/").status_code == 200
    house.provider.person["groups"] = ["staff"]
    says(house.enter(), 403, "anna is in none of the groups that may use this service; ask who runs it for one")
    house.forget()
    assert house.browser.get("/").status_code == 303


@pytest.mark.parametrize("name", ["the daemon", "The Service", "::1", "root@build7", f"root@{socket.gethostname()}"])
def test_person_is_not_named_like_a_program_or_account(house: House, name: str) -> None:
    """People choose their name at many a provider, and the audit log says by it who did what."""
    house.provider.person["preferred_username"] = name
    assert house.enter().status_code == 200
    with house.store.read() as database:
        (entry,) = list_tokens(database)
        assert [row.who for row in list_events(database)] == [entry.name]
    assert entry.name.startswith(f"{name} #")


def test_first_group_of_the_settings_counts_and_bounds(house: House) -> None:
    with house.store.begin() as database:
        for name in ("shop", "bank"):
            add_application(database, name, SHOP, time.time())
        make_token(database, "ben", SCOPES, "a test", time.time())
    house.provider.person |= {"sub": "7", "preferred_username": "ben", "groups": "shop-team"}
    assert house.enter().status_code == 200
    assert house.browser.get("/applications/shop").status_code == 200
    assert house.browser.get("/applications/bank").status_code == 403
    form = {"csrf": make_csrf(house.browser.cookies["tuner"]), "app": "shop", "why": "x"}
    assert house.browser.post("/act/tune", data=form, headers={"Origin": house.url}).status_code == 403
    with house.store.read() as database:
        token, entry = list_tokens(database)
    assert token.name == "ben"
    assert entry.name.startswith("ben #")  # and not the token of that name
    first = house.browser.cookies["tuner"]
    house.provider.person["groups"] = ["shop-team", "admins"]
    assert house.enter().status_code == 200
    assert house.browser.get("/applications/bank").status_code == 200
    with house.stranger() as other:
        other.cookies.set("tuner", first)
        house.forget()
        assert other.get("/applications/shop").status_code == 303  # of rights that are no more


def test_groups_are_found_within_another_claim(house: House) -> None:
    own = replace(house.provider.settings, groups_claim="realm_access.roles")
    house.app.state.services.settings.provider.settings = own
    house.provider.claims = {"groups": None, "realm_access": {"roles": ["admins"]}}
    assert house.enter().status_code == 200


def test_revoked_person_stays_out_until_readmitted(house: House) -> None:
    store = house.store.address.path
    house.enter()
    assert '"state": "live"' in succeed("token", "list", "--json", "--store", store)
    assert "name another" in refuse("token", "rotate", "anna", "--store", store)
    assert succeed("token", "revoke", "anna", "--store", store) == "anna is revoked.\n"
    house.forget()
    assert house.browser.get("/").status_code == 303
    says(house.enter(), 403, "anna was revoked here")
    assert succeed("token", "readmit", "anna", "--store", store) == "anna may log in again.\n"
    assert house.enter().status_code == 200
    assert house.browser.get("/").status_code == 200
    assert "is no person's" in refuse("token", "readmit", "ben", "--store", store)
    with house.store.read() as database:
        rows = [(row.what, row.message) for row in list_events(database, limit=None)]
    assert rows[::-1] == [
        ("logged in", "anna logged in by Example from 127.0.0.1"),
        ("token revoked", f"{name_user()} revoked the token 'anna': read, tune, push of all applications"),
        ("log-in refused", "anna was revoked here; who runs this service readmits people: tuner token readmit"),
        ("token readmitted", f"{name_user()} readmitted the token 'anna': read, tune, push of all applications"),
        ("logged in", "anna logged in by Example from 127.0.0.1"),
    ]


def test_provider_that_denies_or_fails_is_told_in_a_sentence(house: House) -> None:
    house.provider.denies = True
    says(house.enter(), 400, "Example did not log you in (access_denied)")
    house.later[0] = 3605.0
    for metadata, why in (
        ({"issuer": "http://127.0.0.1:1/"}, "which is not the issuer of the settings"),
        ({"token_endpoint": "http://login.example/token"}, "and must be an https address"),
        ({"jwks_uri": f"{house.provider.issuer}/nowhere"}, "Example does not answer as it should (HTTPError)"),
    ):
        house.provider.metadata = metadata
        told = house.begin()
        assert (told.status_code, why in told.text) == (503, True), told.text
    house.provider.metadata = {}
    assert house.begin().status_code == 303


def test_new_key_of_the_provider_is_found(house: House) -> None:
    assert house.enter().status_code == 200
    house.provider.key = make_key("second")
    says(house.enter(), 403, "cannot be believed")  # asked moments ago
    house.later[0] = RENEW_S + 1.0
    assert house.enter().status_code == 200


def test_address_that_ends_too_many_attempts_waits(house: House) -> None:
    gate = house.app.state.gate
    house.app.state.gate = replace(gate, log_ins=Buckets(0.001, 1.0))
    assert house.enter().status_code == 200
    assert house.enter().status_code == 429


def test_log_in_needs_https_beyond_this_machine(house: House) -> None:
    told = house.browser.get("/login/oidc", headers={"Host": "localhost.example:80"})
    assert told.status_code == 421
    house.app.user_middleware.clear()
    house.app.middleware_stack = None
    told = house.browser.get("/login/oidc", headers={"Host": "tuner.example"})
    assert (told.status_code, "a log-in needs https" in told.text) == (400, True)


def test_service_without_a_provider_says_so(tmp_path: Path) -> None:
    store = open_store(tmp_path / "tuner.db")
    with running(make_app(store)) as url:
        assert "Log in with" not in httpx.get(f"{url}/login").text
        told = httpx.get(f"{url}/login/oidc")
        assert (told.status_code, "log in with a token" in told.json()["detail"]) == (404, True)
    store.close()


SETTINGS = """
issuer = "https://login.example/realms/work"
client_id = "tuner"
secret_file = "secret"
name = "Example"

[[group]]
name = "admins"
scopes = ["read", "push"]
all_applications = true
"""
WRONG: dict[str, tuple[str, str, str]] = {
    "plain http": ("https://login", "http://login", "must be an https address (http is for loopback alone)"),
    "a user within": ("https://login", "https://a:b@login", "must be an https address"),
    "no client": ('client_id = "tuner"', "", "client_id is missing"),
    "unknown key": ('name = "Example"', 'nam = "Example"', "did you mean 'name'?"),
    "a secret within": ('secret_file = "secret"', 'secret = "x"', "secret: there is no such key here"),
    "no secret": ('secret_file = "secret"', "", f"from secret_file or from {SECRET_VARIABLE}, and neither is given"),
    "no such file": ('"secret"', '"nowhere"', "nowhere cannot be read"),
    "no scope read": ('"read", "push"', '"push"', 'scopes must have "read"'),
    "no such scope": ('"read", "push"', '"read", "fly"', "'fly' is no scope"),
    "applications twice": ("all_applications = true", 'all_applications = true\napplications = ["a"]', "needs either"),
    "no applications": ("all_applications = true", "", "group 'admins' needs either"),
    "no application's name": ("all_applications = true", 'applications = ["a/b"]', "group 'admins'"),
    "no such certificates": ('name = "Example"', 'ca_file = "ca.pem"', "there is no such file"),
}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    path = tmp_path / "oidc.toml"
    path.write_text(SETTINGS)
    return path


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings_are_refused_in_a_sentence(written: Path, case: str) -> None:
    right, wrong, why = WRONG[case]
    assert right in SETTINGS
    written.write_text(SETTINGS.replace(right, wrong, 1))
    with pytest.raises(BadInput) as refused:
        read_oidc_settings(written, None)
    assert why in str(refused.value)


def test_secret_is_of_one_place_and_shown_nowhere(written: Path) -> None:
    settings = read_oidc_settings(written, None)
    assert (settings.secret, settings.groups[0].scopes) == (SECRET, "read push")
    assert SECRET not in repr(settings)
    with pytest.raises(BadInput, match="both are given"):
        read_oidc_settings(written, "another")
    (written.parent / "secret").chmod(0o640)
    with pytest.raises(BadInput, match="can be read by others; make it its owner's alone: chmod 600"):
        read_oidc_settings(written, None)
    written.write_text(SETTINGS.replace('secret_file = "secret"', ""))
    assert read_oidc_settings(written, " another\n").secret == "another"


def test_missing_extra_is_one_sentence(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "authlib", None)
    for name in list(sys.modules):
        if name.startswith("authlib.") or name == "tuner.service.access.oidc_provider":
            monkeypatch.delitem(sys.modules, name)
    with socket.create_server(("127.0.0.1", 0)) as taken:  # on which it would serve for ever
        port = taken.getsockname()[1]
        told = refuse("serve", "--oidc", written, "--port", port, "--store", written.with_name("tuner.db"))
    assert told == (
        "this needs the package authlib, which is not installed; install it with: pip install 'stream-scaler[oidc]'"
    )


def test_serve_shows_the_provider_and_its_secret_nowhere(written: Path) -> None:
    from tests.service.serve_process import service

    with service(str(written.with_name("tuner.db")), "--oidc", str(written)) as served:
        page = httpx.get(f"{served.url}/login").text
        served.stop()
    assert "Log in with <bdi>Example</bdi>" in page
    assert SECRET not in page + "".join(served.told)
