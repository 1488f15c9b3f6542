"""Three real managers on one PostgreSQL behind one address, one of which is killed, again and again, under load."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scaler.link import Link
from tests.service.conftest import SHOP
from tests.service.managers_load import Record, check_acknowledged, check_all, wait_for_news, working
from tests.service.round_robin import balancing
from tests.service.serve_process import SERVE, ServeProcess, add_secret, hear
from tests.store.conftest import POSTGRES
from tuner.rollout.steering import TuningRequest, register_application, request_action
from tuner.store.connection import Store

MANAGERS = 3
DAEMON = [part for part in SERVE if part != "--no-daemon"]  # each retunes, too


@POSTGRES
@pytest.mark.slow
def test_a_manager_of_three_may_be_killed(server_store: Store, tmp_path: Path) -> None:
    kill_managers(server_store, tmp_path, 2)


@POSTGRES
@pytest.mark.long
@pytest.mark.slow
def test_a_manager_of_three_may_be_killed_twenty_times(
    server_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = kill_managers(server_store, tmp_path, 20)
    with capsys.disabled():
        print(f"\n{said}")


def kill_managers(store: Store, folder: Path, kills: int) -> str:
    """What was seen, in a sentence."""
    address = store.engine.url.render_as_string(hide_password=False)
    with store.begin() as session:
        register_application(session, "shop", SHOP, "a test", time.time())
        request_action(session, "shop", "pause", TuningRequest("a test", time.time()))  # no search: two processors
    secret, record, rng, waits = add_secret(store), Record(), random.Random(kills), []
    with ThreadPoolExecutor() as pool:
        managers = list(pool.map(lambda _: hear([*DAEMON, "--store", address]), range(MANAGERS)))
    try:
        with (
            balancing([one.port for one in managers]) as proxy,
            working(f"http://127.0.0.1:{proxy.port}", secret, folder, record) as links,
        ):
            for _ in range(kills):
                time.sleep(rng.uniform(0.1, 0.6))
                chosen = rng.randrange(MANAGERS)
                waits.append(kill_one(managers[chosen], links, record))
                managers[chosen] = hear([*DAEMON, "--store", address, "--port", str(managers[chosen].port)])
                check_acknowledged(store, record)
    finally:
        for one in managers:
            one.kill()
    check_all(store, links, record)
    return (
        f"{kills} kills of one of {MANAGERS} managers: all {len(record.reports) + sum(record.given.values()):,} "
        f"acknowledged reports are there; {len(record.versions)} versions, {len(record.pushed)} pushes and "
        f"{len(record.orders)} revisions, none twice, and no agent was sent back; all agents had new orders "
        f"{statistics.median(waits):.2f} s after a kill, {max(waits):.2f} s at most; "
        f"{proxy.refused} connections found no manager"
    )


def kill_one(manager: ServeProcess, links: Sequence[Link], record: Record) -> float:
    """Kill it; seconds until all agents have new orders from the others."""
    manager.process.kill()
    began = time.monotonic()
    wait_for_news(links, record)
    waited = time.monotonic() - began
    manager.kill()
    return waited
