"""Show a command's progress: a bar, and Spark without its output."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from tuner.pipeline.session import start_session

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

Result = TypeVar("Result")
SHORT_S = 0.8  # of work that needs no bar
PARTS = 1000
EVERY_S = 0.5


@contextmanager
def show_bar(*columns: ProgressColumn, total: float, after_s: float = 0.0) -> Iterator[Callable[..., None]]:
    """Show a bar once the work took so long; what updates it. Nothing is shown where stderr is no terminal."""
    console = Console(stderr=True)
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task("", total=total)
    later = threading.Timer(after_s, progress.start)
    if console.is_terminal:
        later.start()
    try:
        yield partial(progress.update, task)
    finally:
        if console.is_terminal:
            later.cancel()
            later.join()
            progress.stop()


@contextmanager
def show_progress(total: int, doing: str = "Replaying") -> Iterator[Callable[[int], None]]:
    """A bar to be called with how much of the total is done."""
    columns = (TextColumn(doing), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with show_bar(*columns, total=total, after_s=SHORT_S) as update:
        yield lambda done: update(completed=done)


@contextmanager
def show_share(doing: str = "Replaying") -> Iterator[Callable[[float], None]]:
    """A bar to be called with the share that is done."""
    with show_progress(PARTS, doing) as show:
        yield lambda share: show(round(PARTS * share))


class Doing:
    """Where the program is; written by its thread, read by that of the bar."""

    def __init__(self) -> None:
        self.step = 0
        self.tracker: StatusTracker | None = None


@contextmanager
def show_steps(steps: int) -> Iterator[tuple[Callable[[str, int], None], Doing]]:
    """What to call with each step, and where to put Spark's tracker once there is one; silent where nobody looks."""
    doing, over = Doing(), threading.Event()
    with show_bar(TextColumn("{task.description:<16}"), BarColumn(), TimeElapsedColumn(), total=steps) as update:

        def report(what: str, step: int) -> None:
            doing.step = step
            update(description=what, completed=step)

        def follow() -> None:
            while not over.wait(EVERY_S):
                update(completed=doing.step + share_done(doing.tracker))

        follower = threading.Thread(target=follow, daemon=True)
        if sys.stderr.isatty():
            follower.start()
        try:
            yield report, doing
        finally:
            over.set()
            if follower.ident is not None:
                follower.join()


def share_done(tracker: StatusTracker | None) -> float:
    """Of the tasks that Spark knows of now; never a whole step, which the program itself announces."""
    if tracker is None:
        return 0.0
    try:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # the session may end at any moment under a bar that only wants to look
        return 0.0
    total = sum(stage.numTasks for stage in stages if stage)
    return 0.95 * sum(stage.numCompletedTasks for stage in stages if stage) / total if total else 0.0


def start_quietly(master: str, settings: Mapping[str, str]) -> SparkSession:
    """What Java prints goes to a file that is gone with this process; failures are raised to us anyway."""
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        return refuse_failures(lambda: start_session(master, settings))
    with tempfile.TemporaryFile() as said, diverted(said):
        return refuse_failures(lambda: start_session(master, {**settings, "spark.log.level": "OFF"}))


@contextmanager
def diverted(into: IO[bytes]) -> Iterator[None]:
    """Let processes that start now write their errors there, while ours go where they went."""
    sys.stderr.flush()
    kept, ours = os.dup(2), sys.stderr
    try:
        os.dup2(into.fileno(), 2)
        if ours is sys.__stderr__:
            sys.stderr = os.fdopen(os.dup(kept), "w", buffering=1, encoding="utf-8")
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        if sys.stderr is not ours:
            sys.stderr.close()
            sys.stderr = ours


def refuse_failures(work: Callable[[], Result]) -> Result:
    """The work's result, or a sentence where Spark cannot do it."""
    try:
        return work()
    except Exception as error:
        if not is_sparks(error):
            raise
        raise click.ClickException(f"Spark could not do it: {find_cause(error)}") from error


def is_sparks(error: Exception) -> bool:
    """Whether Spark raised it; where Spark was not loaded it did not."""
    if "pyspark" not in sys.modules:
        return False
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    return isinstance(error, Py4JError | PySparkException)


def find_cause(error: Exception) -> str:
    """The innermost reason that Java gives, or the last line of a Python task's traceback."""
    cause = getattr(error, "java_exception", None)
    if cause is None:
        lines = str(error).strip().splitlines()
        errors = [line for line in lines if "Error:" in line or "Exception:" in line]
        return (errors or lines or [type(error).__name__])[-1].strip()
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString()).strip().splitlines()[0]
