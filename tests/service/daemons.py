"""Daemons as processes of their own, to be killed: forked from one that has everything loaded, so that each starts at
once; the time of applications is that of the last decision in the database."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess

from tuner.store.connection import Store, open_store

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # which forks keep
PATIENCE = 60.0  # seconds


def now_of(store: Store) -> float:
    """The end of the last slot that was reported."""
    from sqlalchemy import func, select

    from tests.service.world import SLOT_S, START
    from tuner.store.tables import DECISIONS

    with store.read() as session:
        last = session.scalar(select(func.max(DECISIONS.c.time)))
    return START if last is None else last + SLOT_S


def keep_watch(address: str) -> None:
    """What a process does until it is killed, or asked to end."""
    from threading import Event

    from tuner.retuning.loop import run_daemon

    over = Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    store = open_store(address)
    run_daemon(store, lambda: now_of(store), over.wait, ending=over.is_set, every=0.02)
    sys.stdout.flush()
    os._exit(0)


@contextmanager
def open_daemons() -> Iterator[Callable[[str], BaseProcess]]:
    """Something that starts them; all are gone when the block ends."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.service.preloaded"])
    started: list[BaseProcess] = []

    def start(address: str) -> BaseProcess:
        process = context.Process(target=keep_watch, args=(address,), daemon=True)
        process.start()
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.join(PATIENCE)
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def wait_for(
    what: Callable[[], bool], seconds: float = PATIENCE, meanwhile: Callable[[], object] = lambda: None
) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not come about in time"
        meanwhile()
        time.sleep(0.005)
