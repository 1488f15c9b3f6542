"""Managers are replaced one by one under load: those of the release before go on with a database one schema ahead."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.service.conftest import SHOP
from tests.service.managers_load import APP, Record, check_all, wait_for_news, working
from tests.service.older_release import PATIENCE, Release, build_release
from tests.service.round_robin import balancing
from tests.service.serve_process import ServeProcess, hear
from tests.store.conftest import POSTGRES, make_database
from tuner.store.audit_log import check_chain
from tuner.store.connection import open_store
from tuner.store.schema_version import HEAD

SERVE = "from tuner.cli.serve_commands import serve; serve()"
TUNER = "from tuner.cli import main; main()"
TOKEN = ("token", "make", "all", "--all-apps", *(f"--scope={name}" for name in ("report", "read", "tune", "push")))


def run_tuner(release: Release | None, *arguments: str) -> str:
    """What a command of the older release, or of this one, writes to stdout."""
    command = [sys.executable, "-c", TUNER, *arguments] if release is None else release.command(TUNER, *arguments)
    return subprocess.run(command, capture_output=True, check=True, text=True, timeout=PATIENCE).stdout.strip()


def start_manager(release: Release | None, address: str, port: int = 0) -> ServeProcess:
    arguments = ("--store", address, "--port", str(port))
    return hear([sys.executable, "-c", SERVE, *arguments] if release is None else release.command(SERVE, *arguments))


def stop(manager: ServeProcess) -> None:
    assert manager.stop() == 0
    manager.kill()  # closes what it told


def is_ready(manager: ServeProcess) -> bool:
    return httpx.get(f"{manager.url}/readyz", timeout=PATIENCE).status_code == 200


@POSTGRES
@pytest.mark.long
@pytest.mark.slow
def test_managers_are_replaced_one_by_one(postgres: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older = build_release(tmp_path)
    address, record = make_database(postgres), Record()
    assert f"has schema {older.schema} now" in run_tuner(older, "db", "upgrade", "--store", address)
    secret = run_tuner(older, *TOKEN, "--store", address)
    managers = [start_manager(older, address) for _ in range(2)]
    try:
        headers = {"Authorization": f"Bearer {secret}"}
        with httpx.Client(base_url=managers[0].url, headers=headers, timeout=PATIENCE) as client:
            client.put(APP, json={"document": SHOP}).raise_for_status()
            client.post(f"{APP}/tunings/pause").raise_for_status()
        with (
            balancing([one.port for one in managers]) as proxy,
            working(f"http://127.0.0.1:{proxy.port}", secret, tmp_path, record) as links,
        ):
            said = run_tuner(None, "db", "upgrade", "--store", address)
            if older.schema != HEAD:
                assert said.endswith(f"went from schema {older.schema} to {HEAD}.")
            behind = len(record.pushed)
            time.sleep(2.0)  # longer than readiness is believed
            wait_for_news(links, record)
            assert all(is_ready(one) for one in managers)
            stop(managers[0])
            managers[0] = start_manager(older, address, managers[0].port)  # as a supervisor does meanwhile
            assert is_ready(managers[0])
            wait_for_news(links, record)
            behind = len(record.pushed) - behind
            for i in range(len(managers)):
                stop(managers[i])
                managers[i] = start_manager(None, address, managers[i].port)
                wait_for_news(links, record)
                assert all(is_ready(one) for one in managers)
    finally:
        for one in managers:
            one.kill()
    with closing(open_store(address)) as store:
        check_all(store, links, record)
        with store.read() as session:
            chained = check_chain(session)
        assert (chained.fault, chained.unsealed) == (None, 0)  # rows of the older managers, too
        assert chained.rows > len(record.pushed)
    with capsys.disabled():
        print(
            f"\nFrom {older.commit} (schema {older.schema}) to schema {HEAD}: {behind} pushes by managers of the older "
            f"release after the upgrade; of {len(record.versions)} versions and {len(record.orders)} revisions none "
            f"twice, all {len(record.reports) + sum(record.given.values()):,} acknowledged reports are there; "
            f"{record.busy} requests were asked to come again"
        )
