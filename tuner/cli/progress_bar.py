"""Progress bars on the terminal, of replays and of Spark jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark import StatusTracker


SHORT_S = 0.8


@contextmanager
def show_progress(total: int, doing: str = "Replaying") -> Iterator[Callable[[int], None]]:
    """What to call with how much of the total is done; nothing is shown where stderr is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn(doing), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task("", total=total)
    later = threading.Timer(SHORT_S, progress.start)
    if console.is_terminal:
        later.start()
    try:
        yield lambda done: progress.update(task, completed=done)
    finally:
        if console.is_terminal:
            later.cancel()
            later.join()
            progress.stop()


@contextmanager
def show_share(doing: str = "Replaying") -> Iterator[Callable[[float], None]]:
    """A progress bar to be called with the share that is done."""
    with show_progress(PARTS, doing) as show:
        yield lambda share: show(round(PARTS * share))


PARTS = 1000
EVERY_S = 0.5


class Doing:
    """Where the program is; written by its thread, read by that of the bar."""

    def __init__(self) -> None:
        self.step = 0
        self.tracker: StatusTracker | None = None


@contextmanager
def show_steps(steps: int) -> Iterator[tuple[Callable[[str, int], None], Doing]]:
    """What to call with each step, and where to put Spark's tracker once there is one; silent where nobody looks."""
    console = Console(stderr=True)
    progress = Progress(TextColumn("{task.description:<16}"), BarColumn(), TimeElapsedColumn(), console=console)
    bar = progress.add_task("", total=float(steps))
    doing, over = Doing(), threading.Event()

    def report(what: str, step: int) -> None:
        doing.step = step
        progress.update(bar, description=what, completed=float(step))

    def follow() -> None:
        while not over.wait(EVERY_S):
            progress.update(bar, completed=doing.step + share_done(doing.tracker))

    follower = threading.Thread(target=follow, daemon=True)
    if console.is_terminal:
        progress.live.transient = True
        progress.start()
        follower.start()
    try:
        yield report, doing
    finally:
        over.set()
        if console.is_terminal:
            follower.join()
            progress.stop()


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
