"""Faults of the database are answered 503 without its address, and agents keep what was not judged."""

from __future__ import annotations

import errno
import itertools
import resource
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from scaler.link import Link, LinkSettings
from tests.link.conftest import Hurry
from tests.link.manager import until
from tests.service.conftest import sentence
from tests.service.http_server import running
from tests.service.serve_process import add_secret
from tests.store.conftest import POSTGRES, make_database, run_sql
from tuner.service.access.bodies_in_flight import BodiesInFlight
from tuner.service.access.envelope import wrap
from tuner.service.access.gate import RateLimits
from tuner.service.access.page_session import find_account
from tuner.service.app import make_app, release_agents
from tuner.service.exchange.services import Settings
from tuner.service.metrics.exposition import Meter
from tuner.store.connection import Store, open_store
from tuner.store.decisions import list_decisions

REPORTS = "/v1/applications/shop/reports"
ROLE = "svc_trust"


def make_body(time: float) -> dict[str, object]:
    decision = {"time": time, "kind": "HELD", "reason": "r"}
    return {"instance": "driver-1", "operator": "parse", "decisions": [decision]}


@contextmanager
def serving(store: Store) -> Iterator[str]:
    app = make_app(store, Settings(limits=RateLimits(rate=1e6)))
    with running(app, on_stop=lambda: release_agents(app)) as url:
        yield url


@pytest.fixture
def role_store(postgres: str) -> Iterator[Store]:
    """A database that the service opens as a user of its own, as people set it up."""
    url = make_database(postgres)
    run_sql(postgres, f"CREATE ROLE {ROLE} LOGIN")
    run_sql(postgres, f"GRANT ALL ON SCHEMA {url.rpartition('%3D')[2]} TO {ROLE}")
    opened = open_store(url.replace("//postgres:@", f"//{ROLE}:@"))
    yield opened
    opened.close()
    run_sql(postgres, f"DROP OWNED BY {ROLE}")
    run_sql(postgres, f"DROP ROLE {ROLE}")


FAULTS = {  # how the server refuses the role, and how that ends
    "login refused": (f"ALTER ROLE {ROLE} NOLOGIN", f"ALTER ROLE {ROLE} LOGIN"),
    "read only": (f"ALTER ROLE {ROLE} SET default_transaction_read_only = on", f"ALTER ROLE {ROLE} RESET ALL"),
    "no rights": (
        f"REVOKE ALL ON ALL TABLES IN SCHEMA {{schema}} FROM {ROLE}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA {{schema}} TO {ROLE}",
    ),
}


@POSTGRES
@pytest.mark.parametrize("fault", FAULTS)
def test_agents_lose_nothing_while_postgresql_refuses(
    postgres: str, role_store: Store, tmp_path: Path, fault: str
) -> None:
    schema = str(role_store.address.url.query["options"]).rpartition("=")[2]
    begin, end = (statement.format(schema=schema) for statement in FAULTS[fault])
    drop = f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '{ROLE}'"
    token, pace = add_secret(role_store, "driver", ("report",)), Hurry()
    with serving(role_store) as url, httpx.Client(base_url=url, timeout=60.0) as client:
        settings = LinkSettings(wait_s=1.0, pacer=pace)
        link = Link(url, "shop", ["parse"], token, tmp_path / "link", "driver-1", settings)
        link.start()
        try:
            run_sql(postgres, begin)
            run_sql(postgres, drop)
            for slot in range(20):
                link.report("parse", [{"time": 60.0 * slot, "kind": "HELD", "reason": "r"}])
            answers = [
                client.post(REPORTS, json=make_body(0.0), headers={"Authorization": f"Bearer {token}"})
                for _ in range(3)
            ]
            until(lambda: pace.passed > 600.0)
            run_sql(postgres, end)
            run_sql(postgres, drop)
            until(lambda: link.status().waiting == 0)
        finally:
            link.stop()
        assert link.status().refused == link.status().dropped == 0
        for answer in answers:
            said = sentence(answer, 503)
            assert answer.headers["retry-after"]
            assert not any(word in said for word in (ROLE, "postgres", "tuner", "/"))
    with role_store.read() as session:
        assert len(list_decisions(session, "shop")) == 20


def test_a_missing_table_is_no_fault_of_reports(tmp_path: Path) -> None:
    path = tmp_path / "tuner.db"
    with closing(open_store(path)) as store, serving(store) as url:
        headers = {"Authorization": f"Bearer {add_secret(store)}"}
        with httpx.Client(base_url=url, headers=headers, timeout=60.0) as client:
            with closing(sqlite3.connect(path)) as raw:
                raw.execute("ALTER TABLE decisions RENAME TO elsewhere")
            for answer in (client.post(REPORTS, json=make_body(1.0)), client.get("/v1/applications/shop/decisions")):
                assert str(tmp_path) not in sentence(answer, 503)
            with closing(sqlite3.connect(path)) as raw:
                raw.execute("ALTER TABLE elsewhere RENAME TO decisions")
            assert client.post(REPORTS, json=make_body(1.0)).status_code == 200


def test_a_page_without_its_database_names_no_file(tmp_path: Path) -> None:
    path = tmp_path / "tuner.db"
    with closing(open_store(path)) as store, serving(store) as url, httpx.Client(base_url=url) as client:
        form = {"token": add_secret(store)}
        assert client.post("/login", data=form, headers={"Origin": url}).status_code == 303
        with closing(sqlite3.connect(path)) as raw:
            raw.execute("ALTER TABLE applications RENAME TO elsewhere")
        answer = client.get("/")
        assert answer.status_code == 503
        assert str(tmp_path) not in answer.text
        assert answer.headers["retry-after"]


def test_a_large_body_meets_the_same_fault(tmp_path: Path) -> None:
    """As attacked: its token is asked for before it is read, and a fault of the database there was 500."""
    path = tmp_path / "tuner.db"
    with closing(open_store(path)) as store:
        app, body = (
            make_app(store),
            {
                **make_body(1.0),
                "decisions": [{"time": float(i), "kind": "HELD", "reason": "r" * 1_900} for i in range(30)],
            },
        )
        headers = {"Authorization": f"Bearer {add_secret(store)}"}
        bodies = BodiesInFlight(known=partial(find_account, app))
        with running(wrap(app, bodies)) as url, httpx.Client(base_url=url, headers=headers) as client:
            with closing(sqlite3.connect(path)) as raw:
                raw.execute("ALTER TABLE tokens RENAME TO elsewhere")
            answer = client.post(REPORTS, json=body)
            assert str(tmp_path) not in sentence(answer, 503)
            assert answer.headers["retry-after"]
            with closing(sqlite3.connect(path)) as raw:
                raw.execute("ALTER TABLE elsewhere RENAME TO tokens")
            assert client.post(REPORTS, json=body).status_code == 200
        assert bodies.held == 0


@pytest.mark.parametrize("fault", [OSError(errno.EMFILE, "Too many open files"), MemoryError()])
def test_what_the_machine_lacks_is_a_passing_fault(tmp_path: Path, fault: Exception) -> None:
    """As attacked: /metrics and pages answered 500 while the process could open no more files."""
    with closing(open_store(tmp_path / "tuner.db")) as store:
        app = make_app(store)

        @app.get("/short")
        def fail() -> None:
            raise fault

        @app.get("/broken")
        def break_down() -> None:
            raise FileNotFoundError(errno.ENOENT, "No such file", str(tmp_path))

        with running(wrap(app)) as url, httpx.Client(base_url=url) as client:
            answer = client.get("/short")
            assert "lacks memory, open files or disk" in sentence(answer, 503)
            assert answer.headers["retry-after"]
            assert str(tmp_path) not in sentence(client.get("/broken"), 500)  # which is ours


def test_metrics_need_no_file_but_the_database(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "tuner.db")) as store:
        ticks = itertools.count(step=10)
        meter = Meter(store, time.time, lambda: (0, 1), lambda: float(next(ticks)))
        before = meter.expose()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            after = meter.expose()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert b"tuner_build_info{" in before
    assert b"tuner_build_info{" in after
