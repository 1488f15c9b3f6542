"""What the demo reports at its end of a driver that runs and a manager that goes away."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.commands import refuse
from tests.service.serve_process import add_secret, service
from tuner.demo.demo_plan import APP, PARSE, Plan, describe, record_days
from tuner.demo.demo_run import Progress, follow
from tuner.history.live_status import Manager
from tuner.store.applications import add_application
from tuner.store.connection import open_store
from tuner.store.decisions import save_decisions
from tuner.store.records import DecisionRecord

BEGAN = 1_700_000_000.0


@pytest.fixture
def driver() -> Iterator[subprocess.Popen[bytes]]:
    """It runs until its input ends."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def tell(folder: Path, what: str) -> None:
    (folder / "at.json").write_text(json.dumps({"at": what, "began": BEGAN}))


def test_a_manager_that_is_gone_at_the_end_leaves_what_it_told_before(
    driver: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    store = tmp_path / "tuner.db"
    with closing(open_store(store)) as opened:
        with opened.begin() as session:
            add_application(session, APP, describe(Plan(), record_days(Plan(), tmp_path / "days.txt")), BEGAN)
            save_decisions(session, [DecisionRecord(APP, PARSE, BEGAN, "SCALED", "late", "+1 small")])
        secret = add_secret(opened)
    tell(tmp_path, "streaming")
    shown: list[Progress] = []
    with service(str(store)) as served, closing(Manager(served.url, secret, APP)) as manager:

        def show(progress: Progress) -> None:
            if not shown:
                served.stop()
                tell(tmp_path, "done")
            shown.append(progress)

        end = follow(driver, manager, tmp_path, Plan(), show)
    assert [progress.at for progress in shown] == ["streaming", "done"]
    assert [row["action"] for row in end.decisions] == ["+1 small"]
    assert end == shown[-1]


@pytest.mark.parametrize("began", [None, BEGAN])
def test_a_demo_of_which_nothing_is_known_is_refused(
    began: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no page is written of it."""
    totals = {"lines": 1, "words": 1, "counted": 1, "exact": True}
    monkeypatch.setattr("tuner.cli.demo_commands.run_demo", lambda *_: Progress("done", began, None, (), totals))
    page = tmp_path / "live.html"
    assert "give it more --minutes" in refuse("live", "demo", "--html", page)
    assert not page.exists()
