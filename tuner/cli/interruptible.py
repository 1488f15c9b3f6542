"""Run work on a thread that no signal interrupts, so that Ctrl-C ends it between two steps and not within one.

Numba makes a kernel's named tuples by calling their Python constructors. A signal handler would run there, and what it
raises ends the process by a segmentation fault. A thread that the interpreter's end throws out of PyTorch aborts it.
Thus a stop is a flag, checked between steps, and the interpreter ends after the thread has.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import TypeVar

Result = TypeVar("Result")
STEP_S = 10.0  # the longest step that an interruption waits for
CHILD_S = 1.0  # where the work cannot be stopped but by the end of its processes


def run_interruptibly(work: Callable[[], Result], stop: threading.Event | None = None) -> Result:
    """Do the work; Ctrl-C or a SIGTERM sets `stop`, ends the processes that it has started, and waits for its thread.

    Those processes inherit the thread's signal mask, so that none of them prints a traceback of its own on Ctrl-C. The
    resource tracker is started first, because starting it unblocks signals on the thread. A second signal ends the
    wait.
    """
    outcome: Future[Result] = Future()

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    resource_tracker.ensure_running()
    with raising_on_termination():
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            return outcome.result()
        except (KeyboardInterrupt, SystemExit):
            if stop is not None:
                stop.set()
            end_children()
            thread.join(CHILD_S if stop is None else STEP_S)
            raise


def end_children() -> None:
    """Terminate the worker processes of this one."""
    for process in multiprocessing.active_children():
        process.terminate()


@contextmanager
def raising_on_termination() -> Iterator[None]:
    """Let SIGTERM and a closed terminal unwind the stack, unless they are ignored or handled as it is.

    Only the main thread can ask for that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
