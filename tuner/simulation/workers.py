"""Run independent jobs on worker processes, which can be ended at any moment; results come in the jobs' order.

Each worker has a pipe of its own and one job at a time. Nothing is shared between workers, so that the end of one
leaves no lock held and no thread waiting, as it can in the pool of concurrent.futures.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, Generic, Never, TypeVar

from scaler.model.errors import Retry

CONTEXT = multiprocessing.get_context("spawn")  # a forked worker would copy a bar's thread in the middle of a write
STARTING = threading.Lock()  # held while a process starts: one whose parent ends at that moment prints a traceback
RUNNING: set[SpawnProcess] = set()
START_S = 10.0  # the longest that a start may take on a busy machine
WAKE_S = 0.5  # a signal that comes just before a wait does not end that
LEAVE_S = 5.0  # for a worker to end by itself once it has no more jobs

Job = TypeVar("Job")
Result = TypeVar("Result")


def count_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class WorkerProcess(Generic[Job, Result]):
    """A process that applies one function to the jobs it is sent, and our end of its pipe."""

    process: SpawnProcess
    pipe: Connection

    def send(self, job: Job) -> None:
        try:
            self.pipe.send(job)
        except ConnectionError:
            self.report_loss()

    def receive(self) -> Result:
        """The result of the job sent; what the job raised is raised here."""
        try:
            result, error = self.pipe.recv()
        except (EOFError, OSError):
            self.report_loss()
        if error is not None:
            raise error
        return result

    def report_loss(self) -> Never:
        self.process.join(LEAVE_S)
        code = self.process.exitcode
        killed = f" by signal {-code}" if code is not None and code < 0 else ""
        raise Retry(
            f"a worker process was ended{killed} before its job was done; if memory ran short, give it fewer cores"
        ) from None


def run_all(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    on_done: Callable[[int, Result], None] | None = None,
    workers: int | None = None,
    here: bool = False,
) -> list[Result]:
    """Apply a picklable function to every job; `on_done` is called with each result as it comes.

    `here`: this process is one of the workers, and begins while the others start. For jobs that are short.
    """
    workers = min(workers or count_cores(), len(jobs))
    results: dict[int, Result] = {}

    def keep(i: int, result: Result) -> None:
        results[i] = result
        if on_done is not None:
            on_done(i, result)

    if workers > 1:
        run_on_workers(function, jobs, keep, workers - here, here)
    else:
        for i, job in enumerate(jobs):
            keep(i, function(job))
    return [results[i] for i in range(len(jobs))]


def run_on_workers(
    function: Callable[[Job], Result], jobs: Sequence[Job], keep: Callable[[int, Result], None], count: int, here: bool
) -> None:
    """Give each worker a job whenever it has none; the first that raises ends them all."""
    with ExitStack() as stack:
        free = [stack.enter_context(started_worker(function)) for _ in range(count)]
        missing = iter(enumerate(jobs))
        busy: dict[Connection, tuple[int, WorkerProcess[Job, Result]]] = {}
        while True:
            for worker, (i, job) in zip(free, missing, strict=False):
                worker.send(job)
                busy[worker.pipe] = i, worker
            own = next(missing, None) if here else None
            if own is not None:
                keep(own[0], function(own[1]))
            elif not busy:
                return
            ready = wait(busy, WAKE_S if own is None else 0.0)
            answered = [busy.pop(pipe) for pipe in list(busy) if pipe in ready]
            results = [(i, worker.receive()) for i, worker in answered]
            free = [worker for _, worker in answered]
            for i, result in results:
                keep(i, result)


@contextmanager
def started_worker(function: Callable[[Job], Result]) -> Iterator[WorkerProcess[Job, Result]]:
    """A worker that ends by itself after the block, and by a signal where the block is left by an error."""
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=work, args=(theirs, function))
    with ours:
        with theirs, STARTING, blocked_interruption():
            process.start()
            RUNNING.add(process)
        try:
            yield WorkerProcess(process, ours)
        except BaseException:
            process.kill()
            raise
        finally:
            ours.close()
            end(process)


@contextmanager
def blocked_interruption() -> Iterator[None]:
    """Processes that start in the block inherit that Ctrl-C is blocked: none prints a traceback of its own."""
    resource_tracker.ensure_running()  # starting it would unblock signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end(process: SpawnProcess) -> None:
    """Wait for a worker that has been told to end, or kill it."""
    process.join(LEAVE_S)
    process.kill()
    process.join()
    RUNNING.discard(process)


def end_workers() -> None:
    """Kill all workers of this process, from any thread; who waits for their results gets a Retry.

    They hold nothing that would have to be put in order, and a SIGTERM does not reach one that is stopped.
    """
    for process in list(RUNNING):
        process.kill()


def leave() -> None:
    """At the interpreter's end: let no more workers start, and end those that run."""
    STARTING.acquire(timeout=START_S)
    end_workers()


atexit.register(leave)  # after that of multiprocessing, which would wait for them, and thus called before it


def work(pipe: Connection, function: Callable[[Any], Any]) -> None:
    """A worker's life: answer every job, until the other end of the pipe is closed."""
    enter_worker()
    with suppress(EOFError, ConnectionError):
        while True:
            pipe.send_bytes(answer(function, pipe.recv()))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # the parent waits for the end, and taking the interpreter apart takes a quarter of a second


def answer(function: Callable[[Job], Result], job: Job) -> memoryview:
    """A pickled pair: the result, or what was raised in its place."""
    try:
        return ForkingPickler.dumps((function(job), None))
    except Exception as error:
        return pickle_error(error, f"In a worker process:\n{traceback.format_exc()}")


def pickle_error(error: Exception, note: str) -> memoryview:
    """The error with a note; its name and message alone where it cannot be made again elsewhere."""
    error.add_note(note)
    try:
        pickled = ForkingPickler.dumps((None, error))
        pickle.loads(pickled)
    except Exception:
        return pickle_error(RuntimeError(f"{type(error).__name__}: {error}"), note)
    return pickled


def enter_worker() -> None:
    """Leave Ctrl-C to the parent, which ends its workers, and end with it even where it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """Wait for the parent's end, then end at once."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)
