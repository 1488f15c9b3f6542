"""Worker processes: results in order, errors as they were raised, and nothing that stays or waits once one ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from scaler.model.errors import BadInput, Retry
from tuner.simulation.workers import RUNNING, count_cores, end_workers, run_all

ROOT = Path(__file__).parents[1]


def square(number: int) -> int:
    return number * number


def weigh(whole: bytes) -> bytes:
    return whole[::-1]


class Foreign(Exception):
    """Cannot be made again from its arguments, as pickle does."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(f"{name} {number}")


def refuse(number: int) -> int:
    if number == 3:
        raise BadInput("three is too many")
    if number == 4:
        raise Foreign("four", 4)
    return number


def kill_itself(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def wait_after_a_sign(sign: Path) -> None:
    sign.touch()
    time.sleep(600.0)


def freeze(sign: Path) -> None:
    sign.touch()
    os.kill(os.getpid(), signal.SIGSTOP)


def take_part(place: Path) -> tuple[Path, int]:
    """Those beside leave a sign; this process waits for the first."""
    if multiprocessing.parent_process() is not None:
        place.touch()
    while not any(place.parent.iterdir()):
        time.sleep(0.01)
    return place, os.getpid()


def test_results_come_in_order_and_each_is_told_once() -> None:
    told: list[tuple[int, int]] = []
    assert run_all(square, range(20), lambda i, result: told.append((i, result)), workers=3) == [
        number * number for number in range(20)
    ]
    assert sorted(told) == [(number, number * number) for number in range(20)]
    assert not RUNNING


def test_no_jobs_need_no_workers() -> None:
    assert run_all(square, [], workers=2) == []
    assert run_all(square, [7], workers=2) == [49]


@pytest.mark.skipif(count_cores() < 2, reason="on one core there is no process beside this one")
def test_short_jobs_are_done_by_this_process_and_those_beside_it(tmp_path: Path) -> None:
    places = [tmp_path / str(i) for i in range(6)]
    done = run_all(take_part, places, here=True)
    assert [place for place, _ in done] == places
    assert {process == os.getpid() for _, process in done} == {True, False}
    assert not RUNNING
    assert run_all(take_part, [], here=True) == []
    with pytest.raises(BadInput, match="three is too many"):
        run_all(refuse, [1, 2, 3, 1], here=True)
    assert not RUNNING


def test_jobs_larger_than_a_pipe_holds_come_through() -> None:
    jobs = [bytes([i]) * 3_000_000 for i in range(4)]
    assert run_all(weigh, jobs, workers=2) == jobs


def test_an_error_is_raised_as_it_was_and_ends_all_workers() -> None:
    with pytest.raises(BadInput, match="three is too many") as raised:
        run_all(refuse, [1, 2, 3, 1], workers=2)
    assert "in refuse" in raised.value.__notes__[0]
    assert not RUNNING


def test_an_error_that_cannot_be_sent_keeps_its_words() -> None:
    with pytest.raises(RuntimeError, match="Foreign: four 4") as raised:
        run_all(refuse, [1, 4], workers=2)
    assert "in refuse" in raised.value.__notes__[0]


def test_a_killed_worker_is_a_sentence() -> None:
    with pytest.raises(Retry, match="ended by signal 9 before its job was done"):
        run_all(kill_itself, [1, 2, 3], workers=2)
    assert not RUNNING


def test_what_a_listener_raises_ends_the_workers() -> None:
    def listen(i: int, result: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_all(square, range(5), listen, workers=2)
    assert not RUNNING


@pytest.mark.parametrize("job", [wait_after_a_sign, freeze])
def test_workers_end_from_another_thread(job: object, tmp_path: Path) -> None:
    """Those too that are stopped, which hear no signal but SIGKILL."""
    signs = [tmp_path / "1", tmp_path / "2"]
    over = threading.Event()

    def end() -> None:
        while not over.wait(0.05):
            if all(sign.exists() for sign in signs):
                end_workers()

    ending = threading.Thread(target=end)
    ending.start()
    try:
        with pytest.raises(Retry):
            run_all(job, signs, workers=2)  # type: ignore[arg-type]
    finally:
        over.set()
        ending.join()
    assert not RUNNING


ENDED_WHILE_IT_STARTS = """
import threading
from contextlib import suppress
from multiprocessing import process
from scaler.model.errors import Retry
from tests.test_workers import wait_after_a_sign
from tuner.simulation.workers import run_all
from pathlib import Path
usual = process.BaseProcess.start
begun = threading.Event()
def start(self):
    begun.set()
    usual(self)
process.BaseProcess.start = start
def work():
    with suppress(Retry):  # as its workers are ended
        run_all(wait_after_a_sign, [Path({sign!r})] * 2, workers=2)
threading.Thread(target=work, daemon=True).start()
begun.wait()
"""


def test_the_end_of_a_program_that_starts_workers_is_silent(tmp_path: Path) -> None:
    """A worker whose parent ends while it starts would print a traceback."""
    code = ENDED_WHILE_IT_STARTS.format(sign=str(tmp_path / "sign"))
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
