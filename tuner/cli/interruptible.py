"""A piece of work in; its result out, or the interruption as soon as it comes, whatever the work is in the middle of.

The work runs on a thread of its own that hears no signal. Numba makes a kernel's named tuples by calling their Python
constructors, in which a signal's handler would run, and what it raises there ends the process by a segmentation fault.
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


def run_interruptibly(work: Callable[[], Result]) -> Result:
    """Do the work; Ctrl-C or a SIGTERM ends the processes that it has started, and leaves the thread to its end.

    Those processes inherit the thread's deafness, so that none of them prints a traceback of its own on Ctrl-C. The
    resource tracker is started first, because starting it makes a thread hear again.
    """
    outcome: Future[Result] = Future()

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    resource_tracker.ensure_running()
    with hearing_termination():
        threading.Thread(target=run, daemon=True).start()
        try:
            return outcome.result()
        except (KeyboardInterrupt, SystemExit):
            for process in multiprocessing.active_children():
                process.terminate()
            raise


@contextmanager
def hearing_termination() -> Iterator[None]:
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
