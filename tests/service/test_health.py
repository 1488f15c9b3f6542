"""What a service whose parts work or fail answers to health checks, without a token."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from tests.service.http_server import running
from tests.service.serve_process import add_secret
from tuner.service.app import DETAILS, FRESH_S, STARTING, Health, find_store_fault, make_app
from tuner.store.backup import back_up
from tuner.store.connection import Store, open_store
from tuner.store.restore import restore
from tuner.store.schema_version import VERSION_TABLE


@dataclass
class Heard:
    app: Any
    url: str
    store: Store

    def ask(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path)


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Heard]:
    monkeypatch.setattr("tuner.service.app.FRESH_S", -1.0)  # every request as a second later
    store = open_store(tmp_path / "tuner.db")
    app = make_app(store)
    with running(app) as url:
        yield Heard(app, url, store)
    store.close()


def test_a_service_that_works_is_alive_and_ready(heard: Heard) -> None:
    for path, status in (("/healthz", "alive"), ("/readyz", "ready")):
        answer = heard.ask(path)
        assert (answer.status_code, answer.json()) == (200, {"status": status})


def test_a_daemon_that_has_ended_makes_it_unready_and_alive(heard: Heard) -> None:
    over = threading.Event()
    heard.app.state.services.daemon = threading.Thread(target=over.wait)
    heard.app.state.services.daemon.start()
    assert heard.ask("/readyz").status_code == 200
    over.set()
    heard.app.state.services.daemon.join()
    answer = heard.ask("/readyz")
    assert (answer.status_code, answer.json()["reason"]) == (503, "daemon")
    assert answer.headers["content-type"] == "application/problem+json"
    assert heard.ask("/healthz").status_code == 200


def test_a_writer_that_has_ended_makes_it_unready(heard: Heard) -> None:
    intake = heard.app.state.services.intake
    with intake.arrival:
        intake.closed = True
        intake.arrival.notify()
    intake.writer.join()
    assert heard.ask("/readyz").json()["reason"] == "intake"


def test_a_database_that_is_gone_is_told_in_one_word(heard: Heard) -> None:
    heard.store.engine.dispose()
    assert heard.store.address.path is not None
    for part in heard.store.address.path.parent.iterdir():
        part.unlink()
    heard.store.address.path.mkdir()
    answer = heard.ask("/readyz")
    assert (answer.status_code, answer.json()["reason"]) == (503, "database")
    assert answer.json()["detail"] == DETAILS["database"]
    assert str(heard.store.address.path) not in answer.text
    heard.store.address.path.rmdir()


def test_an_older_or_foreign_schema_is_told_apart_from_no_answer(store: Store) -> None:
    assert find_store_fault(store, 1.0) == ""
    with store.begin() as session:
        session.connection().exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '0001'")
    assert find_store_fault(store, 1.0) == "schema"
    with store.begin() as session:
        session.connection().exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = 'x'")
    assert find_store_fault(store, 1.0) == "schema"


def test_many_who_ask_cost_one_look_a_second() -> None:
    looks, ticks = [0], [0.0]

    def look() -> str:
        looks[0] += 1
        assert health.check() == STARTING  # who comes meanwhile is told what was known, and does not wait
        return ""

    health = Health(look, lambda: ticks[0])
    assert [health.check() for _ in range(5)] == [""] * 5
    assert looks == [1]


def test_what_was_found_is_believed_for_a_second() -> None:
    found, ticks = ["", "database"], [0.0]
    health = Health(lambda: found.pop(0), lambda: ticks[0])
    assert (health.check(), health.check()) == ("", "")
    ticks[0] = FRESH_S
    assert health.check() == "database"


def test_a_database_that_takes_no_writes_is_not_ready(heard: Heard) -> None:
    """As on a full disk, where all that is read is well."""
    refused = [True]

    @event.listens_for(heard.store.engine, "begin")
    def refuse_writes(connection: Any) -> None:
        connection.exec_driver_sql(f"PRAGMA query_only = {'ON' if refused[0] else 'OFF'}")

    answer = heard.ask("/readyz")
    assert (answer.status_code, answer.json()["reason"]) == (503, "database")
    refused[0] = False
    assert heard.ask("/readyz").status_code == 200


def test_a_file_that_was_swapped_is_not_ready_and_reports_are_kept(heard: Heard, tmp_path: Path) -> None:
    """As attacked: every report was 422 while the service said that it was ready."""
    headers = {"Authorization": f"Bearer {add_secret(heard.store)}"}
    back_up(heard.store, tmp_path / "copy.db", 1.0)
    shutil.copy(tmp_path / "copy.db", tmp_path / "swapped.db")
    assert heard.store.address.path is not None
    (tmp_path / "swapped.db").replace(heard.store.address.path)
    decision = {"time": 60.0, "kind": "HELD", "reason": "r"}
    body = {"instance": "driver-1", "operator": "parse", "decisions": [decision]}
    reports = f"{heard.url}/v1/applications/shop/reports"
    assert heard.ask("/readyz").json()["reason"] == "database"
    assert httpx.post(reports, json=body, headers=headers).status_code == 503
    restore(tmp_path / "copy.db", heard.store.address, "ann", 2.0)
    assert httpx.post(reports, json=body, headers=headers).status_code == 200
    assert heard.ask("/readyz").status_code == 200


def test_refused_reports_make_it_unready_for_a_while(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    heard.app.state.services.intake.refused_at = time.monotonic()
    assert heard.ask("/readyz").json()["reason"] == "reports"
    monkeypatch.setattr("tuner.service.exchange.intake.REFUSED_S", 0.0)
    assert heard.ask("/readyz").status_code == 200
