"""Run independent jobs on all cores; results come in the order of the jobs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def count_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def enter_worker() -> None:
    """Leave Ctrl-C to the parent, which ends its workers, and end with it even where it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """Wait for the parent's end, then end at once."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)  # as the parent ends its workers itself


def run_all(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    on_done: Callable[[int, Result], None] | None = None,
    workers: int | None = None,
) -> list[Result]:
    """Apply a picklable function to every job; `on_done` hears of each result as it comes.

    Workers are spawned, not forked: a progress bar's thread must not be copied in the middle of a write.
    """
    workers = min(workers or count_cores(), len(jobs))
    results: dict[int, Result] = {}

    def keep(i: int, result: Result) -> None:
        results[i] = result
        if on_done is not None:
            on_done(i, result)

    if workers <= 1:
        for i, job in enumerate(jobs):
            keep(i, function(job))
        return [results[i] for i in range(len(jobs))]
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), enter_worker)
    try:
        futures = {pool.submit(function, job): i for i, job in enumerate(jobs)}
        for future in as_completed(futures):
            keep(futures[future], future.result())
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return [results[i] for i in range(len(jobs))]
