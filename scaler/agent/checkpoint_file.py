"""Write and read checkpoint files, and copy them beside the checkpoint of their streaming query.

A file is written whole or stays as it was: arrays, and the ordered replicas by node type. A driver that is started
again on another machine has its stream's checkpoint and nothing else, so the copy lies there, on any of Hadoop's file
systems (public API; Spark ignores what it does not know there). Copies are made one at a time on a thread of their own:
a file system that hangs blocks nobody.
"""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from scaler.model.files import OWNER_FOLDER, OWNER_ONLY, write_durably
from scaler.sensing.driver import Driver

LOG = logging.getLogger("scaler.agent")
LONGEST_NAME = 200
TARGET = "target"
FOLDER = "_scalers"
PART = ".part"
DOWNLOAD_S = 10.0


def name_file(folder: Path, operator: str) -> Path:
    return folder / f"{quote(operator, safe='')[:LONGEST_NAME]}.npz"


def write_checkpoint(path: Path, arrays: Mapping[str, NDArray[Any]], target: Mapping[str, int]) -> None:
    """Replace the checkpoint; a crash at any moment leaves this one or the one before."""
    path.parent.mkdir(OWNER_FOLDER, parents=True, exist_ok=True)
    named: dict[str, Any] = {f"a.{name}": value for name, value in arrays.items()}  # no argument of savez's own
    content = io.BytesIO()
    np.savez(content, **{**named, f"a.{TARGET}": np.array(json.dumps(dict(target)))})
    write_durably(path, content.getvalue())


def read_checkpoint(path: Path) -> dict[str, NDArray[Any]] | None:
    """Read the arrays, the target among them; None where there is no file, or a damaged one."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:  # opened here, for it leaks else
            return {name.removeprefix("a."): file[name] for name in file.files}
    except FileNotFoundError:
        return None
    except Exception as error:  # zipfile, zlib and numpy raise whatever kind the damaged bytes lead them to
        LOG.warning("checkpoint %s cannot be read (%s); the scaler starts anew", path, error)
        return None


def read_target(arrays: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Ordered replicas by node type; none where the checkpoint does not say."""
    try:
        return {str(name): int(count) for name, count in json.loads(str(arrays[TARGET])).items()}
    except (KeyError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return {}


class CheckpointMirror:
    """Copies of an agent's checkpoint beside that of one query."""

    def __init__(self, driver: Driver, query: str, timeout: float = DOWNLOAD_S) -> None:
        self.driver, self.query, self.timeout = driver, query, timeout
        self.root: str | None = None
        self.thread: threading.Thread | None = None

    def download(self, file: Path) -> None:
        """Replace the local file by the copy, unless it is as new."""
        self.start(lambda: self.replace_local(file))
        self.close(self.timeout)

    def upload(self, file: Path) -> None:
        """Copy the local file, and return at once; skipped while another copy is being made."""
        self.start(lambda: self.replace_copy(file))

    def close(self, timeout: float) -> None:
        """Wait for the copy that is being made."""
        if self.thread is not None:
            self.thread.join(timeout)

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

    def replace_copy(self, file: Path) -> None:
        """A crash at any moment leaves the copy before, or the part that is to replace it, whole."""
        files, place, part = self.find_copy(file)
        files.copyFromLocalFile(False, True, self.make_path(file), part)
        files.delete(place, False)
        files.rename(part, place)

    def replace_local(self, file: Path) -> None:
        files, place, part = self.find_copy(file)
        source = place if files.exists(place) else part
        if not files.exists(source):
            return
        if file.exists() and file.stat().st_mtime >= files.getFileStatus(source).getModificationTime() / 1000.0:
            return
        file.parent.mkdir(OWNER_FOLDER, parents=True, exist_ok=True)
        local_part = file.with_name(f".{file.name}{PART}")
        files.copyToLocalFile(False, source, self.make_path(local_part), True)
        local_part.chmod(OWNER_ONLY)
        local_part.replace(file)

    def find_copy(self, file: Path) -> tuple[Any, Any, Any]:
        """The file system, and on it the paths of the copy and of one that is being made."""
        self.root = self.root or self.driver.find_checkpoint(self.query)
        if self.root is None:
            raise LookupError("no such query runs")
        make = self.driver.jvm.org.apache.hadoop.fs.Path
        place = make(f"{self.root}/{FOLDER}/{file.name}")
        return place.getFileSystem(self.driver.context.hadoopConfiguration()), place, make(str(place) + PART)

    def make_path(self, file: Path) -> Any:
        return self.driver.jvm.org.apache.hadoop.fs.Path(file.absolute().as_uri())
