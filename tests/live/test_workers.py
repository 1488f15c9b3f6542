"""Worker processes: real ones, that stand for Spark's, and Spark's own on a real master; the clock is the test's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scaler.acting.dry_run import DryRun
from scaler.acting.worker_fleet import Fleet, Kind
from scaler.acting.worker_processes import Process, find_processes, note, recall, signal_process, start_process
from scaler.acting.workers import Workers
from scaler.model.errors import BadInput, Retry
from tests.bed.cluster import ROOT, Worker, make_environment, start_cluster, stop, write_worker
from tests.live.wait import await_true

HERE = ("sh", "-c")
PROGRAM = str(Path(__file__).with_name("worker.py"))


class Yard:
    """A folder, a clock to be moved by hand, and the fleet in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 0.0
        self.seen: set[int] = set()
        self.fleet = self.open()

    def open(self, **changes: Any) -> Fleet:
        start = [sys.executable, PROGRAM, str(self.folder), "{worker}"]
        kinds = {name: Kind(start, slots=2, most=3) for name in ("small", "large")}
        kinds = {name: replace(kind, **changes) for name, kind in kinds.items()}
        return Fleet(kinds, self.folder, lambda: self.now, linger=30.0, patience=60.0)

    def tend(self, seconds: float = 0.0, small: int = 0, large: int = 0, hasty: bool = False) -> None:
        self.now += seconds
        self.fleet.tend({"small": small, "large": large}, hasty)
        self.seen |= {one.number for one in self.fleet.owned}

    def told(self, name: str) -> list[str]:
        path = self.folder / f"{name}.told"
        return path.read_text().split() if path.exists() else []

    def is_up(self, name: str, times: int = 1) -> None:
        await_true(lambda: self.told(name).count("up") >= times)

    def is_gone(self, name: str) -> None:
        """Tended without the clock's going on, until it is known to have ended."""
        await_true(lambda: self.fleet.count() is not None and name not in self.fleet.fates)


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    yard = Yard(tmp_path)
    yield yard
    for one in recall(tmp_path):
        signal_process(one, "KILL")
    for number in yard.seen:  # what a worker left behind is in its group
        with suppress(ProcessLookupError):
            os.killpg(number, signal.SIGKILL)


def test_workers_come_by_type_and_go_when_they_were_not_needed_for_a_while(yard: Yard) -> None:
    yard.tend(small=2, large=1)
    assert yard.fleet.count() == {"small": 2, "large": 1}
    for name in ("small-1", "small-2", "large-1"):
        yard.is_up(name)
    yard.tend(29.0, small=1, large=1)
    yard.tend(29.0, small=1, large=1)
    assert yard.fleet.count() == {"small": 2, "large": 1}
    yard.tend(2.0, small=1, large=1)
    assert yard.fleet.count() == {"small": 1, "large": 1}
    await_true(lambda: yard.told("small-1") == ["up", "PWR"])
    yard.tend(1.0, small=1, large=1)
    yard.is_gone("small-1")
    assert yard.told("small-1") == ["up", "PWR", "TERM"]
    yard.tend(1.0, small=2, large=1)
    yard.is_up("small-1", times=2)  # its place is free again


def test_one_that_is_needed_again_in_time_stays(yard: Yard) -> None:
    yard.tend(small=1)
    yard.is_up("small-1")
    for _ in range(3):
        yard.tend(25.0, small=0)
        yard.tend(25.0, small=1)
    assert yard.told("small-1") == ["up"]


def test_those_without_executors_go_first_and_those_with_get_time(yard: Yard) -> None:
    for name, count in (("small-1", 2), ("small-2", 0), ("small-3", 1)):
        (yard.folder / f"{name}.children").write_text(str(count))
    yard.tend(small=3)
    for name in ("small-1", "small-2", "small-3"):
        yard.is_up(name)
    yard.tend(1.0, small=1)
    yard.tend(31.0, small=1)
    await_true(lambda: yard.told("small-2") == ["up", "PWR"])
    assert yard.told("small-3") == ["up"]  # whoever has the executors takes some away, perhaps this very one
    yard.tend(1.0, small=1)
    yard.is_gone("small-2")
    yard.tend(60.0, small=1)
    await_true(lambda: yard.told("small-3") == ["up", "PWR"])
    assert yard.told("small-1") == ["up"]
    yard.tend(59.0, small=1)
    assert yard.told("small-3") == ["up", "PWR"]  # its executor goes on
    (yard.folder / "stubborn").touch()
    yard.tend(2.0, small=1)
    await_true(lambda: yard.told("small-3") == ["up", "PWR", "TERM"])
    yard.tend(11.0, small=1)
    yard.is_gone("small-3")
    assert yard.fleet.count() == {"small": 1, "large": 0}


def test_executors_that_end_when_drained_are_not_waited_for(yard: Yard) -> None:
    (yard.folder / "small-1.children").write_text("1")
    (yard.folder / "obeys").touch()
    yard.tend(small=1)
    yard.is_up("small-1")
    yard.tend(0.0, hasty=True)
    yard.tend(31.0, hasty=True)
    await_true(lambda: yard.told("small-1") == ["up", "PWR"])
    (one,) = yard.fleet.owned
    await_true(lambda: find_processes(HERE).children(one) == 0)
    yard.tend(1.0, hasty=True)
    yard.is_gone("small-1")


def test_a_worker_that_dies_is_replaced_and_one_that_never_lives_is_not_tried_without_end(yard: Yard) -> None:
    yard.tend(small=1)
    yard.is_up("small-1")
    yard.now += 1000.0
    os.kill(yard.fleet.owned[0].number, signal.SIGKILL)
    yard.is_gone("small-1")
    (yard.folder / "broken").touch()
    attempts = 0
    for _ in range(20):
        before = len(yard.fleet.owned)
        yard.tend(1.0, small=1)
        if len(yard.fleet.owned) > before:
            attempts += 1
            yard.is_gone("small-1")
    assert attempts == 4  # after 2, 4 and 8 seconds
    assert yard.fleet.problem("small") == "a worker of node type 'small' ended as soon as it ran; see small-1.log"
    (yard.folder / "broken").unlink()
    yard.tend(60.0, small=1)
    yard.tend(21.0, small=1)
    assert yard.fleet.problem("small") is None


def test_whoever_comes_after_a_crash_knows_the_workers(yard: Yard) -> None:
    yard.tend(small=2)
    yard.is_up("small-1")
    yard.is_up("small-2")
    yard.tend(1.0, small=1)
    yard.tend(31.0, small=1)  # one is drained
    numbers = {one.number for one in yard.fleet.owned}
    with pytest.raises(BadInput, match="somebody else's now"):
        yard.open()
    yard.fleet.close()
    yard.fleet = yard.open()
    assert {one.number for one in yard.fleet.owned} == numbers
    assert yard.fleet.count() == {"small": 1, "large": 0}
    yard.tend(1.0, small=1)
    yard.is_gone("small-1")
    assert yard.fleet.count() == {"small": 1, "large": 0}


@pytest.mark.parametrize("changed", [{"started": "1"}, {"boot": "0-0"}])
def test_a_number_that_was_used_again_is_never_signalled(tmp_path: Path, changed: dict[str, Any]) -> None:
    """A bystander has the number of a worker that we noted."""
    with subprocess.Popen(["sleep", "300"]) as bystander:
        try:
            boot = find_processes(HERE).boot
            started = find_processes(HERE).table[bystander.pid][1]
            true = Process("small-1", "small", HERE, bystander.pid, started, boot)
            false = replace(true, **changed)
            assert true in find_processes(HERE)
            assert false not in find_processes(HERE)
            assert not signal_process(false, "KILL")
            note(tmp_path, false)
            path = tmp_path / "small-1.process.json"
            assert path.exists()
            fleet = Fleet({"small": Kind(["true"])}, tmp_path, lambda: 0.0, 0.0, 0.0)
            fleet.tend({}, hasty=True)
            assert fleet.owned == []
            assert not path.exists()
            fleet.close()
            assert bystander.poll() is None
            assert signal_process(true, "TERM")
            assert bystander.wait(30) == -signal.SIGTERM
        finally:
            bystander.kill()


def test_words_reach_the_worker_as_they_are(tmp_path: Path) -> None:
    words = ["sh", "-c", 'echo "$1|$ODD" && sleep 300', "sh", "a 'b' $HOME; *"]
    one = start_process(tmp_path, "odd-1", "odd", words, HERE, {"ODD": "c\"d' e"})
    try:
        await_true(lambda: (tmp_path / "odd-1.log").read_text() == "a 'b' $HOME; *|c\"d' e\n")
        assert recall(tmp_path) == [one]
    finally:
        os.killpg(one.number, signal.SIGKILL)


def test_files_and_settings_that_cannot_be_are_refused(tmp_path: Path) -> None:
    (tmp_path / "small-1.process.json").write_text("{}")
    with pytest.raises(BadInput, match="does not tell of a process"):
        recall(tmp_path)
    with pytest.raises(BadInput, match="is no name of an environment variable"):
        start_process(tmp_path, "x", "x", ["true"], HERE, {"A;B": "1"})
    with pytest.raises(BadInput, match="must be lists of words"):
        Workers({"small": Kind("spark-class")}, str(tmp_path))
    with pytest.raises(BadInput, match="slots must be 1 or more"):
        Workers({"small": Kind(["true"], slots=0)}, str(tmp_path))
    with pytest.raises(Retry, match="did not run a command line"):
        find_processes(["/no/such/shell"])


class Refusing(DryRun):
    def ask(self, operator: str, target: Mapping[str, int]) -> None:
        raise Retry("the master is away")


def count(workers: Workers) -> Mapping[str, int] | None:
    """A fleet is for one thread at a time, and the actuator's own tends it meanwhile."""
    with workers.working:
        return workers.fleet.count()


def test_targets_of_all_operators_make_up_the_need_and_a_refused_one_does_not_count(tmp_path: Path) -> None:
    start = [sys.executable, PROGRAM, str(tmp_path), "{worker}"]
    kinds = {"small": Kind(start, slots=2, most=2), "large": Kind(start, slots=1, most=1)}
    workers = Workers(kinds, str(tmp_path), DryRun(), linger=0.0, patience=0.0, period=0.05)
    try:
        assert workers.room("count", "small") is None
        workers.ask("split", {"small": 1})
        workers.ask("count", {"small": 2, "large": 1})
        assert workers.count_wanted() == ({"small": 3, "large": 1}, True)
        assert workers.room("count", "small") is None
        assert workers.room("count", "large") == "all 1 workers of node type 'large' are taken"
        assert workers.room("count", "huge") == "no worker of node type 'huge' can be started"
        await_true(lambda: count(workers) == {"small": 2, "large": 1})
        workers.ask("count", {})
        await_true(lambda: count(workers) == {"small": 1, "large": 0})
        workers.inner = Refusing()
        with pytest.raises(Retry, match="the master is away"):
            workers.ask("count", {"small": 3})
        assert workers.count_wanted() == ({"small": 1, "large": 0}, True)
        workers.inner = None
        assert workers.deployed("split") == {"small": 1, "large": 0}
        workers.ask("split", {})
        await_true(lambda: not workers.fleet.owned)
    finally:
        workers.close()
    with pytest.raises(Retry, match="closed"):
        workers.ask("split", {"small": 1})


class Standing(DryRun):
    """Executors of two operators, as a test says; None: they cannot be counted."""

    def __init__(self, stands: Mapping[str, int] | None) -> None:
        super().__init__()
        self.pinned, self.stands, self.counted = ("split", "count"), stands, 0

    def deployed(self, operator: str) -> Mapping[str, int] | None:
        self.counted += operator == "count"
        return self.stands if operator == "count" else {}


def test_after_a_restart_workers_stay_for_those_that_are_content_with_what_they_have(tmp_path: Path) -> None:
    start = [sys.executable, PROGRAM, str(tmp_path), "{worker}"]

    def begin(inner: DryRun) -> Workers:
        kinds = {"small": Kind(start, slots=1, most=4)}
        return Workers(kinds, str(tmp_path), inner, linger=0.0, patience=0.0, period=0.05)

    def tend_on(inner: Standing) -> None:
        before = inner.counted
        await_true(lambda: inner.counted > before + 5)

    workers = begin(DryRun())
    try:
        workers.ask("split", {"small": 1})
        workers.ask("count", {"small": 2})
        await_true(lambda: count(workers) == {"small": 3})
        workers.close()
        inner = Standing({"small": 2, "other": 1})
        workers = begin(inner)
        assert workers.room("split", "small") is None
        workers.ask("split", {"small": 1})
        tend_on(inner)
        assert count(workers) == {"small": 3}
        workers.ask("split", {"small": 2})  # more come beside those that stand
        await_true(lambda: count(workers) == {"small": 4})
        assert workers.room("split", "small") == "all 4 workers of node type 'small' are taken"
        inner.stands = None
        workers.ask("split", {})
        tend_on(inner)
        assert count(workers) == {"small": 4}
        inner.stands = {"small": 1}
        await_true(lambda: count(workers) == {"small": 1})
        workers.ask("count", {})  # from now on its target counts, not what stands
        await_true(lambda: not workers.fleet.owned)
    finally:
        workers.close()
        for one in recall(tmp_path):
            signal_process(one, "KILL")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_workers_of_a_real_cluster_come_with_their_executors_and_go_drained(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    with start_cluster(tmp_path / "cluster", ()) as master, log.open("wb") as sink:
        kinds = {}
        for place in (Worker("127.0.0.2", "small", 1.0, 1, "600m"), Worker("127.0.0.3", "large", 1.6, 1, "600m")):
            start, environment = write_worker(tmp_path / "cluster", place, master)
            kinds[place.node_type] = {"start": start, "environment": environment}
        (tmp_path / "kinds.json").write_text(json.dumps(kinds))
        command = [sys.executable, "-m", "tests.live.drive_workers", master, str(tmp_path)]
        driver = subprocess.Popen(
            command, cwd=ROOT, env=make_environment("127.0.0.1"), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = driver.wait(150)
        finally:
            stop(driver)
            for one in recall(tmp_path / "workers"):
                signal_process(one, "KILL")
    assert code == 0, log.read_text(errors="replace")[-4000:]
    told = json.loads((tmp_path / "told.json").read_text())
    print(json.dumps(told, indent=1))
    assert told["before"] == {"small": 0, "large": 0}
    assert told["ran on"] == {"small": 4}
    assert told["then on"] == {"large": 4}
    assert told["workers at the end"] == []
