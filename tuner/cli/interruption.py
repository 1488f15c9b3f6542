"""Run a command's long work so that Ctrl-C and SIGTERM end it between two steps, and always within seconds.

Numba makes a kernel's named tuples by calling their Python constructors. A signal handler would run there, and what it
raises ends the process by a segmentation fault. A thread that the interpreter's end throws out of PyTorch aborts it.
Thus work runs on a thread that no signal interrupts; a stop is a flag, checked between steps, and the interpreter ends
after the thread has.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import resource_tracker
from typing import TypeVar

import click

from tuner.cli.signals import DeferredSignals, check_interruption, deferred_signals, raising_on_termination
from tuner.simulation.workers import end_workers

Result = TypeVar("Result")
STEP_S = 10.0  # the longest step that an interruption waits for, unless it is told otherwise
CHILD_S = 1.0  # where the work cannot be stopped but by the end of its processes
LEAVE_S = 1.0  # for the interpreter to end although the work goes on
TELL_S = 0.5  # after which a person is told that it was heard
WAKE_S = 0.1  # between two looks for a signal


def run_interruptibly(
    work: Callable[[], Result], stop: threading.Event | None = None, patience_s: float = STEP_S
) -> Result:
    """Do the work; Ctrl-C or a SIGTERM sets `stop`, ends the worker processes, and waits for its thread.

    A second signal ends the wait. Work that goes on all the same ends with the process, which then waits for no thread
    any more. Processes' resource tracker is started first, because starting it unblocks signals on the thread.
    """
    results: list[Result] = []
    errors: list[BaseException] = []
    done = threading.Lock()
    done.acquire()

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGINT})
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            done.release()

    with raising_on_termination(), deferred_signals() as signals:
        check_interruption()
        resource_tracker.ensure_running()
        threading.Thread(target=run, daemon=True).start()
        try:
            while not done.acquire(timeout=WAKE_S):
                signals.handle()
        except (KeyboardInterrupt, SystemExit) as leaving:
            if stop is not None:
                stop.set()
            if not end_work(done, signals, CHILD_S if stop is None else patience_s):
                exit_despite(lambda wait_s: done.acquire(timeout=wait_s), leaving)
            raise
    if errors:
        raise errors[0]
    return results[0]


def end_work(done: threading.Lock, signals: DeferredSignals, patience_s: float) -> bool:
    """Terminate worker processes until the work is done; False where patience ends first, or by a second signal."""
    began = time.monotonic()
    deadline, told = began + patience_s, patience_s <= CHILD_S
    while time.monotonic() < deadline and not signals.received:
        end_workers()
        if done.acquire(timeout=WAKE_S / 2):
            return True
        if not told and time.monotonic() > began + TELL_S:
            told = True
            click.echo(f"\nStopping: the step under way has {patience_s:g} s to end.", err=True)
    return False


def exit_despite(is_done: Callable[[float], bool], leaving: BaseException | None) -> None:
    """Exit soon without waiting for threads, unless the work is done by then; workers end with their parent.

    The interpreter's end would take from the work what it stands on: LLVM aborts the process while it compiles.
    `is_done` waits for so many seconds at most.
    """
    code = find_exit_code(leaving)

    def leave(wait_s: float = 0.0) -> None:
        if not is_done(wait_s):
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(code)

    atexit.register(leave)  # before those that were registered so far
    threading.Thread(target=leave, args=(LEAVE_S,), daemon=True).start()


def find_exit_code(leaving: BaseException | None) -> int:
    if isinstance(leaving, SystemExit):
        return leaving.code if isinstance(leaving.code, int) else 1
    if isinstance(leaving, KeyboardInterrupt):
        return 128 + signal.SIGINT
    return 0 if leaving is None else 1


@contextmanager
def leaving_behind(find_thread: Callable[[], threading.Thread | None]) -> Iterator[None]:
    """Let the process end after the block although a thread, found at the block's end, still goes on."""
    leaving: BaseException | None = None
    try:
        yield
    except BaseException as error:
        leaving = error
        raise
    finally:
        thread = find_thread()
        if thread is not None and thread.is_alive():
            exit_despite(partial(wait_for_end, thread), leaving)


def wait_for_end(thread: threading.Thread, wait_s: float) -> bool:
    thread.join(wait_s)
    return not thread.is_alive()
