"""Attacks on what one token may leave in the database, and on the room for bodies, against the service over HTTP."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from tests.commands import refuse
from tests.service.conftest import SHOP, sentence
from tests.service.http_server import running
from tests.service.serve_process import add_secret
from tests.service.test_limits import PATIENCE, begin, read_answer, serving, until
from tuner.service.access.bodies_in_flight import BodiesInFlight, LogInBodies
from tuner.service.access.envelope import wrap
from tuner.service.access.gate import RateLimits
from tuner.service.access.page_session import find_account
from tuner.service.access.token import make_token
from tuner.service.app import make_app, release_agents
from tuner.service.exchange.services import Settings
from tuner.store.applications import add_application
from tuner.store.audit_log import list_events
from tuner.store.connection import Store, open_store
from tuner.store.orders import list_scalers
from tuner.store.records import Trial, TuningRun
from tuner.store.runs import start_run
from tuner.store.trials import add_trial

APP = "/v1/applications/shop"
PAGE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(tmp_path / "tuner.db")) as store:
        yield store


@contextmanager
def limited(store: Store, limits: RateLimits, secret: str) -> Iterator[httpx.Client]:
    app = make_app(store, Settings(limits=limits))
    headers = {"Authorization": f"Bearer {secret}"}
    with (
        running(app, on_stop=lambda: release_agents(app)) as url,
        httpx.Client(base_url=url, headers=headers, timeout=PATIENCE) as client,
    ):
        yield client


@pytest.mark.parametrize("token", ["", "ts_" + "k" * 43])
def test_small_bodies_of_strangers_take_no_room(kept: Store, token: str) -> None:
    """As computed: 2,000 of 16 KiB that keep a byte back filled the room, and all reports were 503."""
    bodies = BodiesInFlight(total=100_000)
    right = add_secret(kept)
    with serving(kept, bodies) as place, ExitStack() as stack:
        for _ in range(10):
            sock = stack.enter_context(begin(place, 16_384, 16_383, token))
            assert read_answer(sock)[0] == 401
            assert bodies.held == 0
        with begin(place, 10_000, 10_000, right) as mine:
            assert read_answer(mine)[0] == 415  # read whole, and judged


def test_a_refused_stranger_may_go_on_and_ask_again(kept: Store) -> None:
    """What is left of the body is dropped as it comes, so that a client with a wrong token reads why."""
    with serving(kept, BodiesInFlight()) as place, begin(place, 200_000, 0) as sock:
        assert read_answer(sock)[0] == 401
        sock.sendall(b"x" * 200_000 + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_answer(sock)[0] == 200


def test_one_token_leaves_room_for_others(kept: Store) -> None:
    bodies = BodiesInFlight(total=100_000, reserve=0.0)
    slow, other = add_secret(kept, "slow"), add_secret(kept, "other")
    with serving(kept, bodies) as place, ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(begin(place, 12_001, 12_000, slow))
        until(lambda: bodies.held == 48_000)
        assert read_answer(stack.enter_context(begin(place, 12_000, 12_000, slow)))[0] == 503
        assert read_answer(stack.enter_context(begin(place, 12_000, 12_000, other)))[0] == 415
    until(lambda: bodies.held == 0 == len(bodies.held_by))


def test_light_bodies_of_a_crowd_are_all_judged(kept: Store) -> None:
    """As seen: five thousand agents acknowledge a push at once, and some were sent away."""
    bodies = BodiesInFlight(judged_at_once=0)
    token = add_secret(kept)
    with serving(kept, bodies) as place:
        with begin(place, 4_096, 4_096, token) as light:
            assert read_answer(light)[0] == 415  # read whole, and judged
        with begin(place, 4_097, 4_097, token) as heavy:
            assert read_answer(heavy)[0] == 503
    assert bodies.judged == 0


def begin_log_in(place: tuple[str, int], form: bytes, length: int) -> socket.socket:
    sock = socket.create_connection(place, PATIENCE)
    kind = "Content-Type: application/x-www-form-urlencoded\r\nSec-Fetch-Site: same-origin"
    head = f"POST /login HTTP/1.1\r\nHost: localhost\r\n{kind}\r\nContent-Length: {length}\r\n\r\n"
    sock.sendall(head.encode() + form)
    return sock


def test_slow_log_in_forms_keep_nobody_out(kept: Store) -> None:
    """They alone are read without a token: small, few, and the oldest gives way."""
    bodies = BodiesInFlight(log_ins=LogInBodies(arriving_at_once=3, seconds=PATIENCE))
    form = f"token={add_secret(kept)}".encode()
    with serving(kept, bodies) as place, ExitStack() as stack:
        slow = [stack.enter_context(begin_log_in(place, b"token=", 4_000)) for _ in range(3)]
        until(lambda: len(bodies.log_ins.arriving) == 3)
        with begin_log_in(place, form, len(form)) as right:
            assert right.recv(12) == b"HTTP/1.1 303"
        assert read_answer(slow[0])[0] == 408
        with begin_log_in(place, b"", 17_000) as large:
            large.sendall(b"x" * 17_000)
            assert read_answer(large)[0] in (408, 413)
    until(lambda: bodies.log_ins.held == 0)


def test_forms_of_a_session_are_read(kept: Store) -> None:
    app: FastAPI = make_app(kept)
    bodies = BodiesInFlight(known=partial(find_account, app))
    with running(wrap(app, bodies), on_stop=lambda: release_agents(app)) as url, httpx.Client(base_url=url) as page:
        assert page.post("/login", data={"token": add_secret(kept)}, headers=PAGE).status_code == 303
        csrf = page.get("/").text.partition('name="csrf" value="')[2].partition('"')[0]
        strange = {**PAGE, "Authorization": "Bearer of.a.proxy"}  # which some put before every request
        assert page.post("/logout", data={"csrf": csrf}, headers=strange).status_code == 303
        assert page.post("/logout", data={"csrf": csrf}, headers=PAGE).status_code == 401


def test_acts_of_one_token_fill_no_audit_log(kept: Store) -> None:
    """As attacked: pause and resume by turns, a row each, 500 a second."""
    secret = add_secret(kept, "ann")
    with limited(kept, RateLimits(acts=0.01, acts_at_once=10.0), secret) as client:
        assert client.put(APP, json={"document": SHOP}).status_code == 200
        answers = [client.post(f"{APP}/tunings/{word}") for word in ("pause", "resume") * 10]
        assert {answer.status_code for answer in answers[:9]} == {202}
        assert "changes things more often" in sentence(answers[9], 429)
        assert int(answers[9].headers["retry-after"]) > 1
        assert client.post("/login", data={"token": secret}, headers=PAGE).status_code == 303
        csrf = client.get("/").text.partition('name="csrf" value="')[2].partition('"')[0]
        form = {"csrf": csrf, "app": "shop", "why": "w"}
        assert (
            client.post("/act/pause", data=form, headers=PAGE).status_code == 429
        )  # a session has no quota of its own
        assert client.get(f"{APP}/events").status_code == 200
    with kept.read() as session:
        assert len(list_events(session, "shop", limit=None)) == 10


def test_log_ins_of_one_token_fill_no_table(kept: Store) -> None:
    """As attacked: 300 sessions in a second, two rows each."""
    secret = add_secret(kept, "ann")
    with limited(kept, RateLimits(sessions=0.01, sessions_at_once=5.0), secret) as client:
        entered = [client.post("/login", data={"token": secret}, headers=PAGE) for _ in range(8)]
        assert [answer.status_code for answer in entered] == [303] * 5 + [429] * 3
        other = {"token": add_secret(kept, "ben")}
        assert client.post("/login", data=other, headers=PAGE).status_code == 303
    with kept.read() as session:
        assert len(list_events(session, what=["logged in"], limit=None)) == 6


def test_invented_agents_fill_no_table(kept: Store) -> None:
    """As attacked: each report, and each question for orders, named an instance that nobody had seen."""
    secret = add_secret(kept, "ann", ("report", "read"))
    limits = RateLimits(agents=0.001, agents_at_once=20.0)
    with limited(kept, limits, secret) as client:

        def send(instance: str, app: str = "shop") -> httpx.Response:
            return client.post(f"/v1/applications/{app}/reports", json={"instance": instance, "operator": "parse"})

        answers = [send(f"forged {i}") for i in range(30)]
        assert [answer.status_code for answer in answers] == [200] * 20 + [429] * 10
        assert "more new agents than it may" in sentence(answers[-1], 429)
        assert send("forged 3").status_code == 200  # is known by now
        assert send("driver", "till").status_code == 200  # another application
        for i in range(10):
            asked = client.get(f"{APP}/orders", headers={"Scaler": f"parse/waiting {i}"})
            assert asked.status_code == 404
        assert send("forged 4").status_code == 200  # the queue is written in order
    with kept.read() as session:
        assert len(list_scalers(session, "shop")) == 20
    with limited(kept, limits, secret) as client:  # as the manager is started again
        bodies = [{"instance": f"forged {i}", "operator": "parse"} for i in range(20)]
        assert {client.post(f"{APP}/reports", json=body).status_code for body in bodies} == {200}


def test_lists_are_bounded_in_bytes(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand rows of the largest detail or decision are no page that is made in memory."""
    monkeypatch.setattr("tuner.service.api.dependencies.MAX_PAGE", 10_000)
    now = time.time() - 1e4
    with limited(kept, RateLimits(), add_secret(kept)) as client:
        detail = {"x": "y" * 3_000}
        for i in range(9):
            for reason in ("a", "b"):
                slot = {"time": now + 60.0 * i, "kind": "HELD", "reason": reason * 1_900, "seen": {"x": "z" * 2_000}}
                body = {"instance": f"i{i}", "operator": "parse", "decisions": [slot], "detail": detail}
                assert client.post(f"{APP}/reports", json=body).status_code == 200
        for name in ("scalers", "corrections", "decisions"):
            place, found, pages = f"{APP}/{name}?limit=1000", list[str](), 0
            while place:
                answer = client.get(place)
                assert len(answer.content) < 15_000
                found += [str(one) for one in answer.json()["items"]]
                place, pages = answer.json()["next"], pages + 1
            assert len(found) == len(set(found)) == 9
            assert pages >= 3
        body = {"instance": "i", "operator": "parse", "detail": {"x": "y" * 5_000}}
        assert "detail has 5,0" in sentence(client.post(f"{APP}/reports", json=body), 422)


def test_runs_of_other_applications_are_not_there(kept: Store) -> None:
    """An address by an id of the database told a token of another application what this one is called."""
    with kept.begin() as session:
        version = add_application(session, "secret project", SHOP, 1.0)
        run = start_run(session, TuningRun(version.id or 0, "gp", 7, 60, 5.0, {}), "somebody", 5.0)
        add_trial(session, run, Trial(run.id or 0, 0, {"x": [0.5]}, "failed", 7, 6.0, 7.0, failure="f"), 7.0)
        _, secret = make_token(session, "stranger", ["read"], "a test", time.time(), applications=["shop"])
    with limited(kept, RateLimits(), secret) as client:
        assert client.post("/login", data={"token": secret}, headers=PAGE).status_code == 303
        own = (f"{APP}/{place}" for place in ("runs/{}", "runs/{}/trials", "trials/{}"))
        for place in (*own, "/runs/{}?app=shop", "/trials/{}?app=shop"):
            there, missing = (client.get(place.format(number)) for number in (1, 9))
            assert (there.status_code, missing.status_code) == (404, 404), place
            assert there.text.replace("1", "9") == missing.text.replace("1", "9"), place
            assert "secret project" not in there.text
        for place in ("/runs/1", "/trials/1"):
            assert client.get(f"{place}?app=secret+project").status_code == 403
    with limited(kept, RateLimits(), add_secret(kept)) as client:
        theirs = [f"/v1/applications/secret%20project/{place}" for place in ("runs/1", "runs/1/trials", "trials/1")]
        assert [client.get(place).status_code for place in theirs] == [200, 200, 200]


@pytest.mark.parametrize(
    "name", ["the daemon", "The  Service", "THE_DAEMON", "\uff54he daemon", "127.0.0.1", "fe80::/64"]
)
def test_no_token_is_named_like_a_program(kept: Store, name: str) -> None:
    """The audit log names by these words who acts where nobody asked, and by their address who was refused."""
    assert "is how the audit log names" in refuse(
        "token", "make", name, "--scope", "read", "--all-apps", "--store", kept.address.path
    )
