"""Ctrl-C and SIGTERM in the middle of tune, serve and daemon: the process ends soon, by itself, and loses nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import tuner.cli.interruption
from scaler.model.sample import Sample
from tests.search.runs import APP, add
from tests.service.test_daemon_kills import SETTINGS, TAKES
from tests.service.world import SLOT_S, START, World, describe, register
from tuner.cli import COMMANDS, main
from tuner.cli.interruption import run_interruptibly
from tuner.cli.lazy_group import Entry
from tuner.store.connection import Store, open_store
from tuner.store.records import DecisionRecord
from tuner.store.runs import list_runs
from tuner.store.samples import save_samples
from tuner.store.trials import load_history

ROOT = Path(__file__).parents[1]
SOON_S = 15.0  # on a busy machine; a step of a search takes less than a second
OFTEN = [pytest.param(1, marks=pytest.mark.slow), pytest.param(20, marks=(pytest.mark.slow, pytest.mark.long))]


def start(*words: object, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as sink:
        return subprocess.Popen(
            [sys.executable, "-m", "tuner", *map(str, words)],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=sink, stderr=sink,
        )  # fmt: skip


def interrupt(process: subprocess.Popen[bytes], number: int, log: Path) -> int:
    """The exit code; nothing of Python's or C++'s own may be said."""
    process.send_signal(number)
    try:
        code = process.wait(SOON_S)
    finally:
        process.kill()
        process.wait()
    said = log.read_text()
    assert "Traceback" not in said, said
    assert "terminate called" not in said, said
    assert "Fatal Python error" not in said, said
    return code


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 120.0
    while not holds() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    if process.poll() is not None or not holds():
        process.kill()
        process.wait()
        raise AssertionError(log.read_text())


def count_trials(store: Store, app: str) -> int:
    with store.read() as session:
        return sum(len(load_history(session, run.id or 0)) for run in list_runs(session, app))


def report_recently(world: World, store: Store) -> None:
    """Ninety slots of samples that end now."""
    later = time.time() - START - 90 * SLOT_S

    def report(app: str, decisions: list[DecisionRecord], samples: list[Sample]) -> None:
        with store.begin() as session:
            save_samples(session, [replace(one, start=one.start + later, end=one.end + later) for one in samples])

    for _ in range(90):
        world.step(None, report)


@pytest.mark.parametrize("times", OFTEN)
def test_tune_ends_on_ctrl_c_and_resumes(times: int, tmp_path: Path) -> None:
    """The engine gp is in PyTorch most of the time."""
    chance, path, log = random.Random(times), tmp_path / "tuner.db", tmp_path / "log"
    with closing(open_store(path)) as store:
        add(store, slots=500)
        words: tuple[object, ...] = ("tune", APP, "--engine", "gp", "--budget", 400)
        for _ in range(times):
            before = count_trials(store, APP)
            process = start(*words, "--store", path, log=log)
            wait_until(lambda before=before: count_trials(store, APP) > before, process, log)  # type: ignore[misc]
            time.sleep(chance.uniform(0.0, 2.0))
            there = count_trials(store, APP)
            assert interrupt(process, signal.SIGINT, log) == 130
            assert count_trials(store, APP) >= there > before
            with store.read() as session:
                (run,) = list_runs(session, APP)
            assert (run.state, run.owner) == ("running", None)
            words = ("tune", APP, "--resume")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_daemon_ends_well_from_its_first_line_on(number: int, tmp_path: Path) -> None:
    """It said that it watched, and a signal of that moment still killed it."""
    path, log = tmp_path / "tuner.db", tmp_path / "log"
    open_store(path).close()
    process = start("daemon", "--store", path, log=log)
    wait_until(lambda: "Watching" in log.read_text(), process, log)
    assert interrupt(process, number, log) == 0


@pytest.mark.parametrize("times", OFTEN)
@pytest.mark.parametrize(
    ("command", "number", "code"),
    [
        pytest.param("daemon", signal.SIGINT, 0, marks=pytest.mark.long),
        ("daemon", signal.SIGTERM, 0),
        ("serve", signal.SIGINT, 130),
        pytest.param("serve", signal.SIGTERM, 0, marks=pytest.mark.long),
    ],
)
def test_a_search_in_the_background_ends_with_its_process(
    command: str, number: int, code: int, times: int, tmp_path: Path
) -> None:
    chance, path, log = random.Random(times), tmp_path / "tuner.db", tmp_path / "log"
    with closing(open_store(path)) as store:
        world = World("shop", {"parse": TAKES, "count": TAKES}, start=(6,))
        settings = {**SETTINGS, "engine": "gp", "budget": 400}
        register(store, world.app, describe(world.app, world.truth, 0.25, 12), settings)
        report_recently(world, store)
        options = ("--port", 0) if command == "serve" else ()
        for _ in range(times):
            before = count_trials(store, world.app)
            process = start(command, *options, "--store", path, log=log)
            wait_until(lambda before=before: count_trials(store, world.app) > before, process, log)  # type: ignore[misc]
            time.sleep(chance.uniform(0.0, 2.0))
            there = count_trials(store, world.app)
            assert interrupt(process, number, log) == code
            assert count_trials(store, world.app) >= there > before


@pytest.fixture
def interruptible() -> Iterator[None]:
    """As in a terminal; whoever started pytest may have had Ctrl-C ignored, or hanging up, as nohup does."""
    ways = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, way) for number, way in ways.items()}
    yield
    for number, way in before.items():
        signal.signal(number, way)


@pytest.mark.usefixtures("interruptible")
def test_a_signal_just_before_the_wait_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in some 60 came between the last look for signals and a wait without limit, and was lost."""
    monkeypatch.setattr(tuner.cli.interruption, "WAKE_S", 0.004)
    chance, stopped = random.Random(0), []

    def work(stop: threading.Event) -> None:
        until = time.monotonic() + 0.002
        while time.monotonic() < until:  # the main thread has to wait for the interpreter
            pass
        stopped.append(stop.wait(20.0))

    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        for _ in range(400):
            stop = threading.Event()
            with suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.0015))
                run_interruptibly(lambda stop=stop: work(stop), stop)  # type: ignore[misc]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert len(stopped) > 100
    assert all(stopped)


SWALLOWING = """
import click, signal
try:
    signal.raise_signal(signal.SIGINT)
except BaseException:
    pass
@click.command()
def command():
    print("worked")
"""


@pytest.mark.usefixtures("interruptible")
def test_an_import_that_swallows_ctrl_c_does_not_lose_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "swallowing.py").write_text(SWALLOWING)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(COMMANDS, "swallow", Entry("swallowing:command", "Swallow."))
    result = CliRunner().invoke(main, ["swallow"])
    assert (result.exit_code, result.output) == (130, "Interrupted.\n")


@click.command()
def swallow() -> None:
    with suppress(BaseException):
        signal.raise_signal(signal.SIGINT)
    run_interruptibly(lambda: print("worked"))


@pytest.mark.usefixtures("interruptible")
def test_work_does_not_begin_after_a_ctrl_c_that_got_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "swallow", Entry("tests.test_interruption:swallow", "Swallow."))
    for _ in range(2):
        result = CliRunner().invoke(main, ["swallow"])
        assert (result.exit_code, result.output) == (130, "Interrupted.\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


ENDLESS = """
import os, signal, threading, time
from concurrent.futures import ThreadPoolExecutor
from tuner.cli import interruption
interruption.CHILD_S = interruption.LEAVE_S = 0.2
signal.signal(signal.SIGINT, signal.default_int_handler)
pool = ThreadPoolExecutor(1)
def work():
    sleeping = pool.submit(time.sleep, 600.0)
    os.kill(os.getpid(), signal.{name})
    sleeping.result()
interruption.run_interruptibly(work)
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_work_that_cannot_be_stopped_ends_with_its_process(name: str, code: int) -> None:
    """The interpreter would wait for the thread of the pool at its end."""
    command = [sys.executable, "-c", ENDLESS.format(name=name)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60.0, check=False)
    assert done.returncode == code, done.stderr


COMPILING = """
import atexit, os, signal, time
from tuner.cli import interruption
interruption.CHILD_S = 0.2
signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(print, "LLVM is shut down")
def work():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(600.0)
try:
    interruption.run_interruptibly(work)
except KeyboardInterrupt:
    print("Interrupted.")
    raise SystemExit(130)
"""


def test_nothing_is_shut_down_under_work_that_goes_on() -> None:
    """Ctrl-C in the middle of compiling ended `tune` by LLVM's abort, with exit code -6."""
    command = [sys.executable, "-c", COMPILING]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60.0, check=False)
    assert (done.returncode, done.stdout) == (130, "Interrupted.\n"), done.stderr


LEFT_BEHIND = """
import atexit, threading, time
from tuner.cli import interruption
interruption.LEAVE_S = {leave_s}
search = threading.Thread(target=time.sleep, args=({goes_on_s},), daemon=True)
atexit.register(print, "LLVM is shut down")
with interruption.leaving_behind(lambda: search):
    search.start()
    {last}
"""


@pytest.mark.parametrize(
    ("last", "goes_on_s", "code", "told"),
    [
        ("pass", 600.0, 0, ""),
        ("raise SystemExit(3)", 600.0, 3, ""),
        ("raise KeyboardInterrupt", 600.0, 130, ""),
        ("search.join()", 0.0, 0, "LLVM is shut down\n"),
    ],
)
def test_a_search_that_goes_on_does_not_outlive_the_service(last: str, goes_on_s: float, code: int, told: str) -> None:
    """SIGTERM to `tuner serve` while its first search compiled ended by LLVM's abort, once everything was stopped."""
    script = LEFT_BEHIND.format(leave_s=0.2, goes_on_s=goes_on_s, last=last)
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60.0)
    assert (done.returncode, done.stdout) == (code, told), done.stderr
