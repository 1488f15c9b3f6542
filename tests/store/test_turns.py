"""One of several managers at a time has a turn; it is free again as soon as its process is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.conftest import POSTGRES
from tests.store.release import fill
from tuner.service.daily_copies import DAY_S, copy_if_due
from tuner.service.upkeep import prune_in_turn
from tuner.store.connection import Store, open_store
from tuner.store.retention import Pruning, Retention
from tuner.store.schema_version import HEAD
from tuner.store.turns import turn_of

PATIENCE = 30.0  # seconds
DAY = 20_000 * DAY_S
HOLD = """
import sys
from tuner.store.connection import open_store
from tuner.store.turns import turn_of
with turn_of(open_store(sys.argv[1]), sys.argv[2]) as is_ours:
    print(is_ours, flush=True)
    sys.stdin.read()
"""


def is_free(store: Store, what: str) -> bool:
    with turn_of(store, what) as is_ours:
        return is_ours


def wait_until_free(store: Store, what: str) -> None:
    until = time.monotonic() + PATIENCE
    while not is_free(store, what):
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def other(server_store: Store) -> Iterator[Store]:
    """As another manager has the database."""
    with closing(open_store(server_store.engine.url.render_as_string(hide_password=False))) as opened:
        yield opened


@POSTGRES
@pytest.mark.slow
def test_a_killed_managers_turn_is_free(server_store: Store) -> None:
    address = server_store.engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-c", HOLD, address, "copies"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert not is_free(server_store, "copies")
        assert is_free(server_store, "retention")
        holder.kill()
    wait_until_free(server_store, "copies")


@POSTGRES
def test_managers_with_one_folder_make_one_copy_a_day(server_store: Store, other: Store, tmp_path: Path) -> None:
    with turn_of(other, "daily copies"):
        assert copy_if_due(server_store, tmp_path, 3, DAY) is None
    assert copy_if_due(server_store, tmp_path, 3, DAY) is not None
    assert copy_if_due(other, tmp_path, 3, DAY + 60.0) is None
    assert len(list(tmp_path.iterdir())) == 1


@POSTGRES
def test_one_manager_prunes(server_store: Store, other: Store) -> None:
    fill(server_store, HEAD)
    pruning = Pruning(server_store, Retention(1.0, 1.0, 1.0))
    with turn_of(other, "retention"):
        assert prune_in_turn(pruning, lambda: False) == {}
    assert is_free(other, "retention")
    assert prune_in_turn(pruning, lambda: False)["decisions"] > 0
