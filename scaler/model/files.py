"""Write files whole: a crash at any moment leaves the new content or that before.

What programs write for themselves (databases, outboxes, checkpoints) is its owner's alone; what a person asked for has
the permissions that the umask leaves.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from scaler.model.errors import BadInput

OWNER_ONLY, OWNER_FOLDER = 0o600, 0o700
NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # which only some systems have


def check_place(path: Path) -> None:
    """Refuse a path at which no file can be, before the work for it is done."""
    if path.is_dir():
        raise BadInput(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise BadInput(f"{path} cannot be written, for there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise BadInput(f"{path} cannot be written, for {path.parent} is not yours to write to; name another folder")


def make_folder(path: Path) -> None:
    """Make a folder that a person named, and those above it; BadInput where there can be none."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"there can be no folder {path} ({error.strerror}); name another one") from error


def write_whole(path: Path, text: str) -> None:
    """Write a text that a person asked for; BadInput where it cannot be written."""
    try:
        with replacing(path, private=False) as part:
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
def replacing(path: Path, private: bool = True) -> Iterator[Path]:
    """Yield an empty file beside `path` that takes its place when the block ends, and is gone when it raises.

    It is made here, under a name that nobody can guess: a link planted in its place led to another file.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    create_file(part, OWNER_ONLY if private else 0o666)
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def create_file(path: Path, mode: int = OWNER_ONLY) -> None:
    """Make an empty file; FileExistsError where there is anything, a link that leads nowhere included."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, mode))


def open_private(path: Path, mode: str) -> IO[Any]:
    """Open a file that is its owner's alone where this makes it; OSError where it is a link."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags | NO_LINK, OWNER_ONLY))


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
