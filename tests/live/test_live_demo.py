"""`tuner live demo` on a real cluster: what it counts, how it scales, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tuner.store.connection import open_store
from tuner.store.decisions import list_decisions
from tuner.store.records import DecisionRecord

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.xdist_group("spark")]

TUNER = [sys.executable, "-c", "from tuner.cli import main; main()"]
MARK = "TUNER_LIVE_TEST"
LIMIT_S = 60.0


def start(mark: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [*TUNER, "live", "demo", "--keep", str(folder), *arguments]
    return subprocess.Popen(
        command, env={**os.environ, MARK: mark}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def finish(demo: subprocess.Popen[str], limit_s: float) -> tuple[str, str]:
    """What it printed; one that does not end is killed."""
    with demo:
        try:
            return demo.communicate(timeout=limit_s)
        finally:
            demo.kill()


def find_left(mark: str) -> list[str]:
    """Processes that inherited our mark, by their command lines."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"{MARK}={mark}".encode() in (place / "environ").read_bytes()
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marked and command:
            found.append(command[:200])
    return found


def await_true(ask: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + LIMIT_S
    while not ask():
        assert time.monotonic() < limit, what
        time.sleep(0.1)


def test_a_stream_scales_itself_and_counts_each_word_once(tmp_path: Path) -> None:
    mark, page = uuid.uuid4().hex, tmp_path / "live.html"
    demo = start(mark, tmp_path / "run", "--minutes", "2", "--json", "--html", str(page))
    told, said = finish(demo, 240.0)
    assert demo.returncode == 0, (said, (tmp_path / "run" / "driver.log").read_text()[-3000:])
    figures = json.loads(told)
    print(json.dumps(figures, indent=1))
    assert figures["exact"] is True
    assert figures["words"] == figures["counted"] > figures["lines"] > 400
    assert 0.0 < figures["cost"] < figures["static_large"]["cost"] * 2.0
    read = page.read_text()
    assert "<td>SCALED +1 " in read  # replicas came
    assert "<td>SCALED -1 " in read  # and went
    assert "ts_" not in read + told + said + (tmp_path / "run" / "driver.log").read_text()
    await_true(lambda: not find_left(mark), f"left: {find_left(mark)}")


def test_two_operators_on_different_node_types_are_scaled_at_the_same_time(tmp_path: Path) -> None:
    """Each by its own scaler: replicas of both come while the rate is high, and neither gets the other's type."""
    own = {"parse": "small", "count": "large"}
    places = [word for operator, node_type in own.items() for word in ("--on", f"{operator}={node_type}")]
    demo = start(uuid.uuid4().hex, tmp_path / "run", "--minutes", "2", "--json", *places)
    told, said = finish(demo, 240.0)
    assert demo.returncode == 0, (said, (tmp_path / "run" / "driver.log").read_text()[-3000:])
    assert json.loads(told)["exact"] is True
    rows = read_decisions(tmp_path / "run" / "manager.db")
    most = {name: max(row.seen["deployment"].get(own[name], 0) for row in rows if row.operator == name) for name in own}
    print(most, [(row.time, row.operator, row.action) for row in rows if row.action])
    assert all(set(row.seen["deployment"]) <= {own[row.operator]} for row in rows)
    assert min(most.values()) > 1
    spans = {name: [row.time for row in rows if row.operator == name and row.kind == "SCALED"] for name in own}
    assert max(map(min, spans.values())) <= min(map(max, spans.values()))  # neither waited for the other to be done


def read_decisions(path: Path) -> list[DecisionRecord]:
    """The oldest first."""
    with closing(open_store(str(path))) as store, store.read() as session:
        return list_decisions(session, "demo", limit=None)[::-1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_goes_on_once_it_is_killed_or_interrupted(number: int, tmp_path: Path) -> None:
    mark, at = uuid.uuid4().hex, tmp_path / "run" / "at.json"
    demo = start(mark, tmp_path / "run")
    try:
        await_true(lambda: at.exists() and "executors" in at.read_text(), "the driver did not come so far")
        assert len(find_left(mark)) > 6
    finally:
        demo.send_signal(number)
    _, said = finish(demo, LIMIT_S)
    assert demo.returncode == {signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: 130}[signal.Signals(number)]
    assert "Traceback" not in said
    await_true(lambda: not find_left(mark), f"left: {find_left(mark)}")
