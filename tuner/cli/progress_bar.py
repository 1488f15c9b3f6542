"""How much is done so far in, a bar on the terminal out, once it has taken long enough to want one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

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
