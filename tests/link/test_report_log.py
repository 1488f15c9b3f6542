"""What waits for the manager: bounded, in order, one owner, and all of it there after a crash."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.link import Link
from scaler.link.link_state import SavedOrders, load_orders, save_orders
from scaler.link.report_log import CURSOR, DECISIONS, REPORT_KINDS, SAMPLES, ReportLog, ReportRecord
from scaler.model.orders import parse_orders
from tests.link.manager import TOKEN, Manager, make_orders, serve, until

ROOT = Path(__file__).parents[2]


def make_record(number: int, lane: str = DECISIONS, length: int = 10) -> ReportRecord:
    return ReportRecord(lane, json.dumps({"operator": "parse", "body": {"n": number, "pad": "x" * length}}).encode())


def numbers_of(outbox: ReportLog, most: int = 10**6) -> list[int]:
    return [body["n"] for _, _, body in outbox.next_batch(most, 1 << 30).records]


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[ReportLog]:
    made = ReportLog(tmp_path, limit_bytes=1 << 20)
    assert made.open()
    yield made
    made.close()


def test_what_is_settled_is_gone_and_the_rest_is_there_after_a_restart(outbox: ReportLog, tmp_path: Path) -> None:
    outbox.add([make_record(n) for n in range(100)])
    batch = outbox.next_batch(30, 1 << 20)
    assert outbox.next_batch(30, 1 << 20) == batch
    outbox.acknowledge(batch)
    assert outbox.waiting == 70
    outbox.close()
    again = ReportLog(tmp_path)
    assert again.open()
    assert numbers_of(again) == list(range(30, 100))
    again.acknowledge(again.next_batch(1000, 1 << 20))
    again.add([make_record(7)])
    again.close()
    third = ReportLog(tmp_path)
    assert third.open()
    assert numbers_of(third) == [7]
    third.close()


@pytest.mark.parametrize(
    "places",
    ["[1000000000, 0]", "[1, 1000000000]", "[1, 5]", "[1e400, 0]", "[1e300, 0]", "[2, 0]"],
    ids=["segment beyond", "byte beyond", "within a line", "infinite", "large", "next segment"],
)
def test_damaged_cursor_drops_nothing(tmp_path: Path, places: str) -> None:
    """A cursor beyond the segments dropped 1,000 waiting records silently; 1e400 in one closed the outbox for good."""
    before = ReportLog(tmp_path)
    assert before.open()
    before.add([make_record(n) for n in range(100)])
    before.close()
    (tmp_path / CURSOR).write_text(f'{{"decisions": {places}, "samples": [0, 0]}}')
    again = ReportLog(tmp_path)
    assert again.open()
    assert numbers_of(again) == list(range(100))
    assert (again.fault, again.waiting) == ("", 100)
    again.close()


def test_folder_in_place_of_a_segment_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "decisions-000000000001.jsonl").mkdir()
    made = ReportLog(tmp_path)
    assert made.open()
    made.add([make_record(n) for n in range(3)])
    assert (made.fault, numbers_of(made)) == ("", [0, 1, 2])
    assert not made.buffered
    made.close()


def test_the_oldest_samples_go_first_and_decisions_last(outbox: ReportLog) -> None:
    for n in range(40):
        outbox.add([make_record(n, length=10_000), make_record(1000 + n, SAMPLES, 30_000)])
    assert outbox.dropped[DECISIONS] == 0
    assert outbox.dropped[SAMPLES] > 0
    left = [n for n in numbers_of(outbox) if n >= 1000]
    assert left == list(range(1000 + outbox.dropped[SAMPLES], 1040))
    for n in range(40, 200):
        outbox.add([make_record(n, length=10_000)])
    assert outbox.dropped[SAMPLES] == 40
    assert numbers_of(outbox) == list(range(outbox.dropped[DECISIONS], 200))
    assert sum(path.stat().st_size for path in outbox.folder.glob("*.jsonl")) <= outbox.limit_bytes


def test_a_batch_that_was_dropped_on_its_way_is_settled_all_the_same(outbox: ReportLog) -> None:
    outbox.add([make_record(n, SAMPLES, 30_000) for n in range(5)])
    batch = outbox.next_batch(3, 1 << 20)
    for n in range(5, 100):
        outbox.add([make_record(n, SAMPLES, 30_000)])
    outbox.acknowledge(batch)
    assert numbers_of(outbox) == list(range(outbox.dropped[SAMPLES], 100))


def test_a_second_owner_keeps_what_it_has_in_memory(outbox: ReportLog, tmp_path: Path) -> None:
    second = ReportLog(tmp_path, memory_bytes=1000)
    assert not second.open()
    assert "another process owns" in second.fault
    second.add([make_record(n, SAMPLES if n % 2 else DECISIONS) for n in range(100)])
    assert second.dropped[SAMPLES] == 50
    assert second.dropped[DECISIONS] > 0
    outbox.close()
    assert second.open()
    second.add([])
    assert second.waiting == 100 - sum(second.dropped.values())
    assert not second.buffered
    second.close()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    outbox = ReportLog(tmp_path / "file")
    assert not outbox.open()
    outbox.add([make_record(1)])
    assert "cannot be written" in outbox.fault
    assert numbers_of(outbox) == [1]
    outbox.acknowledge(outbox.next_batch(10, 1000))
    assert outbox.waiting == 0


@settings(max_examples=60)
@given(
    st.lists(st.one_of(st.integers(1, 40), st.sampled_from(["send", "crash", "tear", "rot", "lose the cursor"]))),
    st.integers(1, 50),
)
def test_nothing_is_lost_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, script: list[int | str], most: int
) -> None:
    """Against a plain list: what was added is sent, in order, at least once; only a rotten line is missing."""
    folder = tmp_path_factory.mktemp("outbox")
    outbox, added, rotten = ReportLog(folder), 0, False
    sent: list[int] = []
    assert outbox.open()
    for event in script:
        if isinstance(event, int):
            outbox.add([make_record(added + i, REPORT_KINDS[(added + i) % 2]) for i in range(event)])
            added += event
        elif event == "send":
            batch = outbox.next_batch(most, 1 << 20)
            sent += [body["n"] for _, _, body in batch.records]
            outbox.acknowledge(batch)
        else:
            outbox.close()  # closes files; nothing else is written then
            if event == "tear":
                for path in sorted(folder.glob("*-0*.jsonl"))[-1:]:
                    path.write_bytes(path.read_bytes() + b'{"operator": "pa')
            if event == "lose the cursor":
                (folder / CURSOR).unlink(missing_ok=True)
            if event == "rot" and not rotten:
                for path in sorted(folder.glob("*-0*.jsonl"))[:1]:
                    lines = path.read_bytes().split(b"\n")
                    rotten = len(lines) > 1
                    path.write_bytes(b"\n".join([lines[0].replace(b":", b"?"), *lines[1:]]))
            outbox = ReportLog(folder)
            assert outbox.open()
    while outbox.waiting:
        batch = outbox.next_batch(most, 1 << 20)
        sent += [body["n"] for _, _, body in batch.records]
        outbox.acknowledge(batch)
    outbox.close()
    assert len(set(range(added)) - set(sent)) <= rotten
    assert set(sent) <= set(range(added))


def test_orders_are_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    document = make_orders(3, guards={"": {"pin": {}}})
    save_orders(tmp_path, SavedOrders(parse_orders(document), document, 5.0))
    whole = (tmp_path / "orders.json").read_bytes()
    assert load_orders(tmp_path, "shop") == SavedOrders(parse_orders(document), document, 5.0)
    rng = random.Random(1)
    for _ in range(100):
        at = rng.randrange(len(whole))
        damaged = whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(7))]) + whole[at + 1 :]
        (tmp_path / "orders.json").write_bytes(damaged)
        kept = load_orders(tmp_path, "shop")
        assert kept is None or kept.document == document  # the time alone may differ
        (tmp_path / "orders.json").write_bytes(whole[:at])
        assert load_orders(tmp_path, "shop") is None


@pytest.mark.slow
def test_a_driver_killed_at_random_moments_loses_nothing_that_was_on_disk(tmp_path: Path) -> None:
    rng = random.Random(6)
    manager = Manager(orders=make_orders(1))
    first = 0
    with serve(manager):
        for life in range(8):
            manager.say(mood=rng.choice(["", "", "forgetful", "error", "cut"]))
            command = [sys.executable, "-m", "tests.link.driver", str(tmp_path), manager.url, str(first)]
            progress = tmp_path / "written"
            with subprocess.Popen(command, cwd=ROOT) as driver:
                try:
                    until(lambda: progress.exists() and read_last(progress) >= first)  # noqa: B023
                    time.sleep(rng.uniform(0.0, 0.3))
                finally:
                    driver.kill()
            first = (life + 1) * 10_000_000
        manager.say(mood="")
        link = Link(manager.url, "shop", ["parse"], TOKEN, tmp_path / "link", "the last one")
        link.start()
        until(lambda: link.status().waiting == 0 and not link.sender.inbox and bool(link.reports.logs))
        link.stop()
    stored = {int(float(key[2])) for key in manager.rows}
    for last in map(int, progress.read_text().split("\n")[:-1]):
        begin = last // 10_000_000 * 10_000_000
        missing = set(range(begin, last + 1)) - stored
        assert not missing
    assert manager.received >= len(manager.rows)


def read_last(path: Path) -> int:
    lines = path.read_text().split("\n")[:-1]
    return int(lines[-1]) if lines else -1
