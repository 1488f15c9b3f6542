"""Write files whole: a crash at any moment leaves the new content or that before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scaler.model.errors import BadInput


def check_place(path: Path) -> None:
    """Refuse a path at which no file can be, before the work for it is done."""
    if path.is_dir():
        raise BadInput(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise BadInput(f"{path} cannot be written, for there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise BadInput(f"{path} cannot be written, for {path.parent} is not yours to write to; name another folder")


def write_whole(path: Path, text: str) -> None:
    """Write a text that a person asked for; BadInput where it cannot be written."""
    try:
        with replacing(path) as part:
            part.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}); name another file") from error


def write_durably(path: Path, content: bytes) -> None:
    """Write what must outlast a power failure (fsync); OSError where it cannot be written."""
    with replacing(path) as part, part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` that takes its place when the block ends, and is gone when it raises."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make names last, where the system can open a folder at all."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
