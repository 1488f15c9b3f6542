"""Reports reach a real manager, and orders come from it, whatever it does in between."""

from __future__ import annotations

import json
import logging
import math
import subprocess
import sys
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import pytest

from scaler.link import Link
from scaler.link.http import ManagerConnection, read_address
from scaler.link.link_state import ORDERS_FILE
from scaler.model.errors import BadInput, Retry
from tests.link.conftest import Hurry
from tests.link.manager import TOKEN, Manager, make_orders, serve, until

Join = Callable[..., Link]


def decide(time: float, **changes: object) -> dict[str, object]:
    return {"time": time, "kind": "NO_CHANGE", "reason": "it is quiet", "application": "shop", **changes}


def test_what_is_reported_arrives_as_it_was(manager: Manager, join: Join) -> None:
    link = join()
    link.report("parse", [decide(60.0, response=math.inf, rate=math.nan)], [{"start": 0.0, "end": 60.0, "key": "a"}])
    link.report("count", samples=[{"start": 60.0, "end": 120.0}])
    manager.until(lambda: len(manager.rows) == 3)
    row = dict(manager.rows["decisions", "parse", "60.0"])
    assert row.pop("sequence") > 1e15  # microseconds since 1970
    assert row == {"time": 60.0, "kind": "NO_CHANGE", "reason": "it is quiet", "response": "Infinity", "rate": None}
    assert manager.rows["samples", "parse", "0.0"] == {"start": 0.0, "end": 60.0}
    told = {r["operator"]: r for r in manager.reports}
    assert told["count"] == {
        "instance": "driver-1", "operator": "count", "revision": None, "samples": [{"start": 60.0, "end": 120.0}],
        "decisions": [], "detail": {},
    }  # fmt: skip
    until(lambda: link.status().waiting == 0)
    assert link.status().sent == 3
    assert link.age() < 30.0


def test_reports_are_numbered_in_their_order(manager: Manager, join: Join) -> None:
    """The clock stands still, and is set back: of two reports of a slot the later one has the higher number."""
    times = iter((1000.0, 1000.0, 400.0, 1000.0))
    now = [0.0]
    link = join(clock=lambda: now[0])
    for number in range(4):
        now[0] = next(times)
        link.report("parse", [decide(60.0 * number)])
    manager.until(lambda: len(manager.rows) == 4)
    sent = [manager.rows["decisions", "parse", f"{60.0 * number}"]["sequence"] for number in range(4)]
    assert sent == [1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3]


def test_a_kept_question_is_asked_anew_on_another_connection(manager: Manager, join: Join) -> None:
    """The manager was restored to the same revision, with other orders, while the connection was idle.

    The question was repeated on a new one with the ETag of before: it was answered that nothing was new, for ever.
    """
    manager.say(orders=make_orders(9))
    link = join(wait_s=0.2)
    manager.until(lambda: manager.asked[-1:] == ['"9"'])
    manager.say(mood="restored", orders=make_orders(9, slot_s=30.0))
    until(lambda: link.orders().slot_s == 30.0)  # type: ignore[union-attr]
    assert link.status().fault == ""


def test_orders_come_by_long_poll_and_are_acknowledged(manager: Manager, join: Join) -> None:
    link = join()
    assert link.orders() is None
    for revision in (1, 2, 3):
        manager.say(orders=make_orders(revision))
        manager.until(lambda r=revision: {("parse", r), ("count", r)} <= set(manager.acknowledged))  # type: ignore[misc]
        orders = link.orders()
        assert orders is not None
        assert orders.revision == revision
    assert len(manager.acknowledged) == 6
    until(lambda: link.status().acknowledged == 3)
    assert link.status().fault == ""


def test_orders_are_there_at_the_next_start_with_the_manager_gone(manager: Manager, join: Join, tmp_path: Path) -> None:
    manager.say(orders=make_orders(7))
    first = join()
    until(lambda: (tmp_path / "link" / ORDERS_FILE).exists())
    first.stop()
    again = join(url="http://127.0.0.1:9", clock=lambda: first.state.answered_at + 1000.0)
    orders = again.orders()
    assert orders is not None
    assert orders.revision == 7
    assert again.age() == 1000.0
    again.stop()
    kept = tmp_path / "link" / ORDERS_FILE
    for damaged in (kept.read_bytes()[:-9], kept.read_bytes().replace(b"60.0", b"61.0"), b"", b"[1]"):
        kept.write_bytes(damaged)
        assert join(url="http://127.0.0.1:9").orders() is None
    assert join(url="http://127.0.0.1:9", app="other").orders() is None


def test_orders_nested_too_deeply_leave_those_before(manager: Manager, join: Join) -> None:
    """They were taken up, could not be written, and so were lost at the next start, or at the next comparison."""
    deep: object = 1
    for _ in range(470):  # 940 levels: what the poll's thread still parses
        deep = {"a": [deep]}
    manager.say(orders=make_orders(7))
    link = join(wait_s=0.2)
    manager.until(lambda: ("count", 7) in manager.acknowledged)
    manager.say(orders=make_orders(8, guards={"parse": {"pin": deep}}))
    until(lambda: "nested more than 32 deep" in link.status().fault)
    assert link.status().fault.startswith(f"the manager at {manager.url}: the orders cannot be read")
    assert link.status().fault.endswith("; those before stand")
    assert link.orders().revision == 7  # type: ignore[union-attr]
    link.stop()
    again = join(url="http://127.0.0.1:9")
    assert again.orders().revision == 7  # type: ignore[union-attr]
    again.stop()
    manager.say(orders=make_orders(9))
    until(lambda: join(wait_s=0.2).orders().revision == 9)  # type: ignore[union-attr]


def test_a_restored_manager_is_followed_backwards(manager: Manager, join: Join) -> None:
    manager.say(orders=make_orders(9))
    link = join()
    manager.until(lambda: ("parse", 9) in manager.acknowledged)
    manager.say(orders=make_orders(4, slot_s=30.0))
    manager.until(lambda: ("parse", 4) in manager.acknowledged)
    assert link.orders().slot_s == 30.0  # type: ignore[union-attr]


def test_a_restored_manager_with_the_same_revision_is_followed(manager: Manager, join: Join, tmp_path: Path) -> None:
    """The ETag alone would not tell; the first question after a break is unconditional."""
    manager.say(orders=make_orders(9))
    link = join(wait_s=0.2)
    manager.until(lambda: ("parse", 9) in manager.acknowledged)
    manager.say(mood="cut")
    until(lambda: "cannot be reached" in link.status().fault or "not HTTP" in link.status().fault)  # the poll met it
    manager.say(mood="", orders=make_orders(9, slot_s=30.0))
    until(lambda: link.orders().slot_s == 30.0)  # type: ignore[union-attr]
    assert link.status().revision == 9


def test_days_without_a_manager_lose_nothing(join: Join, pace: Hurry) -> None:
    with serve(Manager()) as gone:
        pass  # a port where nobody listens
    link = join(url=gone.url)
    for slot in range(60):
        link.report("parse", [decide(60.0 * slot)], [{"start": 60.0 * slot, "end": 60.0 * slot + 60.0}])
    until(lambda: pace.passed > 2 * 86_400.0)
    assert "cannot be reached" in link.status().fault
    assert max(pace.waits) <= 60.0
    assert link.status().waiting == 120
    with serve(Manager(port=gone.port, orders=make_orders(1))) as back:
        back.until(lambda: len(back.rows) == 120)
        until(lambda: link.status().waiting == 0 and link.status().fault == "")


@pytest.mark.parametrize(
    "mood",
    [
        "garbage",
        "packed garbage",
        "bomb",
        "deep",
        "huge",
        "error",
        "cut",
        "half",
        "not http",
        "elsewhere",
        "unknown",
        "proxy unfit",
        "proxy too large",
        "bad request",
    ],
)
def test_a_manager_that_misbehaves_is_waited_for(manager: Manager, join: Join, mood: str) -> None:
    manager.say(orders=make_orders(1))
    link = join(wait_s=0.2)
    manager.until(lambda: ("count", 1) in manager.acknowledged)
    manager.say(mood=mood)
    link.report("parse", [decide(0.0)])
    manager.until(lambda: manager.refusals > 6)
    until(lambda: link.status().fault != "")
    assert link.status().fault.count("\n") == 0
    assert link.orders().revision == 1  # type: ignore[union-attr]
    assert link.status().waiting == 1
    manager.say(mood="", orders=make_orders(2))
    manager.until(lambda: len(manager.rows) == 1 and ("count", 2) in manager.acknowledged)
    until(lambda: link.status().fault == "")


def test_a_lost_answer_counts_once(manager: Manager, join: Join) -> None:
    manager.say(mood="forgetful")
    link = join()
    for slot in range(10):
        link.report("parse", [decide(float(slot))])
    manager.until(lambda: manager.received >= 30)
    manager.say(mood="")
    until(lambda: link.status().waiting == 0)
    assert len(manager.rows) == 10
    assert link.status().sent == 10


def test_token_file_is_read_again_when_it_changes(
    manager: Manager, join: Join, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, following = tmp_path / "token", "ts_" + "n" * 43
    path.write_text(f"{TOKEN}\n")
    manager.say(tokens=(TOKEN, following))
    link = join(token=path)
    for text, sent in ((TOKEN, TOKEN), ("", TOKEN), ("no token", TOKEN), (following, following)):
        path.write_text(text)
        manager.brought.clear()
        link.report("parse", [decide(60.0)])
        manager.until(lambda: bool(manager.brought))
        assert manager.brought == [sent]
    manager.say(tokens=(following,))
    path.unlink()
    link.report("parse", [decide(120.0)])
    manager.until(lambda: ("decisions", "parse", "120.0") in manager.rows)
    assert manager.refusals == 0
    assert following not in caplog.text
    with pytest.raises(BadInput, match="the token cannot be read from"):
        join(token=path)


def test_token_that_expires_is_logged_once_a_day(
    manager: Manager, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1_000_000.0]
    manager.say(expires="1500000")
    with caplog.at_level(logging.WARNING):
        link = join(clock=lambda: now[0])
        for count, later in enumerate((0.0, 80_000.0, 10_000.0), 1):
            now[0] += later
            link.report("parse", [decide(60.0 * count)])
            until(lambda n=count: link.status().sent == n)  # type: ignore[misc]
        assert link.status().token_expires == 1_500_000.0
        told = [r.getMessage() for r in caplog.records if "expires" in r.getMessage()]
        assert told == 2 * ["shop: the token expires at 1970-01-18 08:40:00 UTC; rotate it with: tuner token rotate"]
        manager.say(expires="")
        link.report("parse", [decide(600.0)])
        until(lambda: link.status().token_expires is None)


def test_a_refused_token_is_told_once_and_never_shown(
    manager: Manager, join: Join, pace: Hurry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    manager.say(mood="unauthorised")
    link = join(operators=("parse",))
    link.report("parse", [decide(0.0)])
    manager.until(lambda: manager.refusals >= 8)
    assert manager.refusals <= 4 + 2 * pace.passed / 50.0  # each of two threads tries once a minute
    told = [r.getMessage() for r in caplog.records if "does not let this token" in r.getMessage()]
    assert len(told) == 2  # of orders, and of reports
    manager.say(mood="")
    manager.until(lambda: len(manager.rows) == 1)
    shown = caplog.text + repr(link) + repr(vars(link)) + repr(link.connections[0]) + link.status().fault
    assert TOKEN not in shown


def test_a_report_that_is_too_large_is_split(manager: Manager, join: Join) -> None:
    manager.say(largest=2000)
    link = join()
    link.report("parse", [decide(float(slot)) for slot in range(200)])
    manager.until(lambda: len(manager.rows) == 200)
    assert link.status().refused == 0


def test_a_row_that_is_refused_does_not_hold_up_the_others(manager: Manager, join: Join, tmp_path: Path) -> None:
    manager.say(rotten="rotten")
    link = join()
    link.report("parse", [decide(float(slot), reason="rotten" if slot == 17 else "fine") for slot in range(40)])
    manager.until(lambda: len(manager.rows) == 39)
    until(lambda: link.status().waiting == 0)
    assert link.status().refused == 1
    assert "rotten" in (tmp_path / "link" / "refused.jsonl").read_text()


def test_a_busy_manager_is_given_its_time(manager: Manager, join: Join, pace: Hurry) -> None:
    manager.say(mood="busy", retry_after="300")
    link = join()
    link.report("parse", [decide(0.0)])
    until(lambda: any(wait >= 60.0 for wait in pace.waits))
    manager.until(lambda: manager.refusals >= 4)
    manager.say(mood="")
    manager.until(lambda: len(manager.rows) == 1)
    assert link.status().waiting <= 1


def test_a_wrong_etag_makes_no_storm(manager: Manager, join: Join, pace: Hurry) -> None:
    manager.say(mood="wrong etag", orders=make_orders(1))
    link = join()
    manager.until(lambda: len(manager.asked) >= 10)
    assert len([wait for wait in pace.waits if wait >= 1.0]) >= len(manager.asked) - 4
    assert link.orders().revision == 1  # type: ignore[union-attr]


def test_abort_while_connecting_ends_the_request(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    connection, connect = ManagerConnection(read_address(manager.url), TOKEN), HTTPConnection.connect

    def connect_slowly(self: HTTPConnection) -> None:
        connection.abort()
        connect(self)

    monkeypatch.setattr(HTTPConnection, "connect", connect_slowly)
    with pytest.raises(Retry, match="cannot be reached"):
        connection.request("GET", "/v1/applications/shop/orders?wait=0")


def test_rows_beyond_the_room_are_counted_as_dropped(
    tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.link.sender.MAX_INBOX", 10)
    link = Link(manager.url, "shop", ("parse",), TOKEN, tmp_path, "driver-1")  # not started: nothing is taken from it
    for i in range(12):
        link.report("parse", samples=[{"start": float(i)}])
    assert (link.status().waiting, link.status().dropped) == (10, 2)


def test_rows_that_nobody_can_write_are_counted(join: Join, manager: Manager) -> None:
    link = join()
    link.report("parse", [{"time": object()}, None, decide(1.0)])  # type: ignore[list-item]
    manager.until(lambda: len(manager.rows) == 1)
    assert link.status().refused == 2
    assert "plain values" in link.status().fault


@pytest.mark.parametrize(
    "url", ["manager:8080", "ftp://manager", "http://user:secret@manager", "http://[::1", "http://manager:99999", ""]
)
def test_an_address_that_is_none_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the address of the manager") as told:
        Link(url, "shop", ["parse"], None, tmp_path, "driver-1")
    assert "secret" not in str(told.value)
    with pytest.raises(BadInput) as told:
        Link("http://127.0.0.1:1", "shop", ["parse"], "sec ret", tmp_path, "driver-1")
    assert "sec ret" not in str(told.value)


def test_the_link_loads_the_standard_library_and_numpy() -> None:
    code = (
        "import sys, json, numpy, scaler.model.orders; before = set(sys.modules); import scaler.link; "
        "tops = {m.partition('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names); "
        "print(json.dumps(sorted(tops)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["scaler"]


def test_an_interpreter_ends_while_the_link_waits(tmp_path: Path, manager: Manager) -> None:
    code = (
        "from pathlib import Path; from scaler.link import Link; import time\n"
        f"link = Link({manager.url!r}, 'shop', ['parse'], {TOKEN!r}, Path({str(tmp_path)!r}), 'driver-1')\n"
        "link.start(); time.sleep(0.3)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
