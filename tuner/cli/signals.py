"""Handle Ctrl-C, SIGTERM and a closed terminal at moments that suit: nothing broken, and none of them lost.

A signal's handler is called between two instructions of Python, wherever the main thread stands. What it raises in an
import can be swallowed there, or come out as another error; in a lock's code it can leave that locked.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = threading.Event()  # Ctrl-C came, whatever became of the KeyboardInterrupt


@contextmanager
def noted_interruption() -> Iterator[None]:
    """Note each Ctrl-C that raises KeyboardInterrupt in the block, for `check_interruption`."""
    INTERRUPTED.clear()
    if not is_main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        INTERRUPTED.set()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def check_interruption() -> None:
    """Raise KeyboardInterrupt where one was raised before and got lost."""
    if INTERRUPTED.is_set():
        raise KeyboardInterrupt


def is_main_thread() -> bool:
    """Python lets no other thread set a signal's handler."""
    return threading.current_thread() is threading.main_thread()


@dataclass(frozen=True, slots=True)
class DeferredSignals:
    """Handlers in use, and the signals that they are still to be called with."""

    handlers: dict[int, Callable[[int, FrameType | None], object]]
    received: list[int] = field(default_factory=list)

    def handle(self) -> None:
        while self.received:
            number = self.received.pop(0)
            self.handlers[number](number, None)


@contextmanager
def deferred_signals() -> Iterator[DeferredSignals]:
    """Call signals' handlers where the block asks for it, and after it.

    Where it waits, it must ask every now and then: a signal that comes just before a wait does not end that.
    """
    signals = DeferredSignals({number: usual for number in STOPPING if callable(usual := signal.getsignal(number))})
    if not is_main_thread():
        yield signals
        return
    for number in signals.handlers:
        signal.signal(number, lambda number, _: signals.received.append(number))
    try:
        yield signals
    finally:
        for number, usual in signals.handlers.items():
            signal.signal(number, usual)
    signals.handle()


@contextmanager
def raising_on_termination() -> Iterator[None]:
    """Let SIGTERM and a closed terminal unwind the stack, unless they are ignored or handled as it is.

    Only the main thread can ask for that.
    """
    if not is_main_thread():
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
