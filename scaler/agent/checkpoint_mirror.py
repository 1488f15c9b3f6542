"""Copy an agent's checkpoint beside that of its streaming query, and fetch it from there.

A driver that is started again on another machine has the checkpoint of its stream and nothing else. It may lie on any
of Hadoop's file systems, whose API is public; Spark passes over what it does not know there. A file system that hangs
blocks nobody: copies are made on a thread of their own, one at a time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from scaler.sensing.driver import Driver

LOG = logging.getLogger("scaler.agent")
FOLDER = "_scalers"
PART = ".part"
PATIENCE_S = 10.0


class CheckpointCopy(Protocol):
    """Where a file of ours has a copy that outlives the machine."""

    def fetch(self, file: Path) -> None: ...

    def put(self, file: Path) -> None: ...

    def close(self, patience: float) -> None: ...


class CheckpointMirror:
    """Of one query."""

    def __init__(self, driver: Driver, query: str, patience: float = PATIENCE_S) -> None:
        self.driver, self.query, self.patience = driver, query, patience
        self.root: str | None = None
        self.thread: threading.Thread | None = None

    def fetch(self, file: Path) -> None:
        """Bring the copy here, unless what is here is as new."""
        self.start(lambda: self.bring(file))
        self.close(self.patience)

    def put(self, file: Path) -> None:
        """Returns at once; while a copy is still being made the next one waits for its turn to come again."""
        self.start(lambda: self.take(file))

    def close(self, patience: float) -> None:
        """Wait for the copy that is being made, but not for ever."""
        if self.thread is not None:
            self.thread.join(patience)

    def start(self, step: Callable[[], None]) -> None:
        if self.thread is None or not self.thread.is_alive():
            self.thread = threading.Thread(target=self.attempt, args=(step,), name="scaler-copies", daemon=True)
            self.thread.start()

    def attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # what is on this machine's disk is there all the same
            LOG.warning("what was learned cannot be copied beside the checkpoint of query %s: %s", self.query,
                        str(error).strip().partition("\n")[0][:300])  # fmt: skip

    def take(self, file: Path) -> None:
        """A crash at any moment leaves the copy before, or the part that is to take its place whole."""
        files, place, part = self.find(file)
        files.copyFromLocalFile(False, True, self.local(file), part)
        files.delete(place, False)
        files.rename(part, place)

    def bring(self, file: Path) -> None:
        files, place, part = self.find(file)
        there = place if files.exists(place) else part
        if not files.exists(there):
            return
        if file.exists() and file.stat().st_mtime >= files.getFileStatus(there).getModificationTime() / 1000.0:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        part_here = file.with_name(f".{file.name}{PART}")
        files.copyToLocalFile(False, there, self.local(part_here), True)
        part_here.replace(file)

    def find(self, file: Path) -> tuple[Any, Any, Any]:
        """The file system, and on it the copy's place and that of one that is being made."""
        self.root = self.root or self.driver.find_checkpoint(self.query)
        if self.root is None:
            raise LookupError("no such query runs")
        make = self.driver.jvm.org.apache.hadoop.fs.Path
        place = make(f"{self.root}/{FOLDER}/{file.name}")
        return place.getFileSystem(self.driver.context.hadoopConfiguration()), place, make(str(place) + PART)

    def local(self, file: Path) -> Any:
        return self.driver.jvm.org.apache.hadoop.fs.Path(file.absolute().as_uri())
