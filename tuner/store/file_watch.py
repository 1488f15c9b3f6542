"""Notice that another file was put in the place of an open SQLite database, or over it by renaming.

Connections go on with the file that they opened, so that what they commit is lost to whoever opens the path. A log
(-wal) that stayed beside the new file belongs to the old one, and would damage the new one as soon as it is opened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tuner.store.faults import Unavailable

Inode = tuple[int, int]  # device and number
LOGS = ("-wal", "-shm")
GONE = "is not there any more; put it back, nothing that was committed is lost"
SWAPPED = (
    "was replaced by another file while it was in use; stop what uses it, and bring the copy in with "
    "`tuner db restore COPY`"
)


def find_inode(path: Path) -> Inode | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


@dataclass(slots=True)
class FileWatch:
    """The file that connections have open, by device and inode; `reopen` returns whether the new one was restored."""

    path: Path
    reopen: Callable[[], bool]
    inode: Inode | None = None
    logs: set[Inode] = field(default_factory=set)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.inode = find_inode(self.path)

    def check(self) -> None:
        """Before a transaction: `Unavailable` where it would be another file's; a restored file is taken up."""
        if find_inode(self.path) == self.inode:
            return
        with self.turn:
            found = find_inode(self.path)
            if found is None:
                raise Unavailable(f"{self.path} {GONE}")
            if found == self.inode:  # another thread was first, or it was put back
                return
            if self.logs & self.find_logs() or not self.reopen():
                raise Unavailable(f"{self.path} {SWAPPED}")
            self.inode, self.logs = found, set()

    def confirm(self) -> None:
        """After a commit: `Unavailable` where it went into a file that is not at the path any more."""
        if find_inode(self.path) != self.inode:
            raise Unavailable(f"{self.path} {SWAPPED}")
        self.logs |= self.find_logs()

    def find_logs(self) -> set[Inode]:
        found = (find_inode(self.path.with_name(self.path.name + ending)) for ending in LOGS)
        return {inode for inode in found if inode is not None}
