"""Renew the lease of a tuning run during long evaluations, and release it when the run stops."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scaler.model.errors import BadInput, Retry
from tuner.store.connection import Store
from tuner.store.records import TuningRun
from tuner.store.runs import LEASE_S, release_run, renew_run

Clock = Callable[[], float]


@contextmanager
def renew_lease(store: Store, run: TuningRun, clock: Clock) -> Iterator[Callable[[], None]]:
    """Renew the lease while an evaluation takes long; what it yields raises where the run was taken over."""
    ended, lost = threading.Event(), threading.Event()

    def renew() -> None:
        while not ended.wait(LEASE_S / 4):
            try:
                with store.begin() as session:
                    renew_run(session, run, clock())
            except Retry:  # taken over, or no answer: the next write will tell which, in a transaction that is fenced
                lost.set()

    def check() -> None:
        if lost.is_set():
            store.write(lambda session: renew_run(session, run, clock()))
            lost.clear()

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield check
    finally:
        ended.set()
        thread.join()


def release_lease(store: Store, run: TuningRun) -> None:
    """Leave an interrupted run for anybody to resume; where even that fails, its lease runs out."""
    try:
        with store.begin() as session:
            release_run(session, run)
    except (Retry, BadInput):
        return
