"""Who did what is in the audit log, in the transaction of the act: on the page, through the API, by commands."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from tests.commands import succeed
from tests.service.http_server import running
from tests.service.serve_process import add_secret
from tuner.cli.options import name_user
from tuner.service.access.gate import Gate
from tuner.service.access.refusals import MAX_ADDRESSES, RECORDED_S, Refusals, record_token_refusal
from tuner.service.access.token import make_secret
from tuner.service.app import make_app
from tuner.service.daily_copies import copy_if_due
from tuner.service.upkeep import HeadLog, PruningRecord
from tuner.store.audit_log import SERVICE, check_chain, list_events
from tuner.store.connection import Store, open_store
from tuner.store.decisions import save_decisions
from tuner.store.records import DecisionRecord, EventRecord
from tuner.store.retention import DAY_S

PAGE = {"Sec-Fetch-Site": "same-origin"}


def list_rows(store: Store) -> list[EventRecord]:
    """The oldest first; their chain holds."""
    with store.read() as session:
        assert check_chain(session).fault is None
        return list_events(session, limit=None)[::-1]


def test_log_ins_log_outs_and_refused_tokens_are_rows(url: str, store: Store) -> None:
    secret = add_secret(store, "anna", ("read",))
    with httpx.Client(base_url=url) as browser:
        assert browser.post("/login", data={"token": make_secret()}, headers=PAGE).status_code == 401
        assert browser.post("/login", data={"token": secret}, headers=PAGE).status_code == 303
        csrf = browser.get("/").text.partition('name="csrf" value="')[2].partition('"')[0]
        assert browser.post("/logout", data={"csrf": csrf}, headers=PAGE).status_code == 303
    rows = list_rows(store)
    assert [(row.who, row.what, row.application) for row in rows] == [
        ("a test", "token made", ""), ("127.0.0.1", "token refused", ""), ("anna", "logged in", ""),
        ("anna", "logged out", ""),
    ]  # fmt: skip
    assert rows[0].detail == {"token": "anna", "scopes": ["read"], "applications": None, "expires": None}
    assert rows[1].message == "127.0.0.1 brought a wrong token"
    assert rows[2].message == "anna logged in with a token from 127.0.0.1"
    assert rows[2].detail == {"address": "127.0.0.1", "scopes": ["read"], "applications": None}
    assert secret not in f"{rows}"


def test_a_revoked_token_that_is_still_used_is_named_once_an_hour(store: Store) -> None:
    secret = add_secret(store, "anna", ("read",))
    now = [time.time()]
    app = make_app(store)
    gate: Gate = app.state.gate
    object.__setattr__(gate, "clock", lambda: now[0])
    succeed("token", "revoke", "anna", "--store", store.address.url.render_as_string(hide_password=False))
    with running(app) as url:
        for seconds in (0.0, 1.0, 2.0, RECORDED_S):
            now[0] += seconds
            headers = {"Authorization": f"Bearer {secret}"}
            assert httpx.get(f"{url}/v1/applications", headers=headers).status_code == 401
    refused = [row for row in list_rows(store) if row.what == "token refused"]
    assert [row.detail for row in refused] == [{"refused": 1, "token": "anna"}, {"refused": 3, "token": "anna"}]
    assert refused[1].message == (
        "127.0.0.1 brought the token 'anna', which is revoked or expired; 2 more refused since its last row"
    )


def test_a_flood_of_wrong_tokens_is_a_bounded_number_of_rows() -> None:
    refusals = Refusals()
    counts = [refusals.count(f"10.0.{i // 250}.{i % 250}", 0.0) for i in range(10 * MAX_ADDRESSES)]
    assert sum(counts) == MAX_ADDRESSES == len(refusals.counts)
    assert refusals.count("10.1.0.0", RECORDED_S) == 1


def test_a_database_that_takes_no_row_refuses_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with closing(open_store(tmp_path / "tuner.db")) as store:
        (tmp_path / "tuner.db").rename(tmp_path / "away.db")
        record_token_refusal(store, "127.0.0.1", make_secret(), 1, 0.0)
    assert "1 refusals of 127.0.0.1 could not be recorded" in caplog.text


def test_commands_are_rows_of_the_account(store: Store, tmp_path: Path) -> None:
    place = ("--store", store.address.url.render_as_string(hide_password=False))
    with store.begin() as session:
        save_decisions(session, [DecisionRecord("shop", "parse", 60.0, "HELD", "r")])
    succeed("token", "make", "agents", "--scope", "report", "--app", "shop", *place)
    succeed("token", "rotate", "agents", *place)
    succeed("token", "revoke", "agents", *place)
    succeed("token", "revoke", "agents", *place)  # was revoked already
    succeed("db", "backup", tmp_path / "copy.db", *place)
    succeed("db", "export", tmp_path / "all.jsonl", *place)
    succeed("db", "prune", "--older-than", "1d", "--dry-run", *place)
    succeed("db", "prune", "--older-than", "1d", *place)
    succeed("db", "restore", tmp_path / "copy.db", "--yes", *place)
    rows = list_rows(store)
    assert {row.who for row in rows} == {name_user()}
    assert [row.what for row in rows] == [
        "token made", "token rotated", "token revoked", "token revoked", "backed up", "exported", "pruned", "restored",
    ]  # fmt: skip
    assert rows[0].detail["applications"] == ["shop"]
    assert (rows[6].detail["decisions"], rows[4].detail) == (1, {"file": str(tmp_path / "copy.db")})


def test_what_the_service_does_by_itself_is_rows(store: Store, tmp_path: Path) -> None:
    (tmp_path / "copies").mkdir()
    assert copy_if_due(store, tmp_path / "copies", 3, 20_000 * DAY_S) is not None
    record = PruningRecord(store)
    for hour in range(26):  # each of which deletes some slots
        record.add({"decisions": 10, "corrections": 0, "samples": 1}, hour * 3600.0)
    record.add({"decisions": 0, "corrections": 0, "samples": 0}, 60 * 3600.0)
    rows = list_rows(store)
    assert {row.who for row in rows} == {SERVICE}
    assert [(row.what, row.detail.get("decisions")) for row in rows] == [
        ("backed up", None), ("pruned", 10), ("pruned", 240), ("pruned", 10),
    ]  # fmt: skip


def test_service_logs_each_new_head(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """What is cut off afterwards shows against it."""
    caplog.set_level("INFO")
    heads = HeadLog(store)
    heads.tell()
    for name in ("anna", "ben"):
        add_secret(store, name)
        heads.tell()
        heads.tell()
    logged = [record.fields["hash"] for record in caplog.records if getattr(record, "what", "") == "audit head"]
    with store.read() as session:
        assert logged == [row.hash for row in list_events(session)][::-1]
    with store.begin() as session:
        session.execute(text("DELETE FROM events WHERE number = 2"))
        assert check_chain(session).fault is None
        assert check_chain(session, logged[1]).fault is not None
